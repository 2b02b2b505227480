/* Reads with O_DIRECT, aligned and not. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY | O_DIRECT);
    if (fd < 0) {
        say("O_DIRECT", fd);
        return finish();
    }
    unsigned char *bytes = aligned_alloc(BLOCK, 4 * BLOCK);
    for (int i = 0; i < 60; i++) {
        long got = pread(fd, bytes, 2 * BLOCK, (off_t)(i * 769 % 2000) * BLOCK);
        digest(bytes, got);
        if (i % 20 == 0) {
            say("aligned", got);
            say("unaligned buffer", pread(fd, bytes + 1, BLOCK, 0));
            say("unaligned length", pread(fd, bytes, 100, 0));
            off_t end = lseek(fd, 0, SEEK_END);
            say("at the end", pread(fd, bytes, BLOCK, end / BLOCK * BLOCK));
        }
    }
    return finish();
}
