/* Adopts orphans and waits for any child, of which it has none. */
#include "hostile.h"
#include <sys/prctl.h>

static volatile int ended;

static void on_child(int signal)
{
    (void)signal;
    ended++;
}

int main(int argc, char **argv)
{
    (void)argc;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGCHLD, on_child);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        usleep(20000);
        say("wait", waitpid(-1, NULL, WNOHANG));
    }
    say("children that ended", ended);
    return finish();
}
