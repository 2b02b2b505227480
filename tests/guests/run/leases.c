/* Opens a file on which another process holds a lease: the holder is told when that happens, not earlier. */
#include "hostile.h"

static volatile unsigned long long broken_at;

static void on_break(int number)
{
    (void)number;
    broken_at = now_ns();
}

int main(int argc, char **argv)
{
    (void)argc;
    int ready[2], done[2];
    if (pipe(ready) < 0 || pipe(done) < 0)
        die("pipe");
    volatile unsigned long long *told = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t holder = fork();
    if (holder == 0) {
        struct sigaction action = {.sa_handler = on_break};
        sigaction(SIGIO, &action, NULL);
        int fd = open("out/file", O_RDWR);
        long leased = fcntl(fd, F_SETLEASE, F_WRLCK);
        write(ready[1], leased == 0 ? "y" : "n", 1);
        sigset_t set, old;
        sigemptyset(&set);
        sigaddset(&set, SIGIO);
        sigprocmask(SIG_BLOCK, &set, &old);
        while (!broken_at)
            sigsuspend(&old);
        told[0] = broken_at;
        fcntl(fd, F_SETLEASE, F_UNLCK);
        _exit(0);
    }
    char byte;
    read(ready[0], &byte, 1);
    dprintf(1, "leased %c\n", byte);
    if (byte == 'n') {
        kill(holder, SIGKILL);
        wait(NULL);
        return finish();
    }
    cold_reads(argv[1]);
    cold_reads(argv[1]);
    unsigned long long before = now_ns();
    effect();
    int fd = open("out/file", O_RDONLY);
    say("opened", fd >= 0);
    wait(NULL);
    say("told in time", told[0] >= before);
    return finish();
}
