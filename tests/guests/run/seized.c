/* Is seized by its child, which is told of each new process and thread: it must see those of the program alone. */
#include "hostile.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>

static int trace(pid_t program, int ready)
{
    long options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    if (ptrace(PTRACE_SEIZE, program, 0, options) < 0)
        die("seize");
    (void)!write(ready, "", 1);
    int status, started = 0, signals = 0;
    for (pid_t stopped; (stopped = waitpid(-1, &status, __WALL)) > 0;) {
        if (!WIFSTOPPED(status)) {
            if (stopped == program)
                break;
            continue;
        }
        int event = status >> 16, number = event ? 0 : WSTOPSIG(status);
        started += stopped == program && event && event != PTRACE_EVENT_STOP;
        signals += stopped == program && number == SIGUSR1;
        ptrace(PTRACE_CONT, stopped, 0, number);
    }
    int out = open("out/seen", O_WRONLY | O_CREAT, 0644);
    dprintf(out, "started %d, signals %d, status %d\n", started, signals, status);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    int ready[2];
    char byte;
    if (pipe(ready) < 0)
        die("pipe");
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    signal(SIGUSR1, SIG_IGN);
    cold_reads(argv[1]);
    pid_t program = getpid();
    if (fork() == 0)
        _exit(trace(program, ready[1]));
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        die("not traced");
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        raise(SIGUSR1);
        pid_t child = fork();
        if (child == 0)
            _exit(round);
        waitpid(child, NULL, 0);
    }
    return finish();
}
