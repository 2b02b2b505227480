/* Writes small messages into a FIFO that somebody reads: write, splice, tee, vmsplice. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int out = open(argv[2], O_WRONLY);
    if (out < 0)
        die(argv[2]);
    int ends[2];
    if (pipe(ends) < 0)
        die("pipe");
    for (int round = 0; round < ROUNDS; round++) {
        char text[32];
        cold_reads(argv[1]);
        snprintf(text, sizeof text, "%d %08x\n", round, checksum);
        effect();
        long sent;
        if (round == 0) {
            sent = write(out, text, strlen(text));
        } else if (round == 1) {
            struct iovec part = {text, strlen(text)};
            sent = vmsplice(out, &part, 1, 0);
            usleep(50000);
        } else {
            write(ends[1], text, strlen(text));
            cold_reads(argv[1]);
            sent = round == 2 ? splice(ends[0], NULL, out, NULL, 64, 0) : tee(ends[0], out, 64, 0);
        }
        say("sent", sent);
    }
    return finish();
}
