/* Forks after cold reads; the child writes and reads on, its parent collects exactly that child. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        pid_t child = fork();
        if (child == 0) {
            cold_reads(argv[1]);
            dprintf(out, "child %d %08x parent %d\n", round, checksum, getppid() > 1);
            _exit(round + 3);
        }
        int status;
        cold_reads(argv[1]);
        say("right child", waitpid(child, &status, 0) == child);
        say("status", WEXITSTATUS(status));
    }
    say("no more", waitpid(-1, NULL, 0));
    return finish();
}
