/* Gathers by way of records that are in memory too, in phases with code of their own: phases MIB ROUNDS [PHASES]. Where a
   record is swapped out, what it holds decides all that follows. Prints a checksum, and to standard error the seconds that
   the gathering took. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096

/* Where in the data something is, with what a record has besides. */
struct record {
    uint32_t page;
    char rest[60];
};

static const struct record *records;
static const unsigned char *data;
static uint64_t sum = 1;

/* Each phase reads its index, and through it the data, at places of its own in the program. */
#define PHASE(number)                                                                                                  \
    __attribute__((noinline)) static void phase_##number(size_t first, size_t last)                                    \
    {                                                                                                                  \
        for (size_t i = first; i < last; i++)                                                                          \
            sum = sum * (31 + 2 * number) + data[(size_t)records[i].page * PAGE + records[i].page % PAGE];             \
    }
PHASE(0) PHASE(1) PHASE(2) PHASE(3) PHASE(4) PHASE(5) PHASE(6) PHASE(7)
static void (*const phases[])(size_t, size_t) = {phase_0, phase_1, phase_2, phase_3,
                                                 phase_4, phase_5, phase_6, phase_7};

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(2);
    return memory;
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)(argc > 1 ? atol(argv[1]) : 256) << 20;
    size_t rounds = argc > 2 ? atol(argv[2]) : 20000;
    size_t count = argc > 3 ? atol(argv[3]) : 8;
    size_t pages = bytes / PAGE;
    uint64_t state = 1;
    struct record *index = memory(rounds * sizeof *index);
    unsigned char *values = memory(bytes);
    for (size_t i = 0; i < rounds; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        index[i].page = (state >> 33) % pages;
    }
    for (size_t page = 0; page < pages; page++)
        values[page * PAGE + page % PAGE] = page * 7 + 1;
    records = index;
    data = values;
    double before = seconds();
    for (size_t phase = 0; phase < count; phase++)
        phases[phase % 8](rounds / count * phase, rounds / count * (phase + 1));
    fprintf(stderr, "%.3f\n", seconds() - before);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
