/* Writes one numbered line to an open file each round. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int out = open("out/log", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        dprintf(out, "round %d %08x\n", round, checksum);
    }
    return finish();
}
