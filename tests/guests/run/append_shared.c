/* Two processes append to one open file description, in turn. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int out = open("out/log", O_RDWR | O_CREAT, 0644), there[2], back[2];
    if (pipe(there) < 0 || pipe(back) < 0)
        die("pipe");
    pid_t child = fork();
    char byte;
    if (child == 0) {
        for (int round = 0; round < ROUNDS; round++) {
            cold_reads(argv[1]);
            read(there[0], &byte, 1);
            dprintf(out, "child %d %08x\n", round, checksum);
            write(back[1], "x", 1);
        }
        _exit(0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        dprintf(out, "parent %d %08x\n", round, checksum);
        say("at", lseek(out, 0, SEEK_CUR));
        write(there[1], "x", 1);
        cold_reads(argv[1]);
        read(back[0], &byte, 1);
        say("at", lseek(out, 0, SEEK_CUR));
    }
    waitpid(child, NULL, 0);
    return finish();
}
