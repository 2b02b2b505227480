/* Connects after cold reads, sends, half closes, waits for the answer. */
#include "hostile.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        cold_reads(argv[1]);
        effect();
        if (connect(fd, (void *)&to, sizeof to) < 0)
            die("connect");
        cold_reads(argv[1]);
        dprintf(fd, "%d %08x", round, checksum);
        cold_reads(argv[1]);
        say("shutdown", shutdown(fd, SHUT_WR));
        char answer[64] = {0};
        cold_reads(argv[1]);
        say("answer", read(fd, answer, sizeof answer - 1));
        dprintf(1, "%s\n", answer);
        say("end", read(fd, answer, sizeof answer));
        close(fd);
    }
    return finish();
}
