/* Makes hard links, also of a file without a name (O_TMPFILE). */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32], self[64];
        snprintf(name, sizeof name, "out/link%d", round);
        cold_reads(argv[1]);
        effect();
        if (round & 1) {
            int fd = open("out", O_TMPFILE | O_RDWR, 0640);
            dprintf(fd, "nameless %08x\n", checksum);
            snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
            say("linkat", linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW));
            close(fd);
        } else {
            say("link", link("out/victim0", name));
        }
    }
    return finish();
}
