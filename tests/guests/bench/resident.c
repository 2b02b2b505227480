/* Works on much memory and stalls rarely: resident MIB STEPS FILE [ROUNDS]. Each step writes to a thousand pages as often as
   it has rounds and then reads a block of the file that is not in memory. Prints a checksum. */
#include "scientific.h"

#include <fcntl.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
    size_t mib = argument(argc, argv, 1, 1024), steps = argument(argc, argv, 2, 100);
    int file = argc > 3 ? open(argv[3], O_RDONLY) : -1;
    size_t rounds = argument(argc, argv, 4, 300);
    size_t pages = (mib << 20) / PAGE;
    unsigned char *memory = (unsigned char *)map_doubles(pages * PAGE / sizeof(double));
    off_t blocks = file < 0 ? 0 : lseek(file, 0, SEEK_END) / PAGE;
    if (!memory || blocks < 1)
        return 2;
    for (size_t page = 0; page < pages; page++)
        memory[page * PAGE] = page;
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    uint64_t state = 1, sum = 0;
    unsigned char block[PAGE];
    for (size_t step = 0; step < steps; step++) {
        for (size_t round = 0; round < rounds; round++)
            for (int touch = 0; touch < 1000; touch++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                sum += memory[(state >> 33) % pages * PAGE]++;
            }
        if (pread(file, block, PAGE, (off_t)((state >> 33) % blocks) * PAGE) != PAGE)
            return 2;
        sum = sum * 31 + block[0];
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
