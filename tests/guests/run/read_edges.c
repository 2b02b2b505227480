/* Reads at the ends of files, into bad memory, from bad descriptors: each has its own exact answer. */
#include "hostile.h"
#include <dirent.h>

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY), directory = open("out", O_RDONLY | O_DIRECTORY), null = open("/dev/null", O_RDONLY);
    unsigned char bytes[2 * BLOCK];
    unsigned char *none = mmap(NULL, BLOCK * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(none + BLOCK, BLOCK, PROT_NONE);
    off_t size = lseek(fd, 0, SEEK_END);
    for (int round = 0; round < ROUNDS; round++) {
        off_t cold = (off_t)(round * 400 + 77) * BLOCK;
        cold_reads(argv[1]);
        lseek(fd, 0, SEEK_END);
        say("at the end", read(fd, bytes, sizeof bytes));
        say("past the end", pread(fd, bytes, sizeof bytes, size + 100000));
        say("across the end", pread(fd, bytes, sizeof bytes, size - 100));
        say("no bytes", read(fd, bytes, 0));
        say("unwritable", pread(fd, none + BLOCK, BLOCK, cold));
        say("half writable", pread(fd, none + BLOCK - 100, 200, cold + 8 * BLOCK));
        say("no memory", pread(fd, (void *)16, 100, cold + 16 * BLOCK));
        struct iovec parts[3] = {{bytes, 100}, {none + BLOCK, 50}, {bytes + 200, 100}};
        say("bad part", preadv(fd, parts, 3, cold + 24 * BLOCK));
        say("too many parts", preadv(fd, parts, 5000, cold));
        say("negative", pread(fd, bytes, 10, -5));
        say("not open", read(777, bytes, 10));
        say("directory", read(directory, bytes, 10));
        say("written only", read(open("out/file", O_WRONLY), bytes, 10));
        say("null", read(null, bytes, 10));
        say("seek nowhere", lseek(fd, -1, SEEK_SET));
        say("seek data", lseek(fd, 1000, SEEK_DATA));
        say("seek hole", lseek(fd, 0, SEEK_HOLE));
        say("missing", open("out/none", O_RDONLY));
        say("through a file", open("out/file/x", O_RDONLY));
        say("no path", open((char *)8, O_RDONLY));
        say("not a directory", open("out/file", O_RDONLY | O_DIRECTORY));
        say("stat", stat("out/none", (struct stat *)bytes));
        say("stat nowhere", stat("out/file", (struct stat *)(none + BLOCK)));
        long huge = read(fd, bytes, (size_t)-1 >> 1);
        say("huge", huge);
        lseek(fd, cold + 32 * BLOCK, SEEK_SET);
        say("half of an offset", read(fd, none + BLOCK - 10, 20));
        say("offset", lseek(fd, 0, SEEK_CUR) - cold);
    }
    return finish();
}
