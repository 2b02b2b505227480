/* Counts in POSIX shared memory, and removes its name after a read. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    char name[64];
    snprintf(name, sizeof name, "/compat-%d", getpid());
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, BLOCK) < 0)
        die("shm_open");
    volatile unsigned *words = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        words[0] += 1;
        unsigned seen = 0;
        pread(fd, &seen, sizeof seen, 0);
        say("seen", seen);
        unsigned more = 100 + round;
        pwrite(fd, &more, sizeof more, 64);
        say("through the map", words[16]);
    }
    cold_reads(argv[1]);
    effect();
    say("unlink", shm_unlink(name));
    return finish();
}
