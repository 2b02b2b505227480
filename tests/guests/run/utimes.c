/* Sets times. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        struct stat st;
        stat("out/file", &st);
        effect();
        struct timespec times[2] = {{500000000 + round, 7}, {500000000 + round, (long)(checksum % 1000)}};
        say("utimensat", utimensat(AT_FDCWD, "out/file", times, 0));
        dprintf(1, "was %lld\n", (long long)st.st_mtime);
    }
    return finish();
}
