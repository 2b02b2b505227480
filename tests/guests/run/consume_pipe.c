/* Reads its standard input a piece at a time between cold reads: each byte arrives once, in order. */
#include "hostile.h"
#include <poll.h>
#include <sys/ioctl.h>

int main(int argc, char **argv)
{
    (void)argc;
    for (;;) {
        char line[8];
        cold_reads(argv[1]);
        struct pollfd ready = {0, POLLIN, 0};
        poll(&ready, 1, -1);
        long got = read(0, line, sizeof line);
        if (got <= 0) {
            say("end", got);
            break;
        }
        dprintf(1, "[%.*s]\n", (int)got, line);
    }
    return finish();
}
