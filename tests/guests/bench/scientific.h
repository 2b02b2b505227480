/* What the scientific guests share: memory, repeatable values, the clock, and how they report. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static size_t argument(int argc, char **argv, int index, size_t otherwise)
{
    return argc > index ? strtoul(argv[index], NULL, 10) : otherwise;
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double *map_doubles(size_t count)
{
    void *memory =
        mmap(NULL, count * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Between 0 and 1, in no order. */
static __attribute__((unused)) double value_at(size_t index)
{
    return (double)(uint32_t)(index * 2654435761u) / UINT32_MAX;
}

/* Prints a checksum of the values and, to standard error, the seconds since `before`. */
static __attribute__((unused)) int report(double before, const double *values, size_t count)
{
    double sum = 0;
    fprintf(stderr, "%.3f\n", seconds() - before);
    for (size_t i = 0; i < count; i++)
        sum += values[i] * (1 + i % 3);
    printf("%.10e\n", sum);
    return 0;
}
