/* Parent and child read one open file description in turn: the offset moves by what both read, no more. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY), there[2], back[2];
    if (pipe(there) < 0 || pipe(back) < 0)
        die("pipe");
    char byte;
    unsigned char bytes[BLOCK];
    if (fork() == 0) {
        for (int round = 0; round < 4 * ROUNDS; round++) {
            read(there[0], &byte, 1);
            digest(bytes, read(fd, bytes, 1000 + round));
            if (round == 4 * ROUNDS - 1)
                dprintf(1, "child %08x\n", checksum);
            write(back[1], "x", 1);
        }
        _exit(0);
    }
    for (int round = 0; round < 4 * ROUNDS; round++) {
        for (int i = 0; i < 10; i++) {
            lseek(fd, 40 * BLOCK, SEEK_CUR);
            digest(bytes, read(fd, bytes, sizeof bytes));
        }
        say("at", lseek(fd, 0, SEEK_CUR));
        write(there[1], "x", 1);
        read(back[0], &byte, 1);
        say("then", lseek(fd, 0, SEEK_CUR));
    }
    wait(NULL);
    return finish();
}
