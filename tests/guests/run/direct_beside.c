/* A thread reads with O_DIRECT into one half of a page while it writes into the other, and the program waits for cold data
   meanwhile. The file is opened so (open, openat2), made so (fcntl), or one of these by a child (child, "child openat2"). */
#include "hostile.h"
#include <linux/openat2.h>
#include <sys/syscall.h>

enum { SECTOR = 512, FIRST = 100 };

static volatile int is_over;
static int direct;
static unsigned char *page;

static void *reads(void *unused)
{
    (void)unused;
    static unsigned char expected[SECTOR], apart[BLOCK];
    int plain = open("data", O_RDONLY);
    long wrong = 0, count = 0;
    for (; !is_over || count < FIRST; count++) {
        off_t at = (off_t)(count * 769 % 2000) * BLOCK;
        unsigned char *to = page + (count & 1) * (BLOCK / 2), *other = page + (~count & 1) * (BLOCK / 2);
        memset(other, (int)count, BLOCK / 2);
        long got = pread(direct, to, SECTOR, at);
        /* The file system may want whole blocks. */
        if (got < 0 && errno == EINVAL) {
            got = pread(direct, apart, sizeof apart, at);
            memcpy(to, apart, SECTOR);
        }
        if (got < SECTOR || pread(plain, expected, SECTOR, at) != SECTOR)
            die("pread");
        wrong += memcmp(to, expected, SECTOR) != 0 || other[7] != (unsigned char)count;
    }
    close(plain);
    return (void *)wrong;
}

static int opened(const char *how)
{
    struct open_how flags = { .flags = O_RDONLY | O_DIRECT };
    if (!strcmp(how, "openat2"))
        return (int)syscall(SYS_openat2, AT_FDCWD, "data", &flags, sizeof flags);
    return open("data", O_RDONLY | (strcmp(how, "fcntl") ? O_DIRECT : 0));
}

static int both(const char *how)
{
    direct = opened(how);
    if (direct >= 0 && !strcmp(how, "fcntl") && fcntl(direct, F_SETFL, O_DIRECT) < 0)
        die("fcntl");
    if (direct < 0) {
        say("O_DIRECT", direct);
        return finish();
    }
    page = aligned_alloc(BLOCK, BLOCK);
    pthread_t thread;
    if (pthread_create(&thread, NULL, reads, NULL))
        die("pthread_create");
    for (int round = 0; round < ROUNDS; round++)
        cold_reads("other");
    is_over = 1;
    void *wrong;
    pthread_join(thread, &wrong);
    say("wrong", (long)wrong);
    return finish();
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "open";
    if (strncmp(how, "child", 5))
        return both(how);
    pid_t child = fork();
    if (child == 0)
        _exit(both(how[5] ? how + 6 : "open"));
    int status = -1;
    waitpid(child, &status, 0);
    say("child", status);
    return 0;
}
