/* Shortens a file by path, a little each round. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        struct stat st;
        stat("out/file", &st);
        effect();
        say("truncate", truncate("out/file", st.st_size / 2 + checksum % 2));
        say("was", st.st_size);
    }
    return finish();
}
