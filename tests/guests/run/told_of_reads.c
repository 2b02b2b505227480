/* Is told by a signal whenever a file in its directory is read. */
#include "hostile.h"

static volatile sig_atomic_t told;

static void on_read(int number)
{
    (void)number;
    told++;
}

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    struct sigaction action = {.sa_handler = on_read, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 3, &action, NULL);
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    fcntl(folder, F_SETSIG, SIGRTMIN + 3);
    if (fcntl(folder, F_NOTIFY, DN_ACCESS | DN_MULTISHOT) < 0)
        say("notify", -1);
    for (int round = 0; round < ROUNDS; round++)
        cold_reads(argv[1]);
    usleep(20000);
    say("told of reads", told);
    return finish();
}
