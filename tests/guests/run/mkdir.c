/* Makes a directory, works in it, and removes another. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32], old[32];
        snprintf(name, sizeof name, "out/made%d", round);
        snprintf(old, sizeof old, "out/old%d", round);
        cold_reads(argv[1]);
        effect();
        say("mkdir", mkdir(name, 0750));
        say("rmdir", rmdir(old));
        say("chdir", chdir(name));
        close(open("inside", O_CREAT | O_WRONLY | O_EXCL, 0600));
        say("chdir", chdir("../.."));
    }
    return finish();
}
