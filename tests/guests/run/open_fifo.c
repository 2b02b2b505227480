/* Opens FIFOs after cold reads: whoever waits at the other end goes on at that moment. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    volatile unsigned long long *opened = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        if (child == 0) {
            int fd = open(argv[2], round & 1 ? O_RDONLY : O_WRONLY);
            opened[round] = now_ns();
            if (round & 1) {
                char text[32] = {0};
                dprintf(1, "child read %ld %s\n", (long)read(fd, text, sizeof text), text);
            } else {
                dprintf(fd, "from the child");
            }
            _exit(0);
        }
        usleep(10000);
        cold_reads(argv[1]);
        cold_reads(argv[1]);
        unsigned long long before = now_ns();
        effect();
        int fd = open(argv[2], round & 1 ? O_WRONLY : O_RDONLY);
        char text[32] = {0};
        long count = round & 1 ? write(fd, "to the child", 12) : read(fd, text, sizeof text);
        close(fd);
        waitpid(child, NULL, 0);
        say(round & 1 ? "write" : "read", count);
        say("opened in time", opened[round] >= before);
    }
    say("nobody reads", open(argv[2], O_WRONLY | O_NONBLOCK));
    return finish();
}
