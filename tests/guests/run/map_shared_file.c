/* Counts in a shared mapping of a file. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open("out/file", O_RDWR);
    volatile unsigned *words = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED)
        die("mmap");
    close(fd);
    words[0] = 0;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        words[0]++;
        __atomic_fetch_add((unsigned *)words + 1, checksum, __ATOMIC_SEQ_CST);
        say("count", words[0]);
        if (round & 1)
            msync((void *)words, BLOCK, MS_SYNC);
    }
    return finish();
}
