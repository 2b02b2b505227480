/* Preloaded into a server that has no option for where it listens, such as live555's: the first port that it takes connections on
   becomes $LOOPBACK_PORT of 127.0.0.1, others are refused, and datagrams come to 127.0.0.1 only. */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int bind(int descriptor, const struct sockaddr *address, socklen_t length)
{
    static int listens;
    const char *port = getenv("LOOPBACK_PORT");
    int kind = 0;
    socklen_t size = sizeof kind;
    if (!port || getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 ||
        (address->sa_family != AF_INET && address->sa_family != AF_INET6))
        return syscall(SYS_bind, descriptor, address, length);
    if (address->sa_family == AF_INET6 || (kind == SOCK_STREAM && listens)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    struct sockaddr_in there = *(const struct sockaddr_in *)address;
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (kind == SOCK_STREAM)
        there.sin_port = htons(atoi(port));
    int result = syscall(SYS_bind, descriptor, &there, sizeof there);
    listens |= kind == SOCK_STREAM && result == 0;
    return result;
}
