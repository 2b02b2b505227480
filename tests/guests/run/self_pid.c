/* Does to its own process id what would hit the original if somebody else pretended to be it. */
#include "hostile.h"
#include <sys/prctl.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    (void)argc;
    signal(SIGWINCH, SIG_IGN);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        struct rlimit limit;
        prlimit(getpid(), RLIMIT_NOFILE, NULL, &limit);
        errno = 0;
        say("nice was", getpriority(PRIO_PROCESS, getpid()));
        dprintf(1, "descriptors were %llu\n", (unsigned long long)limit.rlim_cur);
        effect();
        limit.rlim_cur = 200 + round;
        say("prlimit", prlimit(getpid(), RLIMIT_NOFILE, &limit, NULL));
        say("setpriority", setpriority(PRIO_PROCESS, getpid(), round + 1));
        struct sched_param parameter = {0};
        say("scheduler was", sched_getscheduler(getpid()));
        say("scheduler", sched_setscheduler(getpid(), round & 1 ? SCHED_OTHER : SCHED_BATCH, &parameter));
        cpu_set_t cpus;
        sched_getaffinity(getpid(), sizeof cpus, &cpus);
        say("cpus", CPU_COUNT(&cpus) > 0);
        say("affinity", sched_setaffinity(getpid(), sizeof cpus, &cpus));
        int fd = open("/proc/self/oom_score_adj", O_RDWR);
        char text[16] = {0};
        say("read", read(fd, text, sizeof text - 1));
        dprintf(1, "oom was %s", text);
        snprintf(text, sizeof text, "%d", 100 + round);
        say("oom", pwrite(fd, text, strlen(text), 0));
        close(fd);
        struct iovec here = {&checksum, sizeof checksum};
        unsigned copy = 7;
        struct iovec there = {&copy, sizeof copy};
        say("readv", process_vm_readv(getpid(), &there, 1, &here, 1, 0));
        say("same", copy == checksum);
        char name[17] = {0};
        prctl(PR_GET_NAME, name);
        dprintf(1, "name was %s\n", name);
        snprintf(name, sizeof name, "round%d", round);
        prctl(PR_SET_NAME, name);
        say("umask was", umask(020 + round));
    }
    return finish();
}
