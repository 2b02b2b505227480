/* Raises a signal to itself; the handler writes, reads a file and changes what the program does next. */
#include "hostile.h"

static volatile sig_atomic_t caught;
static const char *data;

static void handler(int number)
{
    int error = errno;
    caught += number;
    cold_reads(data);
    effect();
    dprintf(1, "handler %d %08x\n", number, checksum);
    errno = error;
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        say("raise", round & 1 ? raise(SIGUSR1) : kill(getpid(), SIGUSR2));
        say("caught", caught);
    }
    return finish();
}
