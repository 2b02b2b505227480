/* Has deep stacks swapped out below it: the main one, one of a thread, one that grows down by itself; locks memory. */
#include "faulting.h"

enum { ROOM = 4 << 20 };

static unsigned char *data;

/* A page and more of stack for each level, all of it looked at again on the way back. */
static unsigned deep(int level)
{
    volatile unsigned char room[BLOCK];
    for (int i = 0; i < BLOCK; i += 512)
        room[i] = level * 7 + i / 512;
    if (level > 0)
        checksum += deep(level - 1);
    else
        touch_pages(data, MEMORY, TOUCHES);
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i += 512)
        sum = sum * 31 + room[i];
    return sum;
}

static void *on_thread(void *levels)
{
    checksum += deep((long)levels);
    return NULL;
}

int main(void)
{
    data = memory(MEMORY, MAP_PRIVATE);
    for (int round = 0; round < ROUNDS; round++) {
        checksum += deep(1200);
        effect();
        append_line("out/file", round);
        pthread_t thread;
        if (pthread_create(&thread, NULL, on_thread, (void *)1200) != 0)
            die("pthread_create");
        pthread_join(thread, NULL);
        /* The kernel lets it grow only where a mebibyte below stays free. */
        unsigned char *top = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned char *grows = mmap(top + ROOM - 4 * BLOCK, 4 * BLOCK, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
        munmap(top, ROOM - 4 * BLOCK);
        for (int page = 3; page > -60; page--)
            grows[page * BLOCK + 8] = page & 127;
        touch_pages(data, MEMORY, TOUCHES / 2);
        for (int page = -59; page < 4; page++)
            checksum = checksum * 31 + grows[page * BLOCK + 8];
        say("lock", mlock(data + round * (1 << 20), 1 << 20));
        touch_pages(data, MEMORY, TOUCHES / 4);
        say("unlock", munlock(data + round * (1 << 20), 1 << 20));
        say("lock on fault", mlock2(data, 2 << 20, MLOCK_ONFAULT));
        touch_pages(data, MEMORY, TOUCHES / 4);
        say("unlock all", munlockall());
        say("no more than fits is locked", mlockall(MCL_CURRENT | MCL_ONFAULT) == 0);
        munlockall();
    }
    return finish();
}
