/* Steps through calls instruction by instruction and unwinds at each: every one must lead to main, by libgcc and by libunwind. */
#include "hostile.h"
#include <dlfcn.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unwind.h>

enum { TRAP_FLAG = 0x100, LOST_MAX = 8 };
/* As libunwind's header has them. */
enum { CURSOR_WORDS = 127, AT_SIGNAL = 1, REGISTER_IP = 16 };
enum { LIBGCC, LIBUNWIND, UNWINDERS };

extern int main(int, char **);
extern char __executable_start, etext;
static const char *const unwinders[UNWINDERS] = {"libgcc", "libunwind"};
static volatile sig_atomic_t steps, lost[UNWINDERS];
static void *lost_at[UNWINDERS][LOST_MAX];

/* Libunwind's, of the same process. A program that is linked with it has no unwinder of libgcc's. */
static int (*unw_init_local2)(unsigned long *, ucontext_t *, int);
static int (*unw_step)(unsigned long *);
static int (*unw_get_reg)(unsigned long *, int, unsigned long *);

static void load_libunwind(void)
{
    void *library = dlopen("libunwind.so.8", RTLD_NOW);
    if (library == NULL) {
        dprintf(1, "without libunwind\n");
        return;
    }
    *(void **)&unw_init_local2 = dlsym(library, "_ULx86_64_init_local2");
    *(void **)&unw_step = dlsym(library, "_ULx86_64_step");
    *(void **)&unw_get_reg = dlsym(library, "_ULx86_64_get_reg");
}

static int is_in_program(const char *at)
{
    return at >= &__executable_start && at < &etext;
}

static int libunwind_finds_main(ucontext_t *context)
{
    unsigned long cursor[CURSOR_WORDS], at;
    if (unw_init_local2(cursor, context, AT_SIGNAL) < 0)
        return 0;
    do {
        if (unw_get_reg(cursor, REGISTER_IP, &at) < 0)
            return 0;
        if (is_in_program((char *)at) && _Unwind_FindEnclosingFunction((void *)at) == (void *)main)
            return 1;
    } while (unw_step(cursor) > 0);
    return 0;
}

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *found)
{
    if (_Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context)) == (void *)main)
        *(int *)found = 1;
    return _URC_NO_REASON;
}

static int libgcc_finds_main(void)
{
    int found = 0;
    _Unwind_Backtrace(look, &found);
    return found;
}

static void look_at(int unwinder, int found, void *at)
{
    if (found)
        return;
    if (lost[unwinder] < LOST_MAX)
        lost_at[unwinder][lost[unwinder]] = at;
    lost[unwinder]++;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    char *at = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    /* The compiler describes no flags that it pushes here. */
    if (is_in_program(at))
        return;
    steps++;
    look_at(LIBGCC, libgcc_finds_main(), at);
    if (unw_step != NULL)
        look_at(LIBUNWIND, libunwind_finds_main(context), at);
}

static void step(int on)
{
    unsigned long flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(unsigned long)TRAP_FLAG);
}

static void tell(const char *what)
{
    for (int unwinder = 0; unwinder < UNWINDERS; unwinder++) {
        dprintf(1, "%s: %d by %s\n", what, lost[unwinder], unwinders[unwinder]);
        for (int i = 0; i < lost[unwinder] && i < LOST_MAX; i++)
            dprintf(2, "%s: %s lost at %p\n", what, unwinders[unwinder], lost_at[unwinder][i]);
        lost[unwinder] = 0;
    }
    if (steps < 3)
        dprintf(1, "%s: not stepped\n", what);
    steps = 0;
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
    load_libunwind();
    (void)libgcc_finds_main();
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
