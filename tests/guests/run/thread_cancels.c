/* Threads are cancelled amid cold reads, each at another moment. Then the main thread reads on alone. */
#include "hostile.h"

enum { CANCELLED = 150, BLOCKS_READ = 1500 };
static const char *data;
static int cleaned;

static void clean(void *argument)
{
    __atomic_fetch_add((int *)argument, 1, __ATOMIC_RELAXED);
}

static void *reading(void *argument)
{
    unsigned char bytes[BLOCK];
    int fd = *(int *)argument;
    pthread_cleanup_push(clean, &cleaned);
    for (unsigned i = 0;; i++)
        pread(fd, bytes, BLOCK, (off_t)(i * 769u % 500) * BLOCK);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    int fd = open(data, O_RDONLY);
    for (int round = 0; round < CANCELLED; round++) {
        pthread_t thread;
        posix_fadvise(fd, 0, 500 * BLOCK, POSIX_FADV_DONTNEED);
        pthread_create(&thread, NULL, reading, &fd);
        usleep(round * 37 % 1500);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    dprintf(1, "cleaned up %d times\n", cleaned);
    unsigned char bytes[BLOCK];
    for (unsigned i = 0; i < BLOCKS_READ; i++) {
        long got = pread(fd, bytes, BLOCK, (off_t)(500 + i * 769u % BLOCKS_READ) * BLOCK);
        digest(bytes, got);
    }
    return finish();
}
