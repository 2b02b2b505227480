/* Is traced by its parent while it reads: stops come from the child only, and in its order. */
#include "hostile.h"
#include <sys/ptrace.h>

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    pid_t child = fork();
    if (child == 0) {
        cold_reads(argv[1]);
        say("traceme", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
        for (int round = 0; round < ROUNDS; round++) {
            cold_reads(argv[1]);
            effect();
            raise(SIGSTOP);
        }
        _exit(finish());
    }
    int status, stops = 0;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        stops++;
        say("stopped by", WSTOPSIG(status));
        cold_reads(argv[1]);
        ptrace(PTRACE_CONT, child, NULL, NULL);
    }
    say("stops", stops);
    say("status", status);
    say("no more", waitpid(-1, NULL, __WALL));
    cold_reads(argv[1]);
    return 0;
}
