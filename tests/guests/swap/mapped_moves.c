/* Moves, grows, shrinks, doubles and locks mappings of a cold file, private and shared in turn. */
#include "faulting.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static unsigned char *moved(unsigned char *data, size_t from, size_t to, int flags, void *where)
{
    data = mremap(data, from, to, MREMAP_MAYMOVE | flags, where);
    if (data == MAP_FAILED)
        die("mremap");
    return data;
}

/* How many of the pages are in memory: all, after a lock. */
static int all_resident(unsigned char *data, size_t size)
{
    static unsigned char resident[1 << 12];
    if (mincore(data, size, resident) < 0)
        die("mincore");
    for (size_t page = 0; page < size / BLOCK; page++)
        if (!(resident[page] & 1))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    (void)argc;
    memory(20 << 20, MAP_PRIVATE);
    int fd = open(argv[1], O_RDWR);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    size_t size = st.st_size / BLOCK * BLOCK, half = size / 2 / BLOCK * BLOCK, part = 1 << 20;
    for (int round = 0; round < ROUNDS; round++) {
        int flags = round & 1 ? MAP_SHARED : MAP_PRIVATE;
        unsigned char *data = cold_map(fd, half, PROT_READ | PROT_WRITE, flags);
        touch_pages(data, half, TOUCHES / 4);
        effect();
        /* Growth that moves: something lies right behind. What is new of it shows the rest of the file. */
        mmap(data + half, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        change_pages(data, half, 20);
        data = moved(data, half, size, 0, NULL);
        touch_pages(data, size, TOUCHES / 4);
        /* To a place of the program's choice. */
        unsigned char *place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        data = moved(data, size, size, MREMAP_FIXED, place);
        say("at its place", data == place);
        touch_pages(data, size, TOUCHES / 4);
        /* The upper half goes, and with it what was changed there only for this process. */
        data = moved(data, size, half, 0, NULL);
        touch_pages(data, half, TOUCHES / 8);
        /* Pages move and the old mapping stays, empty: it shows the file. */
        data[5 * BLOCK + 1] = round + 100;
        unsigned char *twin = mremap(data, half, half, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
        say("moved, and still there", twin != MAP_FAILED);
        if (twin != MAP_FAILED) {
            say("what was written has moved", twin[5 * BLOCK + 1]);
            say("and is here what the file has", data[5 * BLOCK + 1]);
            touch_pages(data, half, TOUCHES / 8);
            change_pages(twin, half, 20);
            touch_pages(twin, half, TOUCHES / 8);
            munmap(twin, half);
        }
        append_line("out/file", round);
        /* A lock has the kernel read all of it. */
        say("lock", mlock(data + 3 * part, part));
        say("locked", all_resident(data + 3 * part, part));
        touch_pages(data, half, TOUCHES / 8);
        say("unlock", munlock(data + 3 * part, part));
        /* Moved with its lock. */
        say("lock on fault", mlock2(data, half, MLOCK_ONFAULT));
        touch_pages(data, half, TOUCHES / 8);
        data = moved(data, half, size, 0, NULL);
        touch_pages(data, size, TOUCHES / 8);
        say("unlock all", munlockall());
        munmap(data, size);
    }
    return finish();
}
