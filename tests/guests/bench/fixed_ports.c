/* Listens as live555MediaServer does, on two ports of all interfaces and of IPv6, and has a port for datagrams; says where each is. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void place(int family, int kind, int port)
{
    struct sockaddr_storage at = {.ss_family = family};
    struct sockaddr_in *four = (void *)&at;
    four->sin_port = htons(port); /* in the same place for IPv6 */
    socklen_t length = family == AF_INET ? sizeof *four : sizeof(struct sockaddr_in6);
    int fd = socket(family, kind, 0);
    if (fd < 0 || bind(fd, (void *)&at, length) != 0 || (kind == SOCK_STREAM && listen(fd, 1) != 0)) {
        puts("refused");
        return;
    }
    getsockname(fd, (void *)&at, &length);
    printf("%s %d\n", inet_ntoa(four->sin_addr), kind == SOCK_STREAM ? ntohs(four->sin_port) : 0);
}

int main(void)
{
    place(AF_INET, SOCK_STREAM, 554);
    place(AF_INET6, SOCK_STREAM, 554);
    place(AF_INET, SOCK_STREAM, 8000);
    place(AF_INET, SOCK_DGRAM, 0);
    return 0;
}
