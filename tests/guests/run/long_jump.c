/* Leaves nested calls by longjmp right after reads; what was written before and after is what counts. */
#include "hostile.h"

static jmp_buf back;

static void nested(const char *path, int depth)
{
    cold_reads(path);
    if (depth == 0)
        longjmp(back, checksum % 1000 + 1);
    nested(path, depth - 1);
}

int main(int argc, char **argv)
{
    (void)argc;
    int out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (volatile int round = 0; round < ROUNDS; round++) {
        int value = setjmp(back);
        if (value == 0)
            nested(argv[1], round);
        effect();
        dprintf(out, "jumped with %d\n", value);
    }
    return finish();
}
