/* Counts in memory that is shared with a child and swapped out: anonymous, of a memory file, of System V. */
#include "faulting.h"
#include <sys/shm.h>

enum { SHARED = 12 << 20 };

static unsigned char *areas[3];

static void count(int step)
{
    for (int i = 0; i < TOUCHES / 4; i++) {
        unsigned char *area = areas[i % 3];
        size_t page = next_page(SHARED);
        digest(area + page, 64);
        area[page] += step;
    }
}

int main(int argc, char **argv)
{
    int with_system_v = argc > 1 && !strcmp(argv[1], "system-v");
    unsigned char *own = memory(24 << 20, MAP_PRIVATE);
    int file = memfd_create("shared", MFD_CLOEXEC);
    if (ftruncate(file, SHARED) < 0)
        die("ftruncate");
    areas[0] = memory(SHARED, MAP_SHARED);
    areas[1] = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    areas[2] = areas[0];
    if (with_system_v) {
        int id = shmget(IPC_PRIVATE, SHARED, IPC_CREAT | 0600);
        areas[2] = shmat(id, NULL, 0);
        shmctl(id, IPC_RMID, NULL);
        if (areas[2] == (void *)-1)
            die("shmat");
        fill_pages(areas[2], SHARED);
    }
    fill_pages(areas[1], SHARED);
    for (int round = 0; round < ROUNDS; round++) {
        touch_pages(own, 24 << 20, TOUCHES);
        effect();
        count(3);
        unsigned before = checksum;
        pid_t child = fork();
        if (child == 0) {
            count(5);
            append_line("out/child", round);
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        say("child", status);
        for (int i = 0; i < 3; i++)
            for (size_t page = 0; page < SHARED; page += BLOCK)
                checksum = checksum * 31 + areas[i][page];
        dprintf(1, "before %08x after %08x\n", before, checksum);
        unsigned char first = 0;
        say("by its descriptor", pread(file, &first, 1, next_page(SHARED)));
        dprintf(1, "%d\n", first);
    }
    return finish();
}
