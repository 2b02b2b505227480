/* Has handlers of its own for what page faults and their tracing use: SIGSEGV, SIGBUS, SIGURG, the alternate stack. */
#include "hostile.h"

static unsigned char *data;
static size_t size;
static char *guarded;
static sigjmp_buf back;
static volatile int segments, buses, urgent;

static void pages(int count)
{
    for (int i = 0; i < count; i++)
        digest(data + (size_t)(block_next++ * 769u % (size / BLOCK)) * BLOCK, 64);
}

static void on_segment(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    segments++;
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(BLOCK - 1));
    if (page != guarded)
        _exit(98);
    mprotect(guarded, BLOCK, PROT_READ | PROT_WRITE);
}

static void on_bus(int number)
{
    (void)number;
    buses++;
    siglongjmp(back, 1);
}

static void on_urgent(int number)
{
    (void)number;
    urgent++;
}

static void tell(int number, const char *name)
{
    struct sigaction action;
    sigaction(number, NULL, &action);
    dprintf(1, "%s: handler %d flags %x\n", name, action.sa_handler != SIG_DFL, action.sa_flags);
}

int main(int argc, char **argv)
{
    (void)argc;
    size_t ballast = 32 << 20;
    memset(mmap(NULL, ballast, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, ballast);
    stack_t stack = {0};
    sigaltstack(NULL, &stack);
    dprintf(1, "stack %p %d %zu\n", stack.ss_sp, stack.ss_flags, stack.ss_size);
    tell(SIGURG, "urgent");
    int fd = open(argv[1], O_RDONLY);
    struct stat st;
    fstat(fd, &st);
    size = st.st_size;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    madvise(data, size, MADV_RANDOM);
    struct sigaction action = {.sa_sigaction = on_segment, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    action = (struct sigaction){.sa_handler = on_bus};
    sigaction(SIGBUS, &action, NULL);
    guarded = mmap(NULL, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int short_file = open("out/short", O_RDWR | O_CREAT, 0600);
    if (ftruncate(short_file, BLOCK) < 0)
        die("ftruncate");
    volatile char *beyond = mmap(NULL, 4 * BLOCK, PROT_READ, MAP_PRIVATE, short_file, 0);
    for (int round = 0; round < ROUNDS; round++) {
        pages(300);
        effect();
        mprotect(guarded, BLOCK, PROT_NONE);
        guarded[7] = round;
        pages(20);
        if (sigsetjmp(back, 1) == 0)
            checksum += beyond[2 * BLOCK];
        if (round == 1) {
            action = (struct sigaction){.sa_handler = on_urgent};
            struct sigaction old;
            sigaction(SIGURG, &action, &old);
            dprintf(1, "was default: %d\n", old.sa_handler == SIG_DFL);
        }
        if (round == 0) {
            stack = (stack_t){.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
            say("alternate stack", sigaltstack(&stack, NULL));
        }
        raise(SIGURG);
        tell(SIGURG, "urgent");
    }
    dprintf(1, "caught %d %d %d\n", segments, buses, urgent);
    return finish();
}
