/* A thread waits in a read while the main one confines all threads to few calls, and goes on when it has read. */
#include "hostile.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int ends[2];
static volatile int thread_id;

static void *waits(void *unused)
{
    (void)unused;
    char byte;
    thread_id = gettid();
    long got = read(ends[0], &byte, 1);
    write(1, got == 1 ? "the thread has read\n" : "no read\n", got == 1 ? 20 : 8);
    return NULL;
}

/* Whether the thread is in a read. */
static int is_waiting(void)
{
    char path[64], said[2] = "";
    if (thread_id == 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread_id);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, said, 2) < 0)
        die(path);
    close(fd);
    return said[0] == '0' && said[1] == ' ';
}

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    pthread_t thread;
    if (pipe(ends) < 0)
        die("pipe");
    pthread_create(&thread, NULL, waits, NULL);
    unsigned long long last = now_ns() + 10000000000ull;
    while (!is_waiting() && now_ns() < last)
        sched_yield();
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_futex), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
        ALLOW(SYS_madvise), ALLOW(SYS_munmap), ALLOW(SYS_rseq), ALLOW(SYS_rt_sigprocmask),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        die("seccomp");
    write(ends[1], "x", 1);
    pthread_join(thread, NULL);
    write(1, "end\n", 4);
    _exit(0);
}
