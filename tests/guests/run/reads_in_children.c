/* Has children, one after another, that read a few cold blocks each and then hear from themselves by a pipe, which no copy of them
   can foretell: reads_in_children FILE CHILDREN. */
#include "hostile.h"

#include <sys/wait.h>

enum { BLOCKS_READ = 4 };

static void child(int fd, off_t blocks, int number)
{
    unsigned char bytes[BLOCK];
    char word = 'w';
    int ends[2];
    if (pipe(ends) < 0)
        die("pipe");
    for (int i = 0; i < BLOCKS_READ; i++)
        if (pread(fd, bytes, BLOCK, (number * BLOCKS_READ + i) * 769 % blocks * BLOCK) != BLOCK)
            die("pread");
    if (write(ends[1], &word, 1) != 1 || read(ends[0], &word, 1) != 1)
        die("pipe");
    exit(0);
}

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY), children = atoi(argv[2]);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) != 0)
        die(argv[1]);
    for (int number = 0; number < children; number++) {
        int status;
        pid_t pid = fork();
        if (pid < 0)
            die("fork");
        if (pid == 0)
            child(fd, st.st_size / BLOCK, number);
        if (waitpid(pid, &status, 0) < 0 || status)
            say("failed", number);
    }
    return finish();
}
