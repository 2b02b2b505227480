/* Executes itself again and again, with what it found so far as an argument; also with a failing exec first. */
#include "hostile.h"

int main(int argc, char **argv)
{
    int round = argc > 2 ? atoi(argv[2]) : 0;
    if (argc > 3)
        checksum = strtoul(argv[3], NULL, 16);
    block_next = round * READS;
    cold_reads(argv[1]);
    effect();
    int out = open("out/log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    dprintf(out, "round %d %08x\n", round, checksum);
    if (round == ROUNDS)
        return finish();
    say("next descriptor", out);
    char number[16], sum[16];
    snprintf(number, sizeof number, "%d", round + 1);
    snprintf(sum, sizeof sum, "%08x", checksum);
    cold_reads(argv[1]);
    say("missing", execl("/nonexistent", "x", NULL));
    if (round & 1)
        execl("/proc/self/exe", argv[0], argv[1], number, sum, NULL);
    else
        execle("/proc/self/exe", argv[0], argv[1], number, sum, NULL, (char *[]){"ONLY=this", NULL});
    die("exec");
}
