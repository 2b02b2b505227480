/* The same through stdio, whose reads and writes happen inside libc. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        FILE *in = fopen(argv[1], "r");
        unsigned char bytes[512];
        for (int i = 0; i < READS; i++) {
            fseek(in, (long)(block_next++ * 769u % 2000) * BLOCK, SEEK_SET);
            digest(bytes, fread(bytes, 1, sizeof bytes, in));
        }
        fclose(in);
        effect();
        FILE *out = fopen("out/log", "a+");
        fprintf(out, "round %d %08x\n", round, checksum);
        rewind(out);
        int lines = 0;
        for (int c; (c = fgetc(out)) != EOF;)
            lines += c == '\n';
        printf("%d lines\n", lines);
        fflush(stdout);
        fclose(out);
    }
    return finish();
}
