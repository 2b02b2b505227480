/* Becomes a daemon after cold reads, reads on when nobody waits for it, and leaves a file at the end. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    effect();
    say("daemon", daemon(1, 0));
    usleep(100000);
    int out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        dprintf(out, "round %d %08x\n", round, checksum);
    }
    close(out);
    rename("out/log", "out/done");
    return 0;
}
