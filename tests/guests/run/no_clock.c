/* Gives up the time-stamp counter amid cold reads. It asks for no time after that, and neither do its children. */
#include "hostile.h"
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    say("no clock", prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        pid_t child = fork();
        if (child == 0) {
            cold_reads(argv[1]);
            _exit(round);
        }
        int status;
        waitpid(child, &status, 0);
        say("child", status);
    }
    dprintf(1, "checksum %08x\n", checksum);
    return 0;
}
