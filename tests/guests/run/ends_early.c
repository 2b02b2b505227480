// Reads the files that its arguments name up to an empty argument, and ends there.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char buffer[4096];
    long bytes = 0;
    for (int at = 1; at < argc; at++) {
        if (!argv[at][0]) break;
        int fd = open(argv[at], O_RDONLY);
        if (fd < 0) return 1;
        for (long got; (got = read(fd, buffer, sizeof buffer)) > 0;) bytes += got;
        close(fd);
        // What is behind its end depends on what was read, and a speculator has read nothing.
        if (buffer[0] == 'e') break;
    }
    printf("%ld\n", bytes);
}
