// Touches a page after the other of a working set, for ever: working_set cyclic|random MIB [FILE].
//
// The pages are those of FILE, mapped, or else memory in no file.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

int main(int count, char **arguments) {
    if (count < 3) return 2;
    int is_random = !strcmp(arguments[1], "random");
    size_t pages = strtoul(arguments[2], 0, 10) * 256;
    int file = count > 3 ? open(arguments[3], O_RDONLY) : -1;
    int protection = file < 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    char *set = mmap(0, pages * PAGE, protection, flags, file, 0);
    if (set == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    // Without a file each page has contents of its own, which nothing shares or leaves out.
    for (size_t page = 0; file < 0 && page < pages; page++) *(size_t *)(set + page * PAGE) = page + 1;
    unsigned long state = 88172645463325252, sum = 0;
    for (size_t step = 0;; step++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t page = is_random ? state % pages : step % pages;
        sum += *(volatile char *)(set + page * PAGE);
    }
}
