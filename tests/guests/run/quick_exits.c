/* Children end by _exit, quick_exit, a signal and return; each runs what it should and nothing else. */
#include "hostile.h"

static void quick(void)
{
    dprintf(1, "quick handler\n");
}

static void normal(void)
{
    dprintf(1, "normal handler\n");
}

int main(int argc, char **argv)
{
    (void)argc;
    for (int way = 0; way < 4; way++) {
        cold_reads(argv[1]);
        effect();
        pid_t child = fork();
        if (child == 0) {
            atexit(normal);
            at_quick_exit(quick);
            cold_reads(argv[1]);
            if (way == 0)
                _exit(checksum % 100);
            if (way == 1)
                quick_exit(checksum % 100);
            if (way == 2)
                kill(getpid(), SIGTERM);
            exit(checksum % 100);
        }
        int status;
        waitpid(child, &status, 0);
        say("status", status);
    }
    return finish();
}
