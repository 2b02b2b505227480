/* Removes a file of a file system that has room for no other, and makes another one there, after cold reads. */
#include "hostile.h"
#include <sys/mount.h>

enum { BYTES = 64 << 20, FILE_BYTES = 3 << 20 };

static char piece[1 << 16];

static int fill(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    for (int at = 0; at < FILE_BYTES; at += sizeof piece)
        if (write(fd, piece, sizeof piece) != sizeof piece) {
            say("write", -1);
            break;
        }
    return fd;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        die("a namespace of mounts");
    mkdir("out/small", 0700);
    if (mount("tmpfs", "out/small", "tmpfs", 0, "size=4m") < 0)
        die("mount");
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, BYTES);
    int fd = fill("out/small/run");
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        cold_reads(argv[1]);
        close(fd);
        unlink("out/small/run");
        fd = fill("out/small/run");
    }
    close(fd);
    umount("out/small");
    return finish();
}
