/* Reads into memory that a forked copy does not get, or gets empty, or that is locked, huge, or just mapped. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY);
    size_t size = 4 << 20;
    unsigned char *areas[5];
    for (int i = 0; i < 5; i++)
        areas[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(areas[0], size, MADV_DONTFORK);
    madvise(areas[1], size, MADV_WIPEONFORK);
    madvise(areas[2], size, MADV_HUGEPAGE);
    say("lock", mlock(areas[3], 1 << 16));
    areas[4] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_GROWSDOWN | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 5; i++) {
            effect();
            for (int n = 0; n < 20; n++) {
                unsigned char *to = areas[i] + n * 2 * BLOCK + 77;
                digest(to, pread(fd, to, BLOCK, (off_t)(block_next++ * 769u % 2000) * BLOCK));
            }
        }
    say("all locked", mlockall(MCL_CURRENT | MCL_FUTURE) == 0 || errno == EPERM || errno == ENOMEM);
    cold_reads(argv[1]);
    munlockall();
    char *small = mmap(NULL, 64 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    cold_reads(argv[1]);
    for (int i = 0; i < 64; i++)
        checksum += small[i * BLOCK]++;
    cold_reads(argv[1]);
    for (int i = 0; i < 64; i++)
        checksum += small[i * BLOCK];
    return finish();
}
