/* Changes its root directory after cold reads and works there; needs to be root. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY);
    cold_reads_fd(fd);
    struct stat st;
    say("before", stat("/inside", &st));
    effect();
    say("chroot", chroot("out"));
    say("chdir", chdir("/"));
    say("inside", stat("/file", &st));
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads_fd(fd);
        say("outside", open("/etc/passwd", O_RDONLY));
        int out = open("/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
        dprintf(out, "round %d\n", round);
        close(out);
    }
    return finish();
}
