/* Counts in memory shared with a child that watches the count, answers each step and says how it went. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    volatile unsigned *words = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        unsigned last = 0, steps = 0;
        while (!words[1]) {
            if (words[0] != last) {
                steps += words[0] < last || words[0] > last + 1;
                words[2] = last = words[0];
            }
            usleep(20);
        }
        dprintf(1, "child saw %u, odd steps %u\n", words[0], steps);
        _exit(0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        words[0]++;
        while (words[2] != words[0])
            usleep(20);
        say("count", words[0]);
    }
    words[1] = 1;
    waitpid(child, NULL, 0);
    return finish();
}
