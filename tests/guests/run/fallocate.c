/* Grows a file, punches a hole into it and inserts and collapses a range. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int out = open("out/file", O_RDWR);
    static const int modes[ROUNDS] = {0, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_INSERT_RANGE,
                                      FALLOC_FL_COLLAPSE_RANGE};
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        struct stat st;
        fstat(out, &st);
        effect();
        say("fallocate", fallocate(out, modes[round], round == 0 ? st.st_size : BLOCK, BLOCK * (1 + (round == 0))));
        say("was", st.st_size);
    }
    return finish();
}
