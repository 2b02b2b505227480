/* Leaves a blocking read of a FIFO by siglongjmp out of a timer's handler, between cold reads. */
#include "hostile.h"

static sigjmp_buf back;

static void handler(int number)
{
    siglongjmp(back, number);
}

int main(int argc, char **argv)
{
    (void)argc;
    signal(SIGALRM, handler);
    int fifo = open(argv[2], O_RDWR);
    for (volatile int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        if (sigsetjmp(back, 1) == 0) {
            struct itimerval soon = {{0, 0}, {0, 30000}};
            setitimer(ITIMER_REAL, &soon, NULL);
            char byte;
            say("never", read(fifo, &byte, 1));
        } else {
            say("jumped", round);
        }
    }
    /* And out of the middle of cold reads, wherever the timer strikes. */
    for (volatile int round = 0; round < 20; round++) {
        if (sigsetjmp(back, 1) == 0) {
            struct itimerval soon = {{0, 0}, {0, 300 + 70 * round}};
            setitimer(ITIMER_REAL, &soon, NULL);
            for (;;)
                cold_reads(argv[1]);
        }
    }
    checksum = 0;
    block_next = 0;
    cold_reads(argv[1]);
    return finish();
}
