/* A pager of its own over swapped memory: a handler on the alternate stack opens and fills the page that was touched, and
   others jump out of theirs. */
#include "faulting.h"

enum { WINDOW = 24 << 20 };

static unsigned char *store, *window;
static int notes;
static volatile int paged, buses, urgent, jumps;
static sigjmp_buf back;

static void on_segment(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    unsigned char *page = (unsigned char *)((uintptr_t)info->si_addr & ~(uintptr_t)(BLOCK - 1));
    if (page < window || page >= window + WINDOW) {
        jumps++;
        siglongjmp(back, 1);
    }
    paged++;
    mprotect(page, BLOCK, PROT_READ | PROT_WRITE);
    memcpy(page, store + (page - window), BLOCK);
    if (paged % 64 == 0)
        dprintf(notes, "page %ld %d\n", (long)(page - window) / BLOCK, page[0]);
}

static void on_bus(int number)
{
    buses += number != 0;
    siglongjmp(back, 2);
}

static void on_urgent(int number)
{
    urgent += number != 0;
}

int main(void)
{
    store = memory(WINDOW, MAP_PRIVATE);
    window = mmap(NULL, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    notes = open("out/notes", O_WRONLY | O_CREAT | O_APPEND, 0644);
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = on_segment, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    action = (struct sigaction){.sa_handler = on_bus, .sa_flags = SA_ONSTACK};
    sigaction(SIGBUS, &action, NULL);
    int short_file = open("out/short", O_RDWR | O_CREAT, 0600);
    if (ftruncate(short_file, BLOCK) < 0)
        die("ftruncate");
    volatile unsigned char *beyond = mmap(NULL, 4 * BLOCK, PROT_READ, MAP_SHARED, short_file, 0);
    for (int round = 0; round < ROUNDS; round++) {
        touch_pages(store, WINDOW, TOUCHES / 2);
        change_pages(window, WINDOW, TOUCHES / 2);
        effect();
        append_line("out/file", round);
        if (sigsetjmp(back, 1) == 0)
            checksum += beyond[2 * BLOCK];
        touch_pages(store, WINDOW, TOUCHES / 8);
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)(uintptr_t)(8 + round) = 1;
        touch_pages(window, WINDOW, TOUCHES / 8);
        if (round == 2) {
            action = (struct sigaction){.sa_handler = on_urgent};
            sigaction(SIGURG, &action, NULL);
        }
        raise(SIGURG);
        dprintf(1, "paged %d buses %d jumps %d urgent %d\n", paged, buses, jumps, urgent);
        /* Some of the window goes back to the store. */
        for (size_t page = 0; page < WINDOW; page += 3 * BLOCK)
            mprotect(window + page, BLOCK, PROT_NONE);
        for (size_t page = 3 * BLOCK; page < WINDOW; page += 6 * BLOCK)
            madvise(window + page, BLOCK, MADV_DONTNEED);
    }
    return finish();
}
