/* Cancels threads that are blocked in read and in cold reads; their clean-up handlers run once. */
#include "hostile.h"

static const char *data;
static int ends[2];
static pthread_key_t key;

static void clean(void *text)
{
    dprintf(1, "clean-up %s\n", (char *)text);
}

static void destructor(void *value)
{
    dprintf(1, "destructor %ld\n", (long)value);
}

static void *blocked(void *argument)
{
    (void)argument;
    char byte;
    pthread_setspecific(key, (void *)7);
    pthread_cleanup_push(clean, "blocked");
    say("never", read(ends[0], &byte, 1));
    pthread_cleanup_pop(0);
    return NULL;
}

static void *reading(void *argument)
{
    unsigned char bytes[BLOCK];
    int fd = *(int *)argument;
    pthread_setspecific(key, (void *)8);
    pthread_cleanup_push(clean, "reading");
    for (unsigned i = 0;; i++)
        pread(fd, bytes, BLOCK, (off_t)(i * 769u % 2000) * BLOCK);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    if (pipe(ends) < 0)
        die("pipe");
    pthread_key_create(&key, destructor);
    int fd = open(data, O_RDONLY);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        void *result;
        cold_reads(data);
        pthread_create(&thread, NULL, round & 1 ? reading : blocked, &fd);
        cold_reads(data);
        usleep(5000);
        effect();
        int cancelled = pthread_cancel(thread);
        pthread_join(thread, &result);
        say("cancel", cancelled);
        say("cancelled", result == PTHREAD_CANCELED);
    }
    return finish();
}
