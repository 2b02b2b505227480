// Reads single blocks of a file, far apart, over more than the time for which attributes of it are kept.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDONLY);
    if (argc < 2 || fd < 0) return 1;
    off_t size = lseek(fd, 0, SEEK_END);
    unsigned sum = 0;
    unsigned char byte;
    for (int round = 0; round < 400; round++) {
        off_t at = (off_t)round * 40503 % (size / 4096) * 4096;
        if (pread(fd, &byte, 1, at) != 1) return 2;
        sum = sum * 31 + byte;
    }
    printf("%u\n", sum);
}
