/* Serves: accepts connections that its child makes, reads a file for each, answers. */
#include "hostile.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    (void)argc;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    if (bind(listener, (void *)&at, sizeof at) < 0 || listen(listener, 16) < 0)
        die("listen");
    getsockname(listener, (void *)&at, &length);
    pid_t child = fork();
    if (child == 0) {
        close(listener);
        for (int n = 0; n < ROUNDS; n++) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            char answer[64] = {0};
            if (connect(fd, (void *)&at, sizeof at) < 0)
                die("connect");
            dprintf(fd, "%d", n);
            long got = read(fd, answer, sizeof answer - 1);
            dprintf(1, "answer %ld %s, then %ld\n", got, answer, (long)read(fd, answer, 1));
            close(fd);
        }
        _exit(0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        int fd = accept(listener, NULL, NULL);
        char request[8] = {0};
        cold_reads(argv[1]);
        read(fd, request, sizeof request);
        cold_reads(argv[1]);
        dprintf(fd, "%s %08x", request, checksum);
        close(fd);
    }
    waitpid(child, NULL, 0);
    return finish();
}
