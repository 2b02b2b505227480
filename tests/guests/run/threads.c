/* Threads read at the same time and take turns with a mutex and a condition to write. */
#include "hostile.h"

enum { THREADS = 6 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int turn, out;
static const char *data;

static void *work(void *argument)
{
    long self = (long)argument;
    unsigned sum = 0;
    unsigned char bytes[BLOCK];
    int fd = open(data, O_RDONLY);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < READS; i++) {
            if (pread(fd, bytes, BLOCK, (off_t)((self * 331 + round * 97 + i * 769) % 2000) * BLOCK) != BLOCK)
                die("pread");
            sum = bytes[i] & 1 ? sum * 31 + bytes[7] : sum ^ bytes[9];
        }
        pthread_mutex_lock(&mutex);
        while (turn % THREADS != self)
            pthread_cond_wait(&turn_changed, &mutex);
        dprintf(out, "thread %ld round %d %08x\n", self, round, sum);
        turn++;
        pthread_cond_broadcast(&turn_changed);
        pthread_mutex_unlock(&mutex);
    }
    close(fd);
    return (void *)(long)sum;
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    pthread_t threads[THREADS];
    cold_reads(data);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        say("joined", (long)sum);
    }
    return finish();
}
