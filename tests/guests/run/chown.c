/* Changes the owner (to another where that is allowed). */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        struct stat st;
        lstat("out/file", &st);
        effect();
        uid_t to = geteuid() == 0 ? 1000 + (uid_t)round : geteuid();
        say("chown", round & 1 ? chown("out/file", to, -1) : lchown("out/file", to, -1));
        dprintf(1, "was %d\n", geteuid() == 0 ? (int)st.st_uid : 0);
    }
    return finish();
}
