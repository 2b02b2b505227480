/* Has most of its page faults when what ran ahead of it is gone: writes_later FILE FAULTS. It reads cold blocks, hears from
 * itself by a pipe, which nobody can foretell, takes a page, writes to it and gives it back so many times, and reads cold
 * blocks again. */
#include "hostile.h"

static void read_cold(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fdatasync(fd) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        die(path);
    cold_reads_fd(fd);
    close(fd);
}

int main(int argc, char **argv)
{
    int faults = argc > 2 ? atoi(argv[2]) : 1000, ends[2];
    char word = 'w';
    if (pipe(ends) < 0)
        die("pipe");
    read_cold(argv[1]);
    if (write(ends[1], &word, 1) != 1 || read(ends[0], &word, 1) != 1)
        die("pipe");
    usleep(20000);
    for (int i = 0; i < faults; i++) {
        unsigned char *page = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            die("mmap");
        *page = i;
        digest(page, BLOCK);
        munmap(page, BLOCK);
    }
    read_cold(argv[1]);
    return finish();
}
