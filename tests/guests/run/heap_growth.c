/* Reads blocks that are not in memory, and then others as its heap grows by brk: heap_growth FILE MIB. Prints a checksum. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
    int file = argc > 2 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0)
        return 2;
    off_t blocks = lseek(file, 0, SEEK_END) / PAGE;
    size_t steps = atol(argv[2]);
    uint64_t state = 1, sum = 0;
    unsigned char block[PAGE];
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    for (size_t step = 0; step < 200 + steps; step++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (pread(file, block, PAGE, (off_t)((state >> 33) % blocks) * PAGE) != PAGE)
            return 2;
        sum = sum * 31 + block[0];
        if (step < 200)
            continue;
        unsigned char *more = sbrk(1 << 20);
        if (more == (void *)-1)
            return 2;
        for (size_t page = 0; page < 1 << 20; page += PAGE)
            more[page] = page / PAGE;
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
