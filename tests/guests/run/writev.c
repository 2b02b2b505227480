/* Gathers a line from pieces with writev. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int out = open("out/log", O_WRONLY | O_CREAT, 0644);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        char digit = '0' + round;
        struct iovec parts[3] = {{"line ", 5}, {&digit, 1}, {"\n", 1}};
        say("writev", writev(out, parts, 3));
        say("at", lseek(out, 0, SEEK_CUR));
    }
    return finish();
}
