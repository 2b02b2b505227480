/* Empties a file in three ways: ftruncate, O_TRUNC, creat. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        snprintf(name, sizeof name, "out/victim%d", round);
        int out = open(name, O_RDWR);
        cold_reads(argv[1]);
        struct stat st;
        fstat(out, &st);
        effect();
        if (round % 3 == 0)
            say("ftruncate", ftruncate(out, 3));
        else if (round % 3 == 1)
            close(open(name, O_WRONLY | O_TRUNC));
        else
            close(creat(name, 0600));
        say("was", st.st_size);
        fstat(out, &st);
        say("is", st.st_size);
    }
    return finish();
}
