/* Looks names up in every way: relative to directories, through links, in vain; cold where the caller could make
 * them so. */
#include "hostile.h"
#include <dirent.h>
#include <sys/vfs.h>

static void show(const char *what, long result, const struct stat *st)
{
    int error = errno;
    if (result < 0)
        dprintf(1, "%s: %s\n", what, strerror(error));
    else
        dprintf(1, "%s: mode %o size %lld links %ld\n", what, st->st_mode, S_ISDIR(st->st_mode) ? 0LL : (long long)st->st_size,
                (long)st->st_nlink);
}

int main(int argc, char **argv)
{
    (void)argc;
    struct stat st;
    struct statx stx;
    char name[64], text[256];
    cold_reads(argv[1]);
    for (int d = 0; d < 12; d++) {
        snprintf(name, sizeof name, "tree/d%d", d);
        int directory = open(name, O_RDONLY | O_DIRECTORY), path = open(name, O_PATH);
        say("directory", directory >= 0 && path >= 0);
        DIR *listing = fdopendir(dup(directory));
        int count = 0, kinds = 0;
        for (struct dirent *entry; (entry = readdir(listing)); count++)
            kinds += entry->d_type;
        rewinddir(listing);
        long at = 0;
        for (int i = 0; i < 3; i++) {
            readdir(listing);
            at = telldir(listing);
        }
        seekdir(listing, at);
        int rest = 0;
        while (readdir(listing))
            rest++;
        closedir(listing);
        dprintf(1, "entries %d kinds %d rest %d\n", count, kinds, rest);
        for (int f = 0; f < 6; f++) {
            snprintf(name, sizeof name, "f%d", f);
            show("fstatat", fstatat(directory, name, &st, 0), &st);
            show("by path handle", fstatat(path, name, &st, AT_SYMLINK_NOFOLLOW), &st);
            int fd = openat(f & 1 ? directory : path, name, O_RDONLY | O_NOFOLLOW);
            long got = read(fd, text, sizeof text);
            digest((unsigned char *)text, got);
            say("read", got);
            close(fd);
            if (statx(directory, name, 0, STATX_ALL, &stx) == 0)
                dprintf(1, "statx %o %llu %u\n", stx.stx_mode, stx.stx_size, stx.stx_nlink);
        }
        show("link", fstatat(directory, "link", &st, 0), &st);
        show("link itself", fstatat(directory, "link", &st, AT_SYMLINK_NOFOLLOW), &st);
        memset(text, 0, sizeof text);
        say("readlink", readlinkat(directory, "link", text, sizeof text));
        dprintf(1, "%s\n", text);
        say("no following", openat(directory, "link", O_RDONLY | O_NOFOLLOW));
        say("dangling", openat(directory, "dangling", O_RDONLY));
        say("loop", openat(directory, "loop", O_RDONLY));
        say("missing", openat(directory, "missing", O_RDONLY));
        say("missing", faccessat(directory, "missing", F_OK, 0));
        say("access", faccessat(directory, "f1", R_OK, 0));
        say("executable", faccessat(directory, "f1", X_OK, 0));
        say("file as directory", openat(directory, "f0/x", O_RDONLY));
        say("slash", openat(directory, "f0/", O_RDONLY));
        show("up", fstatat(directory, "../d0/./f0", &st, 0), &st);
        show("empty path", fstatat(directory, "", &st, 0), &st);
        show("empty path of handle", fstatat(path, "", &st, AT_EMPTY_PATH), &st);
        show("not a descriptor", fstatat(555, "f0", &st, 0), &st);
        show("handle of a file", fstatat(openat(directory, "f0", O_PATH), "x", &st, 0), &st);
        say("read a handle", read(path, text, 5));
        say("read a directory", read(directory, text, 5));
        int fifo = openat(directory, "fifo", O_RDONLY | O_NONBLOCK);
        show("fifo", fstat(fifo, &st), &st);
        say("empty", read(fifo, text, sizeof text));
        closefrom(3);
    }
    struct statfs fs;
    say("statfs", statfs("tree", &fs));
    char *real = realpath("tree/d3/link", NULL);
    dprintf(1, "%s\n", real ? strrchr(real, '/') : "none");
    say("chdir", chdir("tree/d5"));
    show("here", stat("f2", &st), &st);
    show("there", stat("../d6/f2", &st), &st);
    return finish();
}
