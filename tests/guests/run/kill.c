/* Sends signals to another process: kill, tgkill, sigqueue, a pidfd. */
#include "hostile.h"

/* Of two that are pending at once the kernel would choose the order. */
static void wait_until_taken(pid_t other)
{
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%d/status", (int)other);
    for (int look = 0; look < 10000; look++) {
        int file = open(path, O_RDONLY);
        ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
        if (file >= 0)
            close(file);
        text[length < 0 ? 0 : length] = 0;
        const char *own = strstr(text, "SigPnd:"), *shared = strstr(text, "ShdPnd:");
        if (own && shared && !strtoull(own + 7, NULL, 16) && !strtoull(shared + 7, NULL, 16))
            return;
        usleep(1000);
    }
}

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
        wait_until_taken(other);
    }
    return finish();
}
