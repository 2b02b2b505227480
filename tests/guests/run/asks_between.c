/* Reads single blocks of a file, and makes descriptors that lead to no file between them. It asks a service that does not run, as
 * libc does for the names of users. */
#include "hostile.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Whether a socket of this name is there: what the attempt gives, and its descriptor. */
static void ask(const char *path, socklen_t length)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strncpy(name.sun_path, path, sizeof name.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    say("descriptor", fd);
    say(path, connect(fd, (struct sockaddr *)&name, length) < 0 ? errno : 0);
    close(fd);
}

static void make(void)
{
    int pair[2], ends[2], event = eventfd(0, EFD_NONBLOCK), poll = epoll_create1(EPOLL_CLOEXEC);
    if (pipe2(pair, O_CLOEXEC) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        die("pair");
    struct epoll_event interest = {EPOLLIN, {.fd = pair[0]}};
    say("interest", epoll_ctl(poll, EPOLL_CTL_ADD, pair[0], &interest));
    say("ready", epoll_wait(poll, &interest, 1, 0));
    say("written", write(pair[1], "a byte", 1));
    int made[] = {event, poll, pair[0], pair[1], ends[0], ends[1]};
    for (int at = 0; at < 6; at++) {
        say("made", made[at]);
        close(made[at]);
    }
}

int main(int argc, char **argv)
{
    int fd = argc < 2 ? -1 : open(argv[1], O_RDONLY);
    if (fd < 0)
        die("open");
    off_t size = lseek(fd, 0, SEEK_END);
    char longest[sizeof((struct sockaddr_un *)0)->sun_path + 1];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "/none/", 6);
    longest[sizeof longest - 1] = 0;
    unsigned sum = 0;
    unsigned char byte;
    for (int round = 0; round < 400; round++) {
        if (round % 16 == 0) {
            ask("/none/of/this/name", sizeof(struct sockaddr_un));
            ask("/etc/passwd/none", 2 + 16);
            ask(longest, sizeof(struct sockaddr_un));
            make();
        }
        off_t at = (off_t)round * 40503 % (size / 4096) * 4096;
        if (pread(fd, &byte, 1, at) != 1)
            die("read");
        sum = sum * 31 + byte;
    }
    printf("%u\n", sum);
}
