/* An observer: prints its process id, then the signals that reach it with their times, until SIGTERM. */
#include "hostile.h"

int main(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    dprintf(1, "%d\n", getpid());
    for (;;) {
        siginfo_t information;
        int number = sigwaitinfo(&all, &information);
        if (number < 0)
            continue;
        if (number == SIGTERM)
            return 0;
        dprintf(1, "%d %llu\n", number >= SIGRTMIN ? number - SIGRTMIN : 100 + number, now_ns());
    }
}
