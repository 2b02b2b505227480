/* Opens the files of a folder in turn, and tells of each what a program can see of an open file. It may have a timer that
 * changes files that it comes to later, give up its rights half way, or have another thread that opens files beside it. With
 * another argument it has a segment of shared memory, so that it is never copied. Or it reads READ of the files, and unmounts the
 * folder if UNMOUNT is set. */
#include "hostile.h"

#include <sys/shm.h>

static const char *folder;

static const char *path_of(int number)
{
    static __thread char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/file%d", folder, number);
    return path;
}

/* Which file is next, and what has become of those after it. */
enum { UNCHANGED, ANOTHER, LONGER, GONE };
struct change {
    int number, kind;
    long size;
};
static volatile int next, files;
static volatile struct change became[4096];
static int asked[2], told[2];

/* Changes a file. */
static void change(struct change *wanted)
{
    char other[PATH_MAX];
    struct stat changed;
    const char *path = path_of(wanted->number);
    snprintf(other, sizeof other, "%s/new", folder);
    int fd = open(wanted->kind == ANOTHER ? other : path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || write(fd, "another one\n", 12) != 12 || close(fd))
        die("change");
    if (wanted->kind == ANOTHER ? rename(other, path) : wanted->kind == GONE && unlink(path))
        die("change");
    wanted->size = stat(path, &changed) ? 0 : (long)changed.st_size;
}

/* A child that changes files: so that the program waits for no file. */
static void changer(void)
{
    struct change wanted;
    if (pipe(asked) || pipe(told))
        die("pipe");
    if (fork())
        return;
    close(asked[1]);
    while (read(asked[0], &wanted, sizeof wanted) == sizeof wanted) {
        change(&wanted);
        if (write(told[1], &wanted, sizeof wanted) != sizeof wanted)
            die("write");
    }
    _exit(0);
}

/* Has files changed that the program comes to soon, when a timer has run down: a speculator has none. */
static void on_timer(int signal)
{
    (void)signal;
    int saved = errno;
    for (int number = next + 2; number < next + 8 && number < files; number++) {
        struct change wanted = {number, 1 + number % 3, 0};
        if (became[number].kind != UNCHANGED)
            continue;
        if (write(asked[1], &wanted, sizeof wanted) != sizeof wanted || read(told[0], &wanted, sizeof wanted) <= 0)
            die("ask");
        became[number] = wanted;
    }
    errno = saved;
}

/* Whether a file is what the timer has made of it. */
static void check(int number)
{
    char bytes[16384], first[32];
    next = number + 1;
    int fd = open(path_of(number), O_RDONLY);
    long count = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    snprintf(first, sizeof first, "%s", became[number].kind == ANOTHER ? "another" : "");
    if (became[number].kind == UNCHANGED || became[number].kind == LONGER)
        snprintf(first, sizeof first, "%d of many", number);
    int right = (fd < 0) == (became[number].kind == GONE) && !strncmp(bytes, first, fd < 0 ? 0 : strlen(first))
        && (!became[number].size || fd < 0 || count == became[number].size);
    printf("%d: %s\n", number, right ? "as it should be" : "of another time");
    if (fd >= 0)
        close(fd);
}

/* Reads the file, and tells what it found. */
static void tell(int number, int flags)
{
    char bytes[8192];
    struct stat stat;
    int fd = open(path_of(number), flags);
    if (fd < 0) {
        printf("%d: errno %d\n", number, errno);
        return;
    }
    long offset = lseek(fd, 0, SEEK_CUR);
    fstat(fd, &stat);
    long count = read(fd, bytes, sizeof bytes);
    checksum = 0;
    digest((unsigned char *)bytes, count);
    printf("%d: %d %o %o at %ld: %ld of %ld, %o, %08x\n", number, fd, fcntl(fd, F_GETFL), fcntl(fd, F_GETFD), offset,
           count, (long)stat.st_size, stat.st_mode, checksum);
    /* Some stay open, so that numbers go up. */
    if (number % 5 != 0)
        close(fd);
}

static void *beside(void *nothing)
{
    (void)nothing;
    long count = 0;
    for (int number = files - 1; number >= 0; number--) {
        int fd = open(path_of(number), O_RDONLY);
        char byte;
        count += read(fd, &byte, 1);
        close(fd);
    }
    return (void *)count;
}

/* Reads some of the files, and unmounts the folder that they are in. */
static int read_and_unmount(void)
{
    const char *wanted = getenv("READ");
    char bytes[8192];
    long count = 0;
    int status = 0;
    for (int number = 0; wanted && number < atoi(wanted); number++) {
        int fd = open(path_of(number), O_RDONLY);
        count += read(fd, bytes, sizeof bytes);
        close(fd);
    }
    if (getenv("UNMOUNT")) {
        pid_t child = fork();
        if (child == 0) {
            execlp("umount", "umount", folder, NULL);
            _exit(127);
        }
        waitpid(child, &status, 0);
    }
    printf("%ld bytes, unmounted: %d\n", count, status);
    return finish();
}

int main(int argc, char **argv)
{
    static const int flags[] = {O_RDONLY, O_RDONLY | O_CLOEXEC, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, O_RDONLY | O_NOCTTY};
    const char *mode = argv[1];
    files = atoi(argv[3]);
    folder = argv[2];
    int is_attached = argc > 4;
    pthread_t thread;
    void *count;
    if (!strcmp(mode, "unmounts"))
        return read_and_unmount();
    if (is_attached) {
        int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
        if (segment < 0 || shmat(segment, NULL, 0) == (void *)-1 || shmctl(segment, IPC_RMID, NULL))
            die("shmat");
    }
    if (!strcmp(mode, "changes")) {
        changer();
        struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
        /* A replay opens files for the process whose open has waited last: for some time this is not to be the child. */
        long pause_us = is_attached ? 500000 : 100000;
        struct itimerval timer = {{0, pause_us}, {0, pause_us}};
        if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &timer, NULL))
            die("setitimer");
    }
    int threads = !strcmp(mode, "threads");
    if (threads && pthread_create(&thread, NULL, beside, NULL))
        die("pthread_create");
    for (int number = 0; number < files; number++) {
        if (!strcmp(mode, "drops") && number == files / 2)
            say("seteuid", seteuid(65534));
        if (!strcmp(mode, "changes")) {
            check(number);
        } else if (threads) {
            /* Which numbers are free is not known. */
            char bytes[8192];
            int fd = open(path_of(number), flags[number % 4]);
            printf("%d: %ld\n", number, (long)read(fd, bytes, sizeof bytes));
            close(fd);
        } else {
            tell(number, flags[number % 4]);
        }
    }
    if (threads) {
        pthread_join(thread, &count);
        printf("beside: %ld\n", (long)count);
    }
    close(asked[1]);
    while (wait(NULL) > 0)
        ;
    return finish();
}
