/* Gathers from shared memory of its own, and reads a block that is not in memory now and then, if it is given a file:
   shared_gather MIB ROUNDS [FILE]. Prints a checksum. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    size_t pages = ((size_t)atol(argv[1]) << 20) / PAGE, rounds = atol(argv[2]);
    int file = argc > 3 ? open(argv[3], O_RDONLY) : -1;
    off_t blocks = file < 0 ? 0 : lseek(file, 0, SEEK_END) / PAGE;
    unsigned char *data = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED || (argc > 3 && blocks < 1))
        return 2;
    for (size_t page = 0; page < pages; page++)
        data[page * PAGE + page % PAGE] = page * 7 + 1;
    if (file >= 0)
        posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    uint64_t state = 1, sum = 0;
    unsigned char block[PAGE] = {0};
    for (size_t round = 0; round < rounds; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t page = (state >> 33) % pages;
        sum = sum * 31 + data[page * PAGE + page % PAGE];
        if (file >= 0 && pread(file, block, PAGE, (off_t)((state >> 33) % blocks) * PAGE) != PAGE)
            return 2;
        sum = sum * 31 + block[0];
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
