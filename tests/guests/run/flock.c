/* Takes a flock and gives it back by unlocking, by closing and by ending; tells a FIFO what it is about to do. */
#include "hostile.h"
#include <sys/file.h>

int main(int argc, char **argv)
{
    (void)argc;
    int events = open(argv[2], O_WRONLY);
    for (int round = 0; round < 3; round++) {
        int fd = open("out/file", O_RDWR);
        say("flock", flock(fd, LOCK_EX));
        write(events, "L", 1);
        cold_reads(argv[1]);
        cold_reads(argv[1]);
        write(events, "r", 1);
        effect();
        if (round == 0)
            flock(fd, LOCK_UN);
        else if (round == 1)
            close(fd);
        else
            return finish();
        write(events, "R", 1);
        cold_reads(argv[1]);
        write(events, "E", 1);
    }
    return 0;
}
