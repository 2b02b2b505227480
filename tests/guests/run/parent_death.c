/* Asks for a signal when its parent dies; the parent reads and dies. */
#include "hostile.h"
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    (void)argc;
    int ends[2];
    if (pipe(ends) < 0)
        die("pipe");
    if (fork() == 0) {
        /* The middle: reads, then ends by itself. */
        int ready[2];
        if (pipe(ready) < 0)
            die("pipe");
        if (fork() == 0) {
            char byte;
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGUSR1);
            sigprocmask(SIG_BLOCK, &set, NULL);
            prctl(PR_SET_PDEATHSIG, SIGUSR1);
            write(ready[1], "x", 1);
            cold_reads(argv[1]);
            struct timespec limit = {10, 0};
            siginfo_t information = {0};
            long got = sigtimedwait(&set, &information, &limit);
            byte = got == SIGUSR1 ? 'y' : 'n';
            write(ends[1], &byte, 1);
            _exit(0);
        }
        char byte;
        read(ready[0], &byte, 1);
        cold_reads(argv[1]);
        usleep(20000);
        cold_reads(argv[1]);
        _exit(3);
    }
    close(ends[1]);
    int status;
    cold_reads(argv[1]);
    wait(&status);
    say("status", WEXITSTATUS(status));
    char byte = '?';
    say("told", read(ends[0], &byte, 1));
    dprintf(1, "%c\n", byte);
    return finish();
}
