/* Steps through calls instruction by instruction and unwinds at each: every one must lead to main. */
#include "hostile.h"
#include <sys/prctl.h>
#include <ucontext.h>
#include <unwind.h>

enum { TRAP_FLAG = 0x100, LOST_MAX = 8 };

extern int main(int, char **);
extern char __executable_start, etext;
static volatile sig_atomic_t steps, lost;
static void *lost_at[LOST_MAX];

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *found)
{
    if (_Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context)) == (void *)main)
        *(int *)found = 1;
    return _URC_NO_REASON;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    int found = 0;
    char *at = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    /* The compiler describes no flags that it pushes here. */
    if (at >= &__executable_start && at < &etext)
        return;
    steps++;
    _Unwind_Backtrace(look, &found);
    if (!found) {
        if (lost < LOST_MAX)
            lost_at[lost] = at;
        lost++;
    }
}

static void step(int on)
{
    unsigned long flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(unsigned long)TRAP_FLAG);
}

static void tell(const char *what)
{
    say(what, lost);
    for (int i = 0; i < lost && i < LOST_MAX; i++)
        dprintf(2, "%s: lost at %p\n", what, lost_at[i]);
    if (steps < 3)
        dprintf(1, "%s: not stepped\n", what);
    steps = lost = 0;
}

#define STEPPED(what, call) \
    do { \
        for (int again = 0; again < 2; again++) { \
            step(again); \
            (void)!(call); \
            step(0); \
        } \
        tell(what); \
    } while (0)

static void all(const char *data, int round)
{
    unsigned char bytes[BLOCK];
    struct stat st;
    struct iovec vector = {bytes, sizeof bytes};
    int fd = open(data, O_RDONLY);
    off_t at = (off_t)round * 64 * BLOCK;
    STEPPED("read", read(fd, bytes, sizeof bytes));
    STEPPED("pread", pread(fd, bytes, sizeof bytes, at += BLOCK * 7));
    STEPPED("readv", readv(fd, &vector, 1));
    STEPPED("lseek", lseek(fd, 5 * BLOCK, SEEK_SET));
    STEPPED("fstat", fstat(fd, &st));
    STEPPED("stat", stat(data, &st));
    STEPPED("stat of none", stat("none", &st));
    STEPPED("open of none", open("none", O_RDONLY));
    STEPPED("dup", close(dup(fd)));
    STEPPED("mmap", munmap(mmap(NULL, BLOCK, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), BLOCK));
    STEPPED("sbrk", sbrk(BLOCK));
    STEPPED("sigaltstack", sigaltstack(NULL, NULL));
    STEPPED("sigaction", sigaction(SIGURG, NULL, NULL));
    STEPPED("fcntl", fcntl(fd, F_GETFL));
    STEPPED("prctl", prctl(PR_GET_DUMPABLE));
    STEPPED("write", write(-1, bytes, 1));
    STEPPED("unlink of a directory in use", rmdir("out"));
    close(fd);
}

int main(int argc, char **argv)
{
    (void)argc;
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    int found = 0;
    _Unwind_Backtrace(look, &found);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        all(argv[1], round);
        /* Enough for calls to be no longer timed. */
        unsigned char byte;
        int fd = open(argv[1], O_RDONLY);
        for (int i = 0; i < 20000; i++)
            (void)!pread(fd, &byte, 1, 0);
        STEPPED("warm pread", pread(fd, &byte, 1, 0));
        close(fd);
    }
    return finish();
}
