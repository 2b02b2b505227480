/* Waits for pages of mapped files, shared and private, and for the effects of hostile guests in between: writes, children,
   signals. */
#include "../run/hostile.h"

enum { FAULTS = 400 };

static unsigned long long state = 7;

/* Touches pages that are not in memory, in an order that their contents decide. */
static void cold_pages(const char *path, int flags)
{
    int fd = open(path, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(path);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    unsigned char *data = mmap(NULL, st.st_size, PROT_READ | (flags == MAP_PRIVATE ? PROT_WRITE : 0), flags, fd, 0);
    if (data == MAP_FAILED)
        die("mmap");
    madvise(data, st.st_size, MADV_RANDOM);
    for (int i = 0; i < FAULTS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t at = (state >> 33) % (st.st_size / BLOCK) * BLOCK;
        digest(data + at, 64);
        if (flags == MAP_PRIVATE)
            data[at] ^= checksum;
    }
    /* A buffer of a call that is not in memory either. */
    int null = open("/dev/null", O_WRONLY);
    say("from cold memory", write(null, data + BLOCK * 100, BLOCK * 4));
    if (flags == MAP_PRIVATE)
        say("to cold memory", pread(fd, data + BLOCK * 200, BLOCK * 4, 0));
    close(null);
    munmap(data, st.st_size);
    close(fd);
}

static volatile int caught;

static void on_signal(int number)
{
    caught += number;
}

int main(int argc, char **argv)
{
    (void)argc;
    size_t ballast = 32 << 20;
    memset(mmap(NULL, ballast, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, ballast);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        cold_pages(argv[1], round & 1 ? MAP_PRIVATE : MAP_SHARED);
        effect();
        say("round", round);
        int fd = open("out/file", O_WRONLY | O_APPEND);
        say("append", write(fd, "line\n", 5));
        close(fd);
        raise(SIGUSR1);
        pid_t child = fork();
        if (child == 0) {
            cold_pages(argv[1], MAP_PRIVATE);
            _exit(checksum & 63);
        }
        int status = -1;
        waitpid(child, &status, 0);
        say("child", status);
    }
    say("caught", caught);
    return finish();
}
