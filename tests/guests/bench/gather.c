/* Gathers through an index over memory: gather MIB ROUNDS [SEED]. Prints a checksum, and to standard error the seconds
   that the gathering took. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)(argc > 1 ? atol(argv[1]) : 256) << 20;
    size_t rounds = argc > 2 ? atol(argv[2]) : 20000;
    uint64_t state = argc > 3 ? atol(argv[3]) : 1;
    size_t pages = bytes / PAGE;
    uint32_t *index = malloc(rounds * sizeof *index);
    unsigned char *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!index || data == MAP_FAILED)
        return 2;
    for (size_t page = 0; page < pages; page++)
        data[page * PAGE + page % PAGE] = page * 7 + 1;
    for (size_t i = 0; i < rounds; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        index[i] = (state >> 33) % pages;
    }
    double before = seconds();
    uint64_t sum = 0;
    for (size_t i = 0; i < rounds; i++)
        sum = sum * 31 + data[(size_t)index[i] * PAGE + index[i] % PAGE];
    fprintf(stderr, "%.3f\n", seconds() - before);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
