/* Reads cold blocks and computes long with each: most of its time is the processor's. */
#include "hostile.h"

enum { BLOCKS = 400, TURNS = 40000 };

int main(int argc, char **argv)
{
    (void)argc;
    unsigned char bytes[BLOCK];
    struct stat st;
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        die("open");
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (pread(fd, bytes, BLOCK, (off_t)(i * 769u % (st.st_size / BLOCK)) * BLOCK) != BLOCK)
            die("pread");
        for (int turn = 0; turn < TURNS; turn++)
            digest(bytes, BLOCK);
    }
    return finish();
}
