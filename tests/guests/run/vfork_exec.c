/* A vfork child reads, opens and moves descriptors before it executes another program. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (volatile int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        pid_t child = vfork();
        if (child == 0) {
            char byte;
            int in = open(argv[1], O_RDONLY);
            pread(in, &byte, 1, (off_t)(900 + round) * BLOCK);
            lseek(in, (off_t)(700 + round) * BLOCK, SEEK_SET);
            dup2(in, 0);
            int out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
            dup2(out, 1);
            close(out);
            close(in);
            execl("/usr/bin/head", "head", "-c", "100", NULL);
            _exit(127);
        }
        int status;
        say("waited", waitpid(child, &status, 0) == child);
        say("status", status);
        say("descriptor 3 is free", fcntl(3, F_GETFD));
    }
    return finish();
}
