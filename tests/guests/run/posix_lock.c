/* The same with a POSIX record lock, which also any close of the file by the process releases. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int events = open(argv[2], O_WRONLY);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 20};
    for (int round = 0; round < 3; round++) {
        int fd = open("out/file", O_RDWR);
        lock.l_type = F_WRLCK;
        say("lock", fcntl(fd, F_SETLKW, &lock));
        write(events, "L", 1);
        cold_reads(argv[1]);
        cold_reads(argv[1]);
        write(events, "r", 1);
        effect();
        lock.l_type = F_UNLCK;
        if (round == 0)
            fcntl(fd, F_SETLKW, &lock);
        else if (round == 1)
            close(open("out/file", O_RDONLY));
        else
            return finish();
        write(events, "R", 1);
        cold_reads(argv[1]);
        write(events, "E", 1);
        close(fd);
    }
    return 0;
}
