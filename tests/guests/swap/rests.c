/* Waits for pages of a mapped file that nobody can know ahead, and then rests after each for a while, which is no wait for a page:
   rests FILE READS RESTS REST_US. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
    struct stat stat;
    int file = argc > 4 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &stat) < 0)
        return 2;
    const unsigned char *data = mmap(NULL, stat.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return 2;
    madvise((void *)data, stat.st_size, MADV_RANDOM);
    long reads = atol(argv[2]), rests = atol(argv[3]);
    uint64_t pages = stat.st_size / PAGE, state = 7, sum = 0;
    for (long i = 0; i < reads + rests; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t page = (state >> 33) % pages;
        sum = sum * 31 + data[page * PAGE + page % PAGE];
        state ^= sum;
        if (i >= reads)
            usleep(atol(argv[4]));
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
