/* Has all its memory in the heap, by brk alone, grown in small steps, and waits for it when it is swapped out; lets it
 * shrink and grow again in between, and asks for more than there can be. */
#include "faulting.h"

enum { STEP = 132 << 10, PART = 4 << 20 };

static unsigned char *grow(size_t size)
{
    unsigned char *start = sbrk(0);
    for (size_t left = size; left > 0;) {
        size_t step = left < STEP ? left : STEP;
        if (sbrk(step) == (void *)-1)
            die("sbrk");
        left -= step;
    }
    return start;
}

/* Whether every page of `size` bytes is empty. */
static int is_empty(const unsigned char *data, size_t size)
{
    for (size_t page = 0; page < size; page += BLOCK)
        if (data[page] != 0)
            return 0;
    return 1;
}

int main(void)
{
    /* With the first line the library takes its own part of the heap, which suffices. */
    say("heap", 0);
    unsigned char *data = grow(MEMORY);
    say("empty", is_empty(data, MEMORY));
    fill_pages(data, MEMORY);
    for (int round = 0; round < ROUNDS; round++) {
        touch_pages(data, MEMORY, TOUCHES);
        effect();
        append_line("out/file", round);
        say("shrunk", brk(data + MEMORY - PART));
        say("by", data + MEMORY - (unsigned char *)sbrk(0));
        touch_pages(data, MEMORY - PART, TOUCHES / 4);
        say("grown where it was", grow(PART) == data + MEMORY - PART);
        say("empty", is_empty(data + MEMORY - PART, PART));
        fill_pages(data + MEMORY - PART, PART);
        say("refused", brk((void *)(UINTPTR_MAX / 2)));
        say("moved by that", (unsigned char *)sbrk(0) - data - MEMORY);
        change_pages(data, MEMORY - PART, TOUCHES / 4);
    }
    return finish();
}
