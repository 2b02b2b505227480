// Reads files, says so by making a file, sleeps, and reads others.
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long bytes;

static void take(const char *folder, const char *name, int number) {
    char path[512], buffer[4096];
    snprintf(path, sizeof path, "%s/%s/%d", folder, name, number);
    int fd = open(path, O_RDONLY);
    for (long got; (got = read(fd, buffer, sizeof buffer)) > 0;) bytes += got;
    close(fd);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    for (int number = 0; number < 40; number++) take(argv[1], "before", number);
    close(open("asleep", O_CREAT | O_WRONLY, 0644));
    struct timespec pause = {.tv_sec = 3};
    nanosleep(&pause, NULL);
    for (int number = 0; number < 40; number++) take(argv[1], "after", number);
    printf("%ld bytes\n", bytes);
}
