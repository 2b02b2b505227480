/* Threads touch pages of a mapped file in no order, which the kernel is told. Arguments: the file, threads, pages to touch (0 for each
 * page once), and "shared" for a shared mapping or "child" for a child that does it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS_MAX = 256 };

static const unsigned char *data;
static uint64_t pages, wanted, threads, bound;
static uint64_t sums[THREADS_MAX];

static void die(const char *what)
{
    perror(what);
    exit(99);
}

/* A permutation of the numbers below `bound`, a power of two. */
static uint64_t shuffled(uint64_t i)
{
    for (int round = 0; round < 3; round++) {
        i = i * 0x9e3779b97f4a7c15 & (bound - 1);
        i ^= i >> 7;
    }
    return i;
}

static void *touch(void *argument)
{
    uint64_t self = (uintptr_t)argument, touched = 0, sum = 0;
    for (uint64_t i = self; i < bound && (wanted == 0 || touched < wanted / threads); i += threads) {
        uint64_t page = shuffled(i);
        if (page >= pages)
            continue;
        sum += data[page * PAGE] * (page + 1);
        touched++;
    }
    sums[self] = sum;
    return NULL;
}

static void storm(void)
{
    pthread_t ids[THREADS_MAX];
    uint64_t sum = 0;
    for (uint64_t self = 0; self < threads; self++)
        if (pthread_create(&ids[self], NULL, touch, (void *)(uintptr_t)self))
            die("pthread_create");
    for (uint64_t self = 0; self < threads; self++) {
        pthread_join(ids[self], NULL);
        sum += sums[self];
    }
    printf("%llu\n", (unsigned long long)sum);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *how = argc > 4 ? argv[4] : "";
    struct stat stat;
    int file, status;
    if (argc < 4)
        return 98;
    if ((file = open(argv[1], O_RDONLY)) < 0 || fstat(file, &stat) < 0)
        die("open");
    pages = (uint64_t)stat.st_size / PAGE;
    threads = strtoull(argv[2], NULL, 10);
    wanted = strtoull(argv[3], NULL, 10);
    if (threads < 1 || threads > THREADS_MAX)
        return 98;
    for (bound = 1; bound < pages; bound *= 2)
        ;
    int sharing = strcmp(how, "shared") ? MAP_PRIVATE : MAP_SHARED;
    data = mmap(NULL, pages * PAGE, PROT_READ, sharing, file, 0);
    if (data == MAP_FAILED)
        die("mmap");
    close(file);
    if (madvise((void *)data, pages * PAGE, MADV_RANDOM) < 0)
        die("madvise");
    if (strcmp(how, "child")) {
        storm();
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        storm();
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        die("waitpid");
    return 0;
}
