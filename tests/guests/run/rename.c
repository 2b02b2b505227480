/* Renames, and swaps two names, which done twice undoes itself. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    char name[32] = "out/victim0";
    for (int round = 0; round < ROUNDS; round++) {
        char to[32];
        snprintf(to, sizeof to, "out/renamed%d", round);
        cold_reads(argv[1]);
        effect();
        say("rename", rename(name, to));
        say("renameat2", syscall(SYS_renameat2, AT_FDCWD, "out/victim1", AT_FDCWD, "out/victim2", 2 /* EXCHANGE */));
        strcpy(name, to);
    }
    return finish();
}
