/* Reads a mapped file at computed offsets, and prints a checksum: mapped FILE READS [--chased | --hinted
   AHEAD]. With --chased each offset depends on what was read before, which nobody can know ahead. With --hinted it tells the
   kernel which page it will want AHEAD reads from now: the same program after its author added hints by hand. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int file = open(argv[1], O_RDONLY);
    struct stat stat;
    if (file < 0 || fstat(file, &stat) < 0)
        return 2;
    const unsigned char *data = mmap(NULL, stat.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return 2;
    madvise((void *)data, stat.st_size, MADV_RANDOM);
    close(file);
    uint64_t pages = stat.st_size / PAGE, state = 7, hinted = 7, sum = 0;
    int chased = argc > 3 && strcmp(argv[3], "--chased") == 0;
    long reads = atol(argv[2]), ahead = argc > 4 && strcmp(argv[3], "--hinted") == 0 ? atol(argv[4]) : 0;
    for (long i = -ahead; i < reads; i++) {
        if (ahead)
            madvise((void *)(data + next(&hinted) % pages * PAGE), PAGE, MADV_WILLNEED);
        if (i < 0)
            continue;
        uint64_t page = next(&state) % pages;
        sum = sum * 31 + data[page * PAGE + page % PAGE];
        if (chased)
            state ^= sum;
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
