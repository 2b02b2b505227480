/* Takes a lock file the old way: whoever creates it has it. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        int fd = open("out/lock", O_CREAT | O_EXCL | O_WRONLY, 0600);
        say("create", fd < 0 ? fd : 0);
        cold_reads(argv[1]);
        struct stat st;
        say("still there", fstat(fd, &st) < 0 ? -1 : (long)st.st_nlink);
        close(fd);
        say("unlink", unlink("out/lock"));
        int temporary;
        char name[] = "out/tmpXXXXXX";
        say("mkstemp", (temporary = mkstemp(name)) < 0);
        close(temporary);
        unlink(name);
    }
    return finish();
}
