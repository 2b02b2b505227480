/* A read of a FIFO is interrupted by a handler without SA_RESTART and goes on after one with it; a sleep is interrupted.
 * The timer goes on until the call has ended: on a busy machine its first signal may come before the call. */
#include "hostile.h"

static volatile sig_atomic_t caught;
static int fifo;
static int restarts;

/* A read that is restarted has its byte from the second signal. */
static void handler(int number)
{
    (void)number;
    if (++caught == 2 && restarts)
        write(fifo, "x", 1);
}

static void goes_off_every(int microseconds)
{
    struct itimerval times = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &times, NULL);
}

int main(int argc, char **argv)
{
    (void)argc;
    fifo = open(argv[2], O_RDWR);
    for (int round = 0; round < ROUNDS; round++) {
        restarts = round & 1;
        struct sigaction action = {.sa_handler = handler, .sa_flags = restarts ? SA_RESTART : 0};
        sigaction(SIGALRM, &action, NULL);
        cold_reads(argv[1]);
        effect();
        caught = 0;
        goes_off_every(30000);
        char byte;
        say("read", read(fifo, &byte, 1));
        goes_off_every(0);
        say("caught", caught > 0);
        restarts = 0;
        struct timespec pause = {20, 0}, left = {0, 0};
        cold_reads(argv[1]);
        goes_off_every(10000);
        say("nanosleep", nanosleep(&pause, &left));
        goes_off_every(0);
        say("left", left.tv_sec > 0);
    }
    return finish();
}
