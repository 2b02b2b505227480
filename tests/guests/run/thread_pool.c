/* A pool: threads take files from one list, or each from a list of its own, and read them. What each file came to is told in
 * order. */
#include "hostile.h"

enum { THREADS = 4, FILES = 600 };
static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER, totals = PTHREAD_MUTEX_INITIALIZER;
static unsigned sums[FILES], total;
static int next, is_shared;

static int take(int own, int *taken)
{
    if (!is_shared)
        return *taken < FILES / THREADS ? own + THREADS * (*taken)++ : FILES;
    pthread_mutex_lock(&list);
    int file = next < FILES ? next++ : FILES;
    pthread_mutex_unlock(&list);
    return file;
}

static void *work(void *argument)
{
    char name[64];
    unsigned char bytes[BLOCK];
    int taken = 0;
    for (int file; (file = take((long)argument, &taken)) < FILES;) {
        snprintf(name, sizeof name, "%d", file);
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            die(name);
        unsigned sum = 0;
        for (long got; (got = read(fd, bytes, BLOCK)) > 0;)
            for (long i = 0; i < got; i += 16)
                sum = sum * 31 + bytes[i];
        close(fd);
        sums[file] = sum;
        pthread_mutex_lock(&totals);
        total += sum;
        pthread_mutex_unlock(&totals);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc != 3 || chdir(argv[2]) < 0)
        die("folder");
    is_shared = !strcmp(argv[1], "shared");
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int file = 0; file < FILES; file++)
        dprintf(1, "%08x\n", sums[file]);
    dprintf(1, "total %08x\n", total);
    return 0;
}
