/* Sends signals to another process: kill, tgkill, sigqueue, a pidfd. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    pid_t other = atoi(argv[2]);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        union sigval value = {.sival_int = round};
        siginfo_t information = {0};
        if (round == 0) {
            say("kill", kill(other, SIGUSR1));
        } else if (round == 1) {
            say("tgkill", syscall(SYS_tgkill, other, other, SIGRTMIN + 1));
        } else if (round == 2) {
            say("sigqueue", sigqueue(other, SIGRTMIN + 2, value));
        } else {
            int pidfd = syscall(SYS_pidfd_open, other, 0);
            information.si_signo = SIGRTMIN + 3;
            information.si_code = SI_QUEUE;
            say("pidfd", syscall(SYS_pidfd_send_signal, pidfd, SIGRTMIN + 3, &information, 0));
        }
        /* So that no two are pending there at once: the kernel would choose the order. */
        usleep(50000);
    }
    return finish();
}
