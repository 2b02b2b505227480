/* Gives up root after cold reads; what was readable no longer is. */
#include "hostile.h"
#include <grp.h>

int main(int argc, char **argv)
{
    (void)argc;
    chmod("out/file", 0600);
    int fd = open(argv[1], O_RDONLY);
    cold_reads_fd(fd);
    say("before", access("out/file", R_OK));
    effect();
    say("setgroups", setgroups(0, NULL));
    say("setgid", setresgid(65534, 65534, 65534));
    say("setuid", setresuid(65534, 65534, 65534));
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads_fd(fd);
        say("secret", open("out/file", O_RDONLY));
        say("create", open("out/mine", O_CREAT | O_WRONLY, 0600));
        say("uid", getuid());
        say("back", seteuid(0));
    }
    return finish();
}
