/* Trusts its data and runs amok where they are not what the file holds: every block of the file is a good one,
 * so a run that follows any made-up block shows. The way of running amok is the second argument. With a third the blocks
 * are in memory, of which there is more than a limit leaves. */
#include "faulting.h"
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

static int overflow(int n)
{
    volatile char room[4096];
    room[0] = n;
    return overflow(n + 1) + room[0];
}

static void *spin(void *argument)
{
    for (;;)
        *(volatile char *)argument += 1;
    return NULL;
}

/* The blocks of the file, many times over. */
static unsigned char *copies;
static unsigned char *shared;

static void amok(const char *way, pid_t parent)
{
    if (!strcmp(way, "kill")) {
        kill(parent, SIGKILL);
        kill(0, SIGKILL);
        kill(getpid(), SIGKILL);
        kill(-1, SIGKILL + 1000);
    } else if (!strcmp(way, "remove")) {
        unlink("data");
        unlink("out/file");
        rename("out", "tuo");
        truncate("data", 0);
    } else if (!strcmp(way, "write")) {
        for (int fd = 0; fd < 64; fd++)
            write(fd, "AMOK", 4);
        int fd = open("out/amok", O_CREAT | O_WRONLY, 0600);
        pwrite(fd, "AMOK", 4, 0);
    } else if (!strcmp(way, "exec")) {
        execl("/bin/sh", "sh", "-c", "echo AMOK; touch out/amok; kill -9 $PPID", NULL);
    } else if (!strcmp(way, "fork")) {
        for (;;)
            fork();
    } else if (!strcmp(way, "spin")) {
        for (;;) {
        }
    } else if (!strcmp(way, "block")) {
        pause();
        struct timespec for_ever = {1000, 0};
        nanosleep(&for_ever, NULL);
        read(0, &(char){0}, 1);
    } else if (!strcmp(way, "deadlock")) {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&mutex);
        pthread_mutex_lock(&mutex);
    } else if (!strcmp(way, "segv")) {
        *(volatile int *)8 = 1;
    } else if (!strcmp(way, "trap")) {
        __builtin_trap();
    } else if (!strcmp(way, "divide")) {
        volatile int zero = 0;
        checksum = 1 / zero;
    } else if (!strcmp(way, "abort")) {
        abort();
    } else if (!strcmp(way, "exit")) {
        exit(55);
    } else if (!strcmp(way, "overflow")) {
        overflow(0);
    } else if (!strcmp(way, "memory")) {
        for (;;)
            memset(malloc(1 << 20), 1, 1 << 20);
    } else if (!strcmp(way, "stray-calls")) {
        long number = checksum;
        for (int i = 0; i < 100000; i++, number = number * 1103515245 + 12345)
            syscall(number % 470, number >> 7, &number, &number, number >> 3, &number, number);
    } else if (!strcmp(way, "stray-writes")) {
        /* Whatever is mapped writable is overwritten: also what it shares with others. */
        FILE *maps = fopen("/proc/self/maps", "r");
        char line[512];
        unsigned long from, to;
        while (fgets(line, sizeof line, maps)) {
            char mode[5];
            if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) == 3 && mode[1] == 'w' && !strstr(line, "stack"))
                for (unsigned long at = from; at < to; at += 64)
                    *(volatile unsigned long *)at ^= 0x5555555555555555ul;
        }
    } else if (!strcmp(way, "close")) {
        close_range(0, ~0u, 0);
        for (int i = 0; i < 2000; i++)
            dup2(open("/dev/null", O_RDWR), i);
    } else if (!strcmp(way, "threads")) {
        char cell = 0;
        pthread_t thread;
        for (int i = 0; i < 1000; i++)
            pthread_create(&thread, NULL, spin, &cell);
    } else if (!strcmp(way, "unmap")) {
        munmap((void *)0x1000, 1ul << 46);
    } else if (!strcmp(way, "peek")) {
        for (int victim = 0; victim < 4; victim++) {
            char name[32], text[64];
            snprintf(name, sizeof name, "out/victim%d", victim);
            int fd = open(name, O_RDONLY);
            read(fd, text, sizeof text);
            pread(fd, text, sizeof text, 100);
        }
    } else if (!strcmp(way, "limits")) {
        struct rlimit none = {1, 1};
        prlimit(getpid(), RLIMIT_NOFILE, &none, NULL);
        prlimit(parent, RLIMIT_AS, &none, NULL);
        setpriority(PRIO_PROCESS, getpid(), 19);
        prctl(PR_SET_NAME, "AMOK");
    } else if (!strcmp(way, "shutdown")) {
        for (int fd = 0; fd < 64; fd++) {
            shutdown(fd, SHUT_RDWR);
            fcntl(fd, F_SETFL, O_NONBLOCK);
            lseek(fd, 12345, SEEK_SET);
            ftruncate(fd, 0);
        }
    } else if (!strcmp(way, "share")) {
        memset(shared, 'A', BLOCK);
        msync(shared, BLOCK, MS_SYNC);
    } else if (!strcmp(way, "move")) {
        /* What was moved aside, what lies there by now, and what all of it is asked of. */
        FILE *maps = fopen("/proc/self/maps", "r");
        char line[512];
        unsigned long from, to;
        for (unsigned i = 0; maps && i < 1000 && fgets(line, sizeof line, maps); i++)
            if (sscanf(line, "%lx-%lx", &from, &to) == 2 && to - from >= 1 << 20)
                mremap((void *)from, to - from, to - from, MREMAP_MAYMOVE | MREMAP_FIXED,
                       (void *)(0x70000000ul + ((unsigned long)i << 32)));
        madvise(copies, MEMORY, MADV_DONTNEED);
        mmap(copies, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        mprotect(copies, MEMORY, PROT_NONE);
        mlockall(MCL_CURRENT | MCL_FUTURE);
    } else if (!strcmp(way, "handlers")) {
        for (int number = 1; number < 65; number++)
            signal(number, SIG_IGN);
        stack_t stack = {.ss_sp = copies, .ss_size = 1 << 16};
        sigaltstack(&stack, NULL);
        for (int number = 1; number < 65; number++)
            raise(number);
    } else {
        die("no such way");
    }
}

