/* Ends by exit with handlers that read and write, and with unwritten stdio. */
#include "hostile.h"

static const char *data;

static void last(void)
{
    cold_reads(data);
    effect();
    dprintf(1, "last %08x\n", checksum);
    finish();
}

static void first(int status, void *text)
{
    cold_reads(data);
    effect();
    dprintf(1, "first %d %s %08x\n", status, (char *)text, checksum);
}

__attribute__((destructor)) static void destructor(void)
{
    dprintf(1, "destructor\n");
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    atexit(last);
    on_exit(first, "text");
    cold_reads(data);
    printf("not flushed before the end %08x\n", checksum);
    FILE *out = fopen("out/log", "a");
    fprintf(out, "not flushed either %08x\n", checksum);
    cold_reads(data);
    exit(checksum % 50 + 7);
}
