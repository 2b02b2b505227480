/* Takes a flock and gives it back by unlocking, by closing and by ending; tells a FIFO what it is about to do. The file is open
 * for writing, for reading, or for reading and mapped until after it is closed. */
#include "hostile.h"
#include <sys/file.h>

int main(int argc, char **argv)
{
    int reads = argc > 3, maps = reads && !strcmp(argv[3], "map");
    int events = open(argv[2], O_WRONLY);
    for (int round = 0; round < 3; round++) {
        int fd = open("out/file", reads ? O_RDONLY : O_RDWR);
        say("flock", flock(fd, LOCK_EX));
        write(events, "L", 1);
        void *page = maps ? mmap(NULL, BLOCK, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
        cold_reads(argv[1]);
        if (round == 1 && maps)
            close(fd);
        cold_reads(argv[1]);
        write(events, "r", 1);
        effect();
        if (round == 0)
            flock(fd, LOCK_UN);
        else if (round == 1 && maps)
            munmap(page, BLOCK);
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
