/* Changes a mode, by path and by descriptor; what it was before must be what it was. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open("out/file", O_RDONLY);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        struct stat st;
        fstat(fd, &st);
        effect();
        say("chmod", round & 1 ? chmod("out/file", 0600 + round) : fchmod(fd, 0640 + round));
        dprintf(1, "was %o\n", st.st_mode);
    }
    return finish();
}
