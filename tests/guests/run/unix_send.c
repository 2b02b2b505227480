/* Sends a descriptor over a UNIX socket, with a message. */
#include "hostile.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
    (void)argc;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strcpy(to.sun_path, argv[2]);
    if (connect(fd, (void *)&to, sizeof to) < 0)
        die("connect");
    for (int round = 0; round < ROUNDS; round++) {
        char text[32];
        int passed = open(argv[1], O_RDONLY);
        cold_reads(argv[1]);
        snprintf(text, sizeof text, "%d %08x", round, checksum);
        struct iovec part = {text, strlen(text)};
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(int))];
        } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
        memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                                 .msg_controllen = sizeof control};
        effect();
        say("sent", sendmsg(fd, &message, 0));
        close(passed);
    }
    return finish();
}
