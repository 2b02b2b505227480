/* Ends by abort after cold reads. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    effect();
    int out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    dprintf(out, "before %08x\n", checksum);
    finish();
    abort();
}
