/* A read of a FIFO is interrupted by a handler without SA_RESTART, with it, and by a stop; each as it should. */
#include "hostile.h"

static volatile sig_atomic_t caught;

static void handler(int number)
{
    (void)number;
    caught++;
}

int main(int argc, char **argv)
{
    (void)argc;
    int fifo = open(argv[2], O_RDWR);
    for (int round = 0; round < ROUNDS; round++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = round & 1 ? SA_RESTART : 0};
        sigaction(SIGALRM, &action, NULL);
        cold_reads(argv[1]);
        effect();
        pid_t child = -1;
        if (round & 1 && (child = fork()) == 0) {
            usleep(100000);
            write(fifo, "x", 1);
            _exit(0);
        }
        struct itimerval soon = {{0, 0}, {0, 30000}};
        setitimer(ITIMER_REAL, &soon, NULL);
        char byte;
        say("read", read(fifo, &byte, 1));
        say("caught", caught);
        if (child > 0)
            waitpid(child, NULL, 0);
        struct timespec pause = {0, 50000000}, left = {0, 0};
        cold_reads(argv[1]);
        soon.it_value.tv_usec = 10000;
        setitimer(ITIMER_REAL, &soon, NULL);
        say("nanosleep", nanosleep(&pause, &left));
        say("left", left.tv_nsec > 0);
    }
    return finish();
}
