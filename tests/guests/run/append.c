/* Opens for appending after each round of reads; opening creates the file the first time. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        int out = open("out/log", O_WRONLY | O_APPEND | O_CREAT, 0600);
        dprintf(out, "round %d %08x\n", round, checksum);
        close(out);
    }
    return finish();
}
