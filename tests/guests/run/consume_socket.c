/* Receives from a socket pair that a child fills, between cold reads, also with MSG_PEEK. */
#include "hostile.h"
#include <sys/socket.h>

int main(int argc, char **argv)
{
    (void)argc;
    int ends[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
    if (fork() == 0) {
        for (int n = 0; n < 12; n++)
            dprintf(ends[1], "message %d", n);
        _exit(0);
    }
    wait(NULL);
    for (int round = 0; round < 6; round++) {
        char text[64] = {0};
        cold_reads(argv[1]);
        say("peek", recv(ends[0], text, sizeof text, MSG_PEEK));
        say("recv", recv(ends[0], text, sizeof text, 0));
        dprintf(1, "%s\n", text);
        memset(text, 0, sizeof text);
        cold_reads(argv[1]);
        say("read", read(ends[0], text, sizeof text));
        dprintf(1, "%s\n", text);
    }
    say("nothing left", recv(ends[0], (char[8]){0}, 8, MSG_DONTWAIT));
    return finish();
}
