/* Sends datagrams to a port: sendto, send, sendmsg, sendmmsg in turn. */
#include "hostile.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    (void)argc;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (void *)&to, sizeof to) < 0)
        die("connect");
    for (int round = 0; round < ROUNDS; round++) {
        char text[32];
        cold_reads(argv[1]);
        snprintf(text, sizeof text, "%d %08x", round, checksum);
        struct iovec part = {text, strlen(text)};
        struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
        effect();
        long sent = round == 0   ? sendto(fd, text, strlen(text), 0, (void *)&to, sizeof to)
                    : round == 1 ? send(fd, text, strlen(text), 0)
                    : round == 2 ? sendmsg(fd, &message.msg_hdr, 0)
                                 : sendmmsg(fd, &message, 1, 0);
        say("sent", sent);
    }
    return finish();
}
