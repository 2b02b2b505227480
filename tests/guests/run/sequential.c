/* Reads a file from its start to its end, by read or through a mapping. Tells on standard error how often it waited. */
#include "hostile.h"
#include <sys/resource.h>

enum { PIECE = 64 << 10 };

static void by_read(int fd)
{
    static unsigned char bytes[PIECE];
    for (long got; (got = read(fd, bytes, sizeof bytes)) != 0;) {
        if (got < 0)
            die("read");
        digest(bytes, got);
    }
}

static void by_mapping(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        die("fstat");
    unsigned char *bytes = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        die("mmap");
    digest(bytes, st.st_size);
}

int main(int argc, char **argv)
{
    int fd = argc < 3 ? -1 : open(argv[1], O_RDONLY);
    if (fd < 0)
        die("open");
    if (strcmp(argv[2], "read") == 0)
        by_read(fd);
    else
        by_mapping(fd);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    dprintf(2, "waits %ld\n", usage.ru_nvcsw);
    return finish();
}
