/* Is asked for permission whenever somebody opens a file that it has open for writing, and reads in between. */
#include "hostile.h"
#include <poll.h>
#include <sys/fanotify.h>

static int questions;
static long asked;

static void answer(void)
{
    struct pollfd question = {questions, POLLIN, 0};
    while (poll(&question, 1, 1) > 0) {
        char bytes[8192];
        long left = read(questions, bytes, sizeof bytes);
        struct fanotify_event_metadata *event = (void *)bytes;
        for (; FAN_EVENT_OK(event, left); event = FAN_EVENT_NEXT(event, left)) {
            struct fanotify_response response = {event->fd, FAN_ALLOW};
            asked++;
            write(questions, &response, sizeof response);
            close(event->fd);
        }
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    int file = open("out/file", O_RDWR);
    questions = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_LARGEFILE);
    if (file < 0 || questions < 0
        || fanotify_mark(questions, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, "out/file") < 0)
        return finish();
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        if (child == 0) {
            open("out/file", O_RDONLY);
            _exit(0);
        }
        while (waitpid(child, NULL, WNOHANG) == 0)
            answer();
        cold_reads(argv[1]);
    }
    say("asked", asked);
    return finish();
}
