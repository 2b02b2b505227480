/* Reads a mapped file at computed offsets: mapped FILE READS. Prints a checksum, and to standard error the seconds that
   the reads took. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
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
    uint64_t pages = stat.st_size / PAGE, state = 7, sum = 0;
    double before = seconds();
    for (long i = 0; i < atol(argv[2]); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t page = (state >> 33) % pages;
        sum = sum * 31 + data[page * PAGE + page % PAGE];
    }
    fprintf(stderr, "%.3f\n", seconds() - before);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
