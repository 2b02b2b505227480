/* Waits before each cold read until a pipe takes output, in every way that there is, and for nothing at all. What it is told
   decides what it does next. */
#include "hostile.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int takes_output(int way, const int *ends, int events)
{
    struct pollfd entries[] = {{ends[0], POLLIN, -1}, {ends[1], POLLOUT, -1}, {-1, POLLOUT, -1}};
    struct timespec second = {1, 0};
    struct timeval half = {0, 500000};
    fd_set input, output;
    struct epoll_event event;
    switch (way) {
    case 0:
        return poll(entries, 3, -1) == 1 && !entries[0].revents && entries[1].revents == POLLOUT && !entries[2].revents;
    case 1:
        return ppoll(entries, 3, &second, NULL) == 1 && entries[1].revents == POLLOUT;
    case 2:
        return poll(entries, 1, 0) == 0 && !entries[0].revents;
    case 3:
        return epoll_wait(events, &event, 1, 0) == 0;
    }
    FD_ZERO(&input);
    FD_ZERO(&output);
    FD_SET(ends[0], &input);
    FD_SET(ends[1], &output);
    int ready = way == 4 ? select(ends[1] + 1, &input, &output, NULL, &half)
                         : pselect(ends[1] + 1, &input, &output, NULL, NULL, NULL);
    return ready == 1 && !FD_ISSET(ends[0], &input) && FD_ISSET(ends[1], &output);
}

int main(int argc, char **argv)
{
    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    struct stat st;
    int ends[2];
    struct epoll_event input = {.events = EPOLLIN};
    int events = epoll_create1(EPOLL_CLOEXEC);
    if (argc < 2 || fd < 0 || fstat(fd, &st) < 0 || pipe(ends) < 0
        || epoll_ctl(events, EPOLL_CTL_ADD, ends[0], &input) < 0)
        die("waits_for_output FILE");
    unsigned blocks = st.st_size / BLOCK;
    for (int round = 0; round < ROUNDS * READS; round++) {
        static unsigned char bytes[BLOCK];
        if (!takes_output(round % 6, ends, events))
            die("no output is taken");
        if (pread(fd, bytes, BLOCK, (off_t)(block_next++ * 769u % blocks) * BLOCK) != BLOCK)
            die("short read");
        digest(bytes, BLOCK);
    }
    return finish();
}
