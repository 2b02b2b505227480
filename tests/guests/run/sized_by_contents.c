/* Reads as much at a time as the data before tell it to: a copy that does not have them reads other amounts at the same
   places. */
#include "hostile.h"

int main(int argc, char **argv)
{
    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (argc < 2 || fd < 0 || fstat(fd, &st) < 0)
        die("sized_by_contents FILE");
    unsigned blocks = st.st_size / BLOCK;
    for (int round = 0; round < ROUNDS * READS; round++) {
        static unsigned char bytes[BLOCK];
        off_t at = (off_t)(block_next++ * 769u % blocks) * BLOCK;
        size_t count = BLOCK / 2 + checksum % (BLOCK / 2);
        long got;
        if (round & 1) {
            got = pread(fd, bytes, count, at);
        } else {
            lseek(fd, at, SEEK_SET);
            got = read(fd, bytes, count);
        }
        if (got != (long)count)
            die("short read");
        digest(bytes, got);
    }
    return finish();
}
