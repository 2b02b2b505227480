/* Maps a cold file for writing: what is shared reaches the file once, what is private never does. */
#include "faulting.h"

int main(int argc, char **argv)
{
    (void)argc;
    unsigned char *ballast = memory(20 << 20, MAP_PRIVATE);
    int fd = open(argv[1], O_RDWR);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    size_t size = st.st_size;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *own = cold_map(fd, size, PROT_READ | PROT_WRITE, MAP_PRIVATE);
        touch_pages(own, size, TOUCHES / 2);
        change_pages(own, size, TOUCHES / 4);
        /* A private page that was never changed shows what happens to the file, one that was does not. */
        effect();
        unsigned char *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        madvise(shared, size, MADV_RANDOM);
        for (int i = 0; i < TOUCHES / 4; i++) {
            size_t page = next_page(size);
            digest(shared + page, 64);
            shared[page + 100]++;
            shared[page + 101] = checksum;
        }
        if (round & 1)
            say("sync", msync(shared, size, MS_SYNC));
        else
            say("start to sync", msync(shared, size, MS_ASYNC));
        for (int i = 0; i < 40; i++) {
            unsigned char byte;
            size_t page = next_page(size);
            if (pread(fd, &byte, 1, page + 100) != 1 || byte != shared[page + 100])
                dprintf(1, "page %zu differs from its file\n", page / BLOCK);
            checksum += byte;
        }
        /* All of it, so with the kernel's own readahead. */
        madvise(own, size, MADV_NORMAL);
        for (size_t page = 0; page < size; page += BLOCK)
            checksum = checksum * 31 + own[page];
        append_line("out/file", round);
        munmap(own, size);
        munmap(shared, size);
        touch_pages(ballast, 20 << 20, 50);
    }
    return finish();
}
