/* Needs files in each way that an access profile knows. accesses MODE FOLDER. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char buffer[65536];
static const char *folder;

static char *at(const char *name) {
    static __thread char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void need(int holds, const char *what) {
    if (!holds) {
        perror(what);
        _exit(3);
    }
}

static int opened(int fd, const char *what) {
    need(fd >= 0, what);
    return fd;
}

static void read_at(int fd, size_t count, off_t offset) {
    char bytes[4096];
    need(pread(fd, bytes, count, offset) == (ssize_t)count, "pread");
}

static void *thread(void *number) {
    char name[16];
    snprintf(name, sizeof name, "thread%ld", (long)number);
    int fd = opened(open(at(name), O_RDONLY), name);
    for (int round = 0; round < 3; round++) read_at(fd, 10, 1000 * (long)number);
    close(fd);
    return 0;
}

static void wait_for(pid_t child) {
    int status;
    need(waitpid(child, &status, 0) == child && status == 0, "child");
}

static void read_small(const char *path, size_t count) {
    int fd = opened(open(path, O_RDONLY), path);
    need(read(fd, buffer, count) == (ssize_t)count, "read");
    close(fd);
}

/* Two pages, far apart. */
static void map(void) {
    int fd = opened(open(at("mapped"), O_RDONLY), "mapped");
    volatile char *bytes = mmap(0, 2 << 20, PROT_READ, MAP_SHARED, fd, 0);
    need(bytes != MAP_FAILED, "mmap");
    madvise((void *)bytes, 2 << 20, MADV_RANDOM);
    char sum = bytes[0x10000];
    sum += bytes[0x180000];
    need(sum != 0x55 || 1, "sum");
    close(fd);
}

static void files(void) {
    struct stat stat_buffer;
    need(open(at("missing"), O_RDONLY) < 0, "missing");
    need(stat(at("data"), &stat_buffer) == 0, "stat");
    int fd = opened(open(at("data"), O_RDONLY), "data");
    for (int round = 0; round < 5; round++) {
        read_at(fd, 100, 4096);
        read_at(fd, 100, 4196);
        read_at(fd, 50, 200000);
    }
    need(read(fd, buffer, 1000) == 1000, "read");
    need(lseek(fd, 100000, SEEK_SET) == 100000, "lseek");
    need(read(fd, buffer, 10) == 10 && read(fd, buffer, 10) == 10, "read");
    int copy = opened(dup(fd), "dup");
    read_at(copy, 7, 250000);
    need(readlink(at("link"), buffer, sizeof buffer) > 0, "readlink");
    need(readlink(at("data"), buffer, sizeof buffer) < 0, "readlink");
    need(access(at("sub/none"), F_OK) < 0, "none");
    close(copy);
    close(fd);
}

static void folders(void) {
    struct stat stat_buffer;
    int sub = opened(open(at("sub"), O_RDONLY | O_DIRECTORY), "sub");
    int fd = opened(openat(sub, "inner", O_RDONLY), "inner");
    while (read(fd, buffer, 512) > 0) {}
    close(fd);
    DIR *list = opendir(at("list"));
    need(list != 0, "list");
    while (readdir(list)) {}
    closedir(list);
    need(chdir(at("sub")) == 0, "chdir");
    read_small("./relative", 3);
    read_small("../small", 4);
    need(stat("nothing", &stat_buffer) < 0, "nothing");
    fd = opened(open("..", O_RDONLY | O_DIRECTORY), "..");
    need(fchdir(fd) == 0, "fchdir");
    need(fstatat(AT_FDCWD, "list/one", &stat_buffer, 0) == 0, "one");
    close(fd);
    close(sub);
}

static void processes(const char *program) {
    pid_t child = fork();
    if (child == 0) {
        read_small(at("forked"), 5);
        _exit(0);
    }
    wait_for(child);
    char *const arguments[] = {"accesses", "child", (char *)folder, 0};
    child = fork();
    if (child == 0) {
        execv(at("no-program"), arguments);
        execv(program, arguments);
        _exit(4);
    }
    wait_for(child);
    need(posix_spawn(&child, program, 0, 0, arguments, environ) == 0, "posix_spawn");
    wait_for(child);
}

