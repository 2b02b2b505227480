/* Two processes that share one table of descriptors, and one that shares memory as well, read in turn. */
#include "hostile.h"

static const char *data;
static int out;

static int sharing(void *argument)
{
    int fd = open(data, O_RDONLY);
    unsigned char bytes[BLOCK];
    for (int i = 0; i < READS; i++)
        pread(fd, bytes, BLOCK, (off_t)(i * 769 % 2000) * BLOCK);
    dprintf(out, "child opened %d\n", fd);
    *(int *)argument = fd;
    return 3;
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    char *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static const int flags[ROUNDS] = {CLONE_FILES, CLONE_FILES | CLONE_VM, CLONE_FS | CLONE_FILES, CLONE_VM | CLONE_VFORK};
    for (int round = 0; round < ROUNDS; round++) {
        int told = -1;
        cold_reads(argv[1]);
        effect();
        pid_t child = clone(sharing, stack + (1 << 18), flags[round] | SIGCHLD, &told);
        int status;
        say("waited", waitpid(child, &status, 0) == child);
        say("status", status);
        say("told", told);
        say("lowest is", fcntl(4, F_GETFD));
        cold_reads(argv[1]);
        closefrom(4);
    }
    return finish();
}
