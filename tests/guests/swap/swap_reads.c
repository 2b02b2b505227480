/* Reads a file at offsets that only it knows, amid waits for swapped memory. */
#include "faulting.h"

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    unsigned char *data = memory(MEMORY, MAP_PRIVATE), block[BLOCK];
    for (int i = 0; i < TOUCHES; i++) {
        touch_pages(data, MEMORY, 4);
        if (pread(fd, block, BLOCK, next_page(st.st_size)) != BLOCK)
            die("pread");
        digest(block, BLOCK);
    }
    return finish();
}
