/* Runs a command and writes down what the kernel accounted to it and to those of its children that it waited for:
 *
 *   accounted REPORT PROCESSES COMMAND [ARGUMENT...]
 *
 * PROCESSES is the file through which processes join a control group, or -; only the command joins. REPORT gets one
 * line: the status as wait(2) gives it, elapsed, user and system time in microseconds, the footprint in bytes, page
 * reclaims and page faults. The exit status is the command's, or 128 plus the number of the signal that ended it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static long long in_microseconds(struct timeval time)
{
    return time.tv_sec * 1000000LL + time.tv_usec;
}

static int join(const char *processes)
{
    int group = open(processes, O_WRONLY | O_CLOEXEC);
    return group >= 0 && write(group, "0", 1) == 1;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    long long before = microseconds();
    /* A copy of this process would count as part of the command's memory. */
    pid_t child = vfork();
    if (child == 0) {
        if (strcmp(argv[2], "-") != 0 && !join(argv[2])) {
            dprintf(2, "%s: %s\n", argv[2], strerror(errno));
            _exit(126);
        }
        execvp(argv[3], argv + 3);
        dprintf(2, "%s: %s\n", argv[3], strerror(errno));
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child) {
        perror("accounted");
        return 125;
    }
    long long elapsed = microseconds() - before;
    FILE *report = fopen(argv[1], "w");
    if (report == NULL || fprintf(report, "%d %lld %lld %lld %lld %ld %ld\n", status, elapsed,
                                  in_microseconds(usage.ru_utime), in_microseconds(usage.ru_stime),
                                  usage.ru_maxrss * 1024LL, usage.ru_minflt, usage.ru_majflt) < 0
        || fclose(report) != 0) {
        perror(argv[1]);
        return 125;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
