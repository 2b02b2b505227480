/* Waits for cold data, and then has as many children at once as the system lets it have. */
#include "hostile.h"

enum { TRIES_MAX = 300, CHILDREN_MAX = 100 };

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        int ends[2], children = 0, tries = 0;
        if (pipe(ends) < 0)
            die("pipe");
        cold_reads(argv[1]);
        effect();
        while (tries < TRIES_MAX && children < CHILDREN_MAX) {
            pid_t child = fork();
            if (child == 0) {
                char byte;
                close(ends[1]);
                _exit(read(ends[0], &byte, 1) != 0);
            }
            if (child > 0) {
                children++;
                cold_reads(argv[1]);
            } else if (errno == EAGAIN) {
                /* Those of the round before may not be forgotten yet. */
                tries++;
                usleep(1000);
            } else {
                die("fork");
            }
        }
        say("children at once", children);
        close(ends[1]);
        close(ends[0]);
        for (int failed = 0, status; children > 0; children--) {
            if (wait(&status) < 0 || status)
                failed++;
            if (failed)
                say("failed", failed);
        }
    }
    return finish();
}
