/* Sets, replaces and removes extended attributes. */
#include "hostile.h"
#include <sys/xattr.h>

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        char name[32], value[32];
        snprintf(name, sizeof name, "user.round%d", round);
        cold_reads(argv[1]);
        effect();
        say("setxattr", setxattr("out/file", name, &round, sizeof round, XATTR_CREATE));
        say("getxattr", getxattr("out/file", name, value, sizeof value));
        say("list", listxattr("out/file", NULL, 0));
        if (round & 1)
            say("removexattr", removexattr("out/file", name));
    }
    return finish();
}
