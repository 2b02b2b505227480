/* Lists its descriptors after cold reads, closes ranges of them, uses every number itself. */
#include "hostile.h"
#include <dirent.h>

static void list(const char *when)
{
    dprintf(1, "%s:", when);
    for (int fd = 0; fd < 1200; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            dprintf(1, " %d", fd);
    dprintf(1, "\n");
}

int main(int argc, char **argv)
{
    (void)argc;
    list("at the start");
    cold_reads(argv[1]);
    list("after reads");
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    say("in /proc/self/fd", count);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        int first = dup(2);
        for (int fd = 10; fd < 1000; fd += 83)
            dup2(1, fd);
        list("many");
        cold_reads(argv[1]);
        if (round & 1)
            closefrom(3);
        else
            say("close_range", close_range(3, ~0U, 0));
        list("closed");
        cold_reads(argv[1]);
        say("lowest", open(argv[1], O_RDONLY));
        say("first was", first);
    }
    return finish();
}
