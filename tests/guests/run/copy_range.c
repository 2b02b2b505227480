/* Copies inside the kernel: copy_file_range, sendfile, splice. */
#include "hostile.h"
#include <sys/sendfile.h>

int main(int argc, char **argv)
{
    (void)argc;
    int in = open(argv[1], O_RDONLY);
    int out = open("out/log", O_WRONLY | O_CREAT, 0644);
    int ends[2];
    if (pipe(ends) < 0)
        die("pipe");
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        loff_t from = (loff_t)(round * 300 + 50) * BLOCK;
        say("copy_file_range", copy_file_range(in, &from, out, NULL, 3 * BLOCK, 0));
        off_t at = (off_t)(round * 300 + 90) * BLOCK;
        say("sendfile", sendfile(out, in, &at, 2 * BLOCK));
        lseek(in, (off_t)(round * 300 + 120) * BLOCK, SEEK_SET);
        say("sendfile", sendfile(out, in, NULL, BLOCK));
        say("offset", lseek(in, 0, SEEK_CUR));
        from = (loff_t)(round * 300 + 150) * BLOCK;
        say("splice", splice(in, &from, ends[1], NULL, BLOCK, 0));
        say("splice", splice(ends[0], NULL, out, NULL, BLOCK, 0));
    }
    return finish();
}