/* Children that are killed while they look names up. */
static void killed(void) {
    pid_t children[3];
    for (int index = 0; index < 3; index++) {
        children[index] = fork();
        if (children[index] == 0) {
            char name[64];
            /* On a busy machine its end may come late: no more than the log has room for. */
            for (unsigned long number = 0; number < 6000; number++) {
                snprintf(name, sizeof name, "killed-%d-%lu", index, number % 2000);
                access(at(name), F_OK);
            }
            for (;;) pause();
        }
    }
    for (int index = 0; index < 3; index++) {
        usleep(3000);
        kill(children[index], SIGKILL);
        waitpid(children[index], 0, 0);
    }
    /* A child that was killed over a record leaves a hole, which hides what follows it within its block of the log. */
    for (int number = 0; number < 300; number++) {
        char name[64];
        snprintf(name, sizeof name, "after-%d", number);
        access(at(name), F_OK);
    }
}

/* More names than a log holds. */
static void many(void) {
    char name[200];
    for (int number = 0; number < 200000; number++) {
        snprintf(name, sizeof name, "a-name-that-is-long-enough-to-fill-a-log-before-all-of-them-are-told-%d", number);
        access(at(name), F_OK);
    }
}

/* From its beginning to its end, in short reads and by turns with another. */
static void sequence(void) {
    int fd = opened(open(at("long"), O_RDONLY), "long");
    int other = opened(open(at("turns"), O_RDONLY), "turns");
    for (off_t at_byte = 0; at_byte < 20 * 4096; at_byte += 4096) {
        read_at(other, 4096, at_byte);
        read_at(other, 4096, 400000 + at_byte);
    }
    while (read(fd, buffer, 512) > 0) {}
    close(fd);
    close(other);
}

/* All files of the folder. */
static void all_files(void) {
    DIR *list = opendir(folder);
    need(list != 0, "list");
    for (struct dirent *entry; (entry = readdir(list)) != 0;) {
        if (entry->d_name[0] == '.') continue;
        int fd = opened(openat(dirfd(list), entry->d_name, O_RDONLY), entry->d_name);
        while (read(fd, buffer, sizeof buffer) > 0) {}
        close(fd);
    }
    closedir(list);
}

static void run(const char *program, const char *mode, const char *number) {
    char *const arguments[] = {"accesses", (char *)mode, (char *)folder, (char *)number, 0};
    pid_t child = fork();
    if (child == 0) {
        execv(program, arguments);
        _exit(4);
    }
    wait_for(child);
}

/* A program that executes another one, again and again. */
static void launch(void) {
    char number[8];
    for (int round = 0; round < 8; round++) {
        snprintf(number, sizeof number, "%d", round);
        run(strdup(at("launcher")), "link", number);
    }
}

static void link_of_chain(const char *number) {
    char name[32];
    snprintf(name, sizeof name, "launched-%s", number);
    access(at(name), F_OK);
    run(strdup(at("accesses")), "child", number);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    const char *mode = arguments[1];
    folder = arguments[2];
    if (strcmp(mode, "all") == 0) {
        files();
        folders();
        processes(strdup(at("accesses")));
        pthread_t threads[4];
        for (long number = 0; number < 4; number++) pthread_create(&threads[number], 0, thread, (void *)number);
        for (int number = 0; number < 4; number++) pthread_join(threads[number], 0);
        map();
    } else if (strcmp(mode, "child") == 0) {
        read_small(at("executed"), 6);
    } else if (strcmp(mode, "map") == 0) {
        map();
    } else if (strcmp(mode, "killed") == 0) {
        killed();
    } else if (strcmp(mode, "many") == 0) {
        many();
    } else if (strcmp(mode, "launch") == 0) {
        launch();
    } else if (strcmp(mode, "link") == 0) {
        link_of_chain(arguments[3]);
    } else if (strcmp(mode, "files") == 0) {
        all_files();
    } else if (strcmp(mode, "sequence") == 0) {
        sequence();
    }
    return 0;
}
