/* Reads cold blocks and writes what they came to, a line a round: the work that failures interrupt. */
#include "hostile.h"

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
    int out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (int round = 0; round < rounds; round++) {
        cold_reads(argv[1]);
        effect();
        dprintf(out, "round %d %08x\n", round, checksum);
    }
    close(out);
    return finish();
}
