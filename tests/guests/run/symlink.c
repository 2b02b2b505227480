/* Makes symbolic links and reads through them. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32], target[32] = {0}, back[32] = {0};
        snprintf(name, sizeof name, "out/symlink%d", round);
        snprintf(target, sizeof target, "victim%u", checksum % 4);
        cold_reads(argv[1]);
        effect();
        say("symlink", symlink(target, name));
        say("readlink", readlink(name, back, sizeof back - 1));
        dprintf(1, "%s\n", back);
    }
    return finish();
}
