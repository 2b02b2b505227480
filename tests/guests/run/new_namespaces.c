/* Has its children in namespaces of their own, of processes and of time: the first of them is the first process there, and
   the clock is set before. */
#include "hostile.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    say("unshare", unshare(CLONE_NEWPID | CLONE_NEWTIME));
    cold_reads(argv[1]);
    cold_reads(argv[1]);
    int offsets = open("/proc/self/timens_offsets", O_WRONLY);
    say("offsets", write(offsets, "boottime 1000 0\n", 16));
    close(offsets);
    pid_t child = fork();
    if (child == 0) {
        dprintf(1, "the child is %d\n", getpid());
        _exit(0);
    }
    /* The child writes first, so that the order is the same in each run. */
    pid_t ended = child < 0 ? -1 : waitpid(child, NULL, 0);
    say("fork", child < 0 ? -1 : 0);
    say("wait", ended < 0 ? -1 : ended == child);
    return finish();
}
