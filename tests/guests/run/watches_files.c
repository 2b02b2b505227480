/* Is told whenever a file in its directory is opened or closed. */
#include "hostile.h"
#include <sys/inotify.h>

int main(int argc, char **argv)
{
    (void)argc;
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch < 0 || inotify_add_watch(watch, ".", IN_OPEN | IN_CLOSE_NOWRITE | IN_ACCESS) < 0)
        die("inotify");
    long opened = 0, closed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        usleep(20000);
        char bytes[65536] __attribute__((aligned(8)));
        long length;
        while ((length = read(watch, bytes, sizeof bytes)) > 0)
            for (char *at = bytes; at < bytes + length;) {
                struct inotify_event *event = (void *)at;
                opened += (event->mask & IN_OPEN) != 0;
                closed += (event->mask & IN_CLOSE_NOWRITE) != 0;
                at += sizeof *event + event->len;
            }
    }
    say("opened", opened);
    say("closed", closed);
    return finish();
}
