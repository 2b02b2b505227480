/* A thread maps files in memory, and seals them when they are mapped no more, while the main thread reads cold data. */
#include "hostile.h"

enum { READERS_ROUNDS = 96, MAPPED_NS = 100000 };

static volatile int done;

static void *seals(void *unused)
{
    (void)unused;
    long refused = 0;
    while (!done) {
        int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
        if (fd < 0 || ftruncate(fd, BLOCK) < 0)
            die("memfd_create");
        char *map = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        map[0] = 1;
        /* So long that a copy of the process may be made meanwhile. */
        unsigned long long begun = now_ns();
        while (now_ns() - begun < MAPPED_NS)
            continue;
        munmap(map, BLOCK);
        refused += fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0;
        close(fd);
    }
    return (void *)refused;
}

int main(int argc, char **argv)
{
    (void)argc;
    pthread_t thread;
    pthread_create(&thread, NULL, seals, NULL);
    for (int i = 0; i < READERS_ROUNDS; i++)
        cold_reads(argv[1]);
    done = 1;
    void *refused;
    pthread_join(thread, &refused);
    say("seals refused", (long)refused);
    return finish();
}
