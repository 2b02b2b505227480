/* Moves, shrinks, protects, empties and forgets memory that is swapped out, and uses its old addresses again. */
#include "faulting.h"

static volatile int refused;
static unsigned char *locked_page;

static void on_segment(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    refused++;
    locked_page = (unsigned char *)((uintptr_t)info->si_addr & ~(uintptr_t)(BLOCK - 1));
    mprotect(locked_page, BLOCK, PROT_READ | PROT_WRITE);
}

/* Whether all of `size` bytes are either as they were filled or, where that is allowed, empty. */
static int as_filled(const unsigned char *data, size_t size, int may_be_empty)
{
    for (size_t page = 0; page < size; page += BLOCK)
        if (data[page] != value_of(page) && !(may_be_empty && data[page] == 0))
            return 0;
    return 1;
}

static unsigned char *grown(unsigned char *data, size_t from, size_t to)
{
    data = mremap(data, from, to, MREMAP_MAYMOVE);
    if (data == MAP_FAILED)
        die("mremap");
    return data;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_segment, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    unsigned char *ballast = memory(MEMORY / 2, MAP_PRIVATE), *list = malloc(2 << 20);
    size_t length = 2 << 20, part = 8 << 20;
    fill_pages(list, length);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *data = memory(MEMORY / 2, MAP_PRIVATE);
        touch_pages(ballast, MEMORY / 2, TOUCHES / 2);
        touch_pages(data, MEMORY / 2, TOUCHES / 2);
        effect();
        /* Growth that moves: something lies right behind. */
        mmap(data + MEMORY / 2, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        data = grown(data, MEMORY / 2, MEMORY / 2 + part);
        say("moved as it was", as_filled(data, MEMORY / 2, 0));
        list = realloc(list, length + (4 << 20));
        memset(list + length, round + 1, 4 << 20);
        length += 4 << 20;
        touch_pages(list, length, TOUCHES / 4);
        /* Other memory at the same address, with pages of the old one swapped out. */
        touch_pages(data, MEMORY / 2, TOUCHES / 4);
        munmap(data, part);
        unsigned char *again = mmap(data, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        say("empty", again[0] + again[part / 2] + again[part - BLOCK]);
        change_pages(again, part, 50);
        /* Only the page that is written to is opened. */
        mprotect(data + part, part, PROT_READ);
        touch_pages(data + part, part, TOUCHES / 4);
        data[part + next_page(part)] ^= 1;
        data[part + next_page(part)] ^= 1;
        say("refused", refused);
        mprotect(data + part, part, PROT_READ | PROT_WRITE);
        touch_pages(ballast, MEMORY / 2, TOUCHES / 4);
        say("dropped", madvise(data, part, MADV_DONTNEED));
        say("empty", data[0] + data[part - BLOCK]);
        /* The kernel may take these pages at any time, or not. */
        fill_pages(data, part);
        say("free to take", madvise(data, part, MADV_FREE));
        touch_pages(ballast, MEMORY / 2, TOUCHES / 4);
        say("as it was or empty", as_filled(data, part, 1));
        madvise(data, part, MADV_HUGEPAGE);
        madvise(data + part, part, MADV_PAGEOUT);
        fill_pages(data, part);
        touch_pages(data, 2 * part, TOUCHES / 4);
        say("as filled", as_filled(data, part, 0));
        munmap(data, MEMORY / 2 + part);
        append_line("out/file", round);
    }
    free(list);
    return finish();
}
