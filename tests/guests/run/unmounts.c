/* Mounts the directory elsewhere, reads there, and unmounts it. */
#include "hostile.h"
#include <sys/mount.h>

enum { BYTES = 64 << 20 };

int main(int argc, char **argv)
{
    (void)argc;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        die("a namespace of mounts");
    mkdir("out/mount", 0700);
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, BYTES);
    char path[64];
    snprintf(path, sizeof path, "out/mount/%s", argv[1]);
    for (int round = 0; round < ROUNDS; round++) {
        if (mount(".", "out/mount", NULL, MS_BIND, NULL) < 0)
            die("mount");
        cold_reads(path);
        cold_reads(path);
        say("unmount", umount("out/mount"));
    }
    return finish();
}
