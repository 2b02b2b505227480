/* Reads cold files, and then closes a file for whose data the file system has no room. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    char path[PATH_MAX], bytes[BLOCK];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < READS; i++) {
            snprintf(path, sizeof path, "%s/file%d", argv[1], round * READS + i);
            int fd = open(path, O_RDONLY);
            digest((unsigned char *)bytes, read(fd, bytes, sizeof bytes));
            close(fd);
        }
        snprintf(path, sizeof path, "%s/full", argv[1]);
        int fd = open(path, O_WRONLY);
        say("close", close(fd));
    }
    return finish();
}
