/* Moves descriptors over each other: numbers mean other files before and after. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int data = open(argv[1], O_RDONLY), small = open("out/file", O_RDWR), spare = dup(data);
    for (int round = 0; round < ROUNDS; round++) {
        char word[16] = {0};
        cold_reads_fd(data);
        effect();
        dup2(small, data);
        say("size", lseek(data, 0, SEEK_END));
        lseek(data, 5 * round, SEEK_SET);
        say("write", write(data, "moved", 5));
        say("shared offset", lseek(small, 0, SEEK_CUR));
        lseek(small, 0, SEEK_SET);
        say("read", read(data, word, 10));
        dprintf(1, "%.10s\n", word);
        dup3(spare, data, O_CLOEXEC);
        say("flags", fcntl(data, F_GETFD));
        fcntl(data, F_SETFD, 0);
        cold_reads_fd(spare);
        int low = fcntl(small, F_DUPFD, 20 + round);
        say("number", low);
        close(low);
    }
    return finish();
}