static const unsigned *block_of(int fd, unsigned number, unsigned round)
{
    static unsigned block[BLOCK / sizeof(unsigned)];
    if (copies)
        return (const unsigned *)(copies + ((size_t)round % 6 * 2000 + number) * BLOCK);
    if (pread(fd, block, BLOCK, (off_t)number * BLOCK) != BLOCK)
        die("pread");
    return block;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    pid_t parent = getppid();
    int fd = open(argv[1], O_RDONLY), out = open("out/log", O_RDWR | O_CREAT | O_APPEND, 0644);
    int sockets[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &core);
    shared = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
    if (argc > 3) {
        copies = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t block = 0; block < MEMORY / BLOCK; block++)
            pread(fd, copies + block * BLOCK, BLOCK, (off_t)(block % 2000) * BLOCK);
    }
    for (unsigned i = 0; i < (copies ? 4000 : 400); i++) {
        unsigned number = i * 769u % 2000;
        const unsigned *block = block_of(fd, number, i / 400);
        /* Not even a wrong block of memory is empty. */
        if (copies && block[0] != 0 && block[1] != number)
            die("block");
        if (block[0] != 0x600d600d || block[1] != number)
            amok(argv[2], parent);
        checksum = checksum * 31 + block[2];
        if (i % 100 == 99)
            dprintf(out, "good %u %08x\n", i, checksum);
    }
    dprintf(sockets[0], "alive");
    char text[8] = {0};
    say("socket", read(sockets[1], text, sizeof text));
    say("offset", lseek(fd, 0, SEEK_CUR));
    return finish();
}
