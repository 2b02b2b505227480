/* Threads read cold data while others fork and wait, and start programs; fork handlers run once a fork. */
#include "hostile.h"

static const char *data;
static int before, in_parent, in_child;
static volatile int stop;

static void on_before(void) { __atomic_fetch_add(&before, 1, __ATOMIC_SEQ_CST); }
static void on_parent(void) { __atomic_fetch_add(&in_parent, 1, __ATOMIC_SEQ_CST); }
static void on_child(void) { in_child++; }

static void *reading(void *argument)
{
    unsigned char bytes[BLOCK];
    int fd = open(data, O_RDONLY);
    unsigned sum = 0;
    for (unsigned i = (long)argument; !stop; i++) {
        sum += pread(fd, bytes, BLOCK, (off_t)(i * 769u % 2000) * BLOCK) != BLOCK;
        if (i % 100 == 99)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    close(fd);
    return (void *)(long)sum;
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    pthread_atfork(on_before, on_parent, on_child);
    cold_reads(data);
    say("handlers before any fork", before + in_parent + in_child);
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, reading, (void *)(i * 700));
    for (int round = 0; round < 5 * ROUNDS; round++) {
        effect();
        pid_t child = fork();
        if (child == 0) {
            int fd = open(data, O_RDONLY);
            char byte;
            pread(fd, &byte, 1, (off_t)(round * 90) * BLOCK);
            _exit(in_child);
        }
        int status;
        waitpid(child, &status, 0);
        if (status != 1 << 8)
            say("odd status", status);
    }
    say("system", system("cat data | wc -c"));
    stop = 1;
    for (int i = 0; i < 3; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        say("short reads", (long)sum);
    }
    dprintf(1, "handlers %d %d %d\n", before, in_parent, in_child);
    return finish();
}
