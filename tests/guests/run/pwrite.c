/* Overwrites the same place each round, by pwrite, pwritev and pwritev2. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int out = open("out/file", O_RDWR);
    char was[8] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        pread(out, was, 7, 100);
        effect();
        char text[16];
        snprintf(text, sizeof text, "round%d%c", round, 'a' + checksum % 26);
        struct iovec part = {text, 7};
        long did = round % 3 == 0   ? pwrite(out, text, 7, 100)
                   : round % 3 == 1 ? pwritev(out, &part, 1, 100)
                                    : pwritev2(out, &part, 1, 100, 0);
        dprintf(1, "was %s ", was);
        say("pwrite", did);
    }
    return finish();
}
