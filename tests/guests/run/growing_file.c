/* Reads a file that it writes itself, through other descriptors and mappings, at once: no stale data. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int in = open("out/grow", O_RDONLY | O_CREAT, 0644), out = open("out/grow", O_WRONLY | O_APPEND);
    char line[64];
    for (int round = 0; round < 6 * ROUNDS; round++) {
        if (round % 6 == 0)
            cold_reads(argv[1]);
        effect();
        snprintf(line, sizeof line, "line %d %08x\n", round, checksum);
        write(out, line, strlen(line));
        memset(line, 0, sizeof line);
        say("read back", read(in, line, sizeof line - 1));
        dprintf(1, "%s", line);
        struct stat st;
        stat("out/grow", &st);
        say("size", st.st_size);
        say("nothing more", read(in, line, sizeof line));
        if (round % 6 == 5) {
            char to[32];
            snprintf(to, sizeof to, "out/grown%d", round);
            rename("out/grow", to);
            say("moved", access("out/grow", F_OK));
            close(in);
            close(out);
            in = open("out/grow", O_RDONLY | O_CREAT | O_EXCL, 0644);
            out = open("out/grow", O_WRONLY | O_APPEND);
        }
    }
    return finish();
}
