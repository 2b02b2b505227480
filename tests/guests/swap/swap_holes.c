/* Uses every other page of its memory, and once those are swapped out the pages in between, each once: they hold nothing
 * yet, so only the others are waited for. */
#include "faulting.h"

enum { SPAN = 2 * MEMORY, WAITS = 300, FIRSTS = 10 };

int main(void)
{
    unsigned char *data = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        die("mmap");
    madvise(data, SPAN, MADV_NOHUGEPAGE);
    for (size_t page = 0; page < SPAN; page += 2 * BLOCK)
        data[page] = value_of(page);
    int used = 0;
    size_t hole = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WAITS; i++) {
            digest(data + 2 * next_page(MEMORY), 64);
            for (int first = 0; first < FIRSTS; first++) {
                hole = (hole + 7919 * BLOCK) % MEMORY;
                used += data[2 * hole + BLOCK];
                data[2 * hole + BLOCK] = first + 1;
            }
        }
        effect();
        append_line("out/file", round);
        say("used before", used);
    }
    return finish();
}
