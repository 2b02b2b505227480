/* Removes one file each round; whether it was still there shows in the result. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        snprintf(name, sizeof name, "out/victim%d", round);
        cold_reads(argv[1]);
        say("there", access(name, F_OK));
        effect();
        say("unlink", round & 1 ? unlink(name) : remove(name));
    }
    return finish();
}
