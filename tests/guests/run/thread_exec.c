/* One thread executes another program while others are in the middle of cold reads. */
#include "hostile.h"

static const char *data;

static void *reading(void *argument)
{
    unsigned char bytes[BLOCK];
    int fd = open(data, O_RDONLY);
    for (unsigned i = (long)argument;; i++)
        if (pread(fd, bytes, BLOCK, (off_t)(i * 769u % 2000) * BLOCK) < 0)
            return NULL;
}

static void *executing(void *argument)
{
    cold_reads(data);
    effect();
    execl("/bin/sh", "sh", "-c", "echo executed; head -c 3000 data | wc -c; exit 8", NULL);
    return argument;
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            for (long i = 0; i < 3; i++)
                pthread_create(&thread, NULL, reading, (void *)(i * 500));
            usleep(2000);
            pthread_create(&thread, NULL, executing, NULL);
            for (;;)
                pause();
        }
        int status;
        waitpid(child, &status, 0);
        say("status", status);
    }
    return 0;
}
