/* Makes FIFOs and plain files with mknod. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32];
        snprintf(name, sizeof name, "out/node%d", round);
        cold_reads(argv[1]);
        effect();
        say("mknod", round & 1 ? mkfifo(name, 0600) : mknod(name, S_IFREG | 0640, 0));
    }
    return finish();
}
