/* Waits for pages of a mapped file while a stack of its own grows down by itself, and the main one with it. */
#include "faulting.h"

enum { ROOM = 8 << 20, STEP = 40, LEVELS = 30 };

static unsigned char *data;
static size_t size;

/* A page of stack for each level, with waits between; all of it is looked at again on the way back. */
static unsigned deep(int level)
{
    volatile unsigned char room[BLOCK];
    for (int i = 0; i < BLOCK; i += 512)
        room[i] = level * 7 + i / 512 + checksum;
    touch_pages(data, size, STEP / 2);
    unsigned sum = level > 0 ? deep(level - 1) : 0;
    for (int i = 0; i < BLOCK; i += 512)
        sum = sum * 31 + room[i];
    return sum;
}

int main(int argc, char **argv)
{
    (void)argc;
    memory(20 << 20, MAP_PRIVATE);
    int fd = open(argv[1], O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    size = st.st_size;
    for (int round = 0; round < ROUNDS; round++) {
        data = cold_map(fd, size, PROT_READ, MAP_PRIVATE);
        /* The kernel lets it grow only where a mebibyte below stays free. */
        unsigned char *top = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned char *grows = mmap(top + ROOM - BLOCK, BLOCK, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
        if (top == MAP_FAILED || grows == MAP_FAILED)
            die("mmap");
        munmap(top, ROOM - BLOCK);
        for (int page = 0; page > -LEVELS; page--) {
            touch_pages(data, size, STEP);
            grows[page * BLOCK + 8] = checksum;
        }
        effect();
        append_line("out/file", round);
        for (int page = 0; page > -LEVELS; page--)
            checksum = checksum * 31 + grows[page * BLOCK + 8];
        checksum += deep(LEVELS);
        say("unmapped", munmap(grows - LEVELS * BLOCK, (LEVELS + 1) * BLOCK));
        munmap(data, size);
    }
    return finish();
}
