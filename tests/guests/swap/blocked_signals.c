/* Blocks all signals in the middle of page faults, and looks for pending ones in every way there is: there is none. */
#include "faulting.h"
#include <poll.h>
#include <sys/signalfd.h>
#include <ucontext.h>

static int signals;
static sigset_t all, none;

/* What is pending, as each kind of call shows it. */
static void look(const char *when)
{
    sigset_t pending;
    struct timespec now = {0, 0}, soon = {0, 1000000};
    int found = 0;
    dprintf(1, "%s:", when);
    sigpending(&pending);
    for (int number = 1; number < SIGRTMIN; number++)
        if (sigismember(&pending, number) == 1)
            dprintf(1, " pending %d", number);
    if (ppoll(NULL, 0, &soon, &none) < 0)
        dprintf(1, " interrupted");
    struct signalfd_siginfo information;
    if (read(signals, &information, sizeof information) > 0)
        dprintf(1, " readable %u", information.ssi_signo);
    found = sigtimedwait(&all, NULL, &now);
    if (found > 0)
        dprintf(1, " waited for %d", found);
    dprintf(1, "\n");
}

static void touch(int fd, size_t size)
{
    unsigned char *data = cold_map(fd, size, PROT_READ, MAP_PRIVATE);
    touch_pages(data, size, TOUCHES);
    munmap(data, size);
}

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY);
    struct stat st;
    fstat(fd, &st);
    sigfillset(&all);
    sigemptyset(&none);
    signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    volatile int jumped = 0;
    sigjmp_buf blocked;
    ucontext_t context;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3; i++)
            touch(fd, st.st_size);
        sigprocmask(SIG_SETMASK, &all, NULL);
        for (int i = 0; i < 10; i++) {
            unsigned char *data = cold_map(fd, st.st_size, PROT_READ, MAP_PRIVATE);
            touch_pages(data, st.st_size, TOUCHES / 10);
            look("blocked");
            munmap(data, st.st_size);
        }
        jumped = 0;
        if (sigsetjmp(blocked, 1) == 0) {
            sigprocmask(SIG_SETMASK, &none, NULL);
            touch(fd, st.st_size);
            siglongjmp(blocked, 1);
        }
        touch(fd, st.st_size);
        look("blocked by a jump");
        getcontext(&context);
        if (!jumped++) {
            sigprocmask(SIG_SETMASK, &none, NULL);
            touch(fd, st.st_size);
            setcontext(&context);
        }
        touch(fd, st.st_size);
        look("blocked by a context");
        sigprocmask(SIG_SETMASK, &none, NULL);
        effect();
    }
    return finish();
}
