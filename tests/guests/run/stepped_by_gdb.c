/* Makes calls between marks, for a debugger that steps from one mark to the next. Each call is made before, unmarked: the
 * dynamic loader has bound its functions then. */
#include "hostile.h"

static int fifo;

/* The debugger stops here. */
__attribute__((noinline)) void begins(const char *call)
{
    __asm__ volatile("" : : "r"(call) : "memory");
}

__attribute__((noinline)) void ends(void)
{
    __asm__ volatile("" : : : "memory");
}

/* And here, where a signal interrupts a call. The call has what it waits for then. */
__attribute__((noinline)) void on_alarm(int number)
{
    (void)number;
    write(fifo, "x", 1);
}

#define MARKED(what, call) \
    do { \
        (void)!(call); \
        begins(what); \
        (void)!(call); \
        ends(); \
    } while (0)

static void make_cold(int fd)
{
    if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        die("posix_fadvise");
}

/* The alarm comes while the thread waits. */
static long interrupted_read(void)
{
    char byte;
    struct itimerval soon = {{0, 0}, {0, 300000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    return read(fifo, &byte, 1);
}

int main(int argc, char **argv)
{
    (void)argc;
    unsigned char bytes[BLOCK];
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    if (mkfifo("fifo", 0600) < 0 || (fifo = open("fifo", O_RDWR)) < 0)
        die("fifo");
    cold_reads(argv[1]);
    int fd = open(argv[1], O_RDONLY);
    /* Enough for calls to be no longer timed. */
    for (int i = 0; i < 20000; i++)
        (void)!pread(fd, bytes, 1, 0);
    MARKED("warm read", pread(fd, bytes, 1, 0));
    MARKED("read", pread(fd, bytes, sizeof bytes, 0));
    MARKED("open", open(argv[1], O_RDONLY | O_CLOEXEC));
    make_cold(fd);
    MARKED("cold read", pread(fd, bytes, sizeof bytes, (off_t)block_next++ * 16 * BLOCK));
    MARKED("interrupted read", interrupted_read());
    return finish();
}
