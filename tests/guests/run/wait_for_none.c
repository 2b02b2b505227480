/* Has no children and must not seem to have any: every kind of wait says ECHILD, no SIGCHLD ever comes. */
#include "hostile.h"
#include <sys/resource.h>

static volatile sig_atomic_t children;

static void on_child(int number)
{
    (void)number;
    children++;
}

int main(int argc, char **argv)
{
    (void)argc;
    signal(SIGCHLD, on_child);
    for (int round = 0; round < ROUNDS; round++) {
        int status;
        siginfo_t information;
        cold_reads(argv[1]);
        effect();
        say("waitpid", waitpid(-1, &status, 0));
        say("WNOHANG", waitpid(-1, &status, WNOHANG));
        say("__WALL", wait4(-1, &status, __WALL | WNOHANG, NULL));
        say("__WCLONE", wait4(-1, &status, __WCLONE | WNOHANG, NULL));
        say("waitid", waitid(P_ALL, 0, &information, WEXITED | WSTOPPED | WNOHANG | __WALL));
        say("group", waitpid(0, &status, WNOHANG));
        say("signals", children);
        struct rusage usage, own;
        getrusage(RUSAGE_CHILDREN, &usage);
        say("children's time", usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + usage.ru_utime.tv_usec / 10000);
        getrusage(RUSAGE_SELF, &own);
        say("children's memory is plausible", usage.ru_maxrss <= own.ru_maxrss);
    }
    /* With one child of its own it sees that one only. */
    pid_t child = fork();
    if (child == 0) {
        cold_reads(argv[1]);
        _exit(6);
    }
    cold_reads(argv[1]);
    int status;
    say("own child", wait(&status) == child);
    say("status", status);
    say("none", wait(&status));
    say("signals", children);
    return finish();
}
