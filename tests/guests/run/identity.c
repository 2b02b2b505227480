/* Who am I: process, thread, parent, session, group, name and command line never change by speculation. */
#include "hostile.h"

static void same(const char *what, long *was, long is)
{
    if (*was == -1)
        *was = is;
    if (*was != is)
        dprintf(1, "%s changed\n", what);
}

int main(int argc, char **argv)
{
    (void)argc;
    long pid = -1, tid = -1, parent = -1, session = -1, group = -1, children = -1, tasks = -1;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        same("pid", &pid, getpid());
        same("raw pid", &pid, syscall(SYS_getpid));
        same("tid", &tid, gettid());
        same("parent", &parent, getppid());
        same("session", &session, getsid(0));
        same("group", &group, getpgrp());
        char link[32] = {0}, text[4096] = {0};
        readlink("/proc/self", link, sizeof link - 1);
        same("/proc/self", &pid, atoi(link));
        int fd = open("/proc/self/status", O_RDONLY);
        read(fd, text, sizeof text - 1);
        close(fd);
        char *at = strstr(text, "Threads:");
        same("threads", &tasks, at ? atoi(at + 8) : -2);
        at = strstr(text, "TracerPid:");
        say("tracer", at ? atoi(at + 10) : -2);
        at = strstr(text, "Seccomp:");
        say("seccomp", at ? atoi(at + 8) : -2);
        at = strstr(text, "SigCgt:");
        dprintf(1, "handlers %.23s\n", at ? at : "");
        at = strstr(text, "SigIgn:");
        dprintf(1, "ignored %.23s\n", at ? at : "");
        at = strstr(text, "SigBlk:");
        dprintf(1, "blocked %.23s\n", at ? at : "");
        dprintf(1, "%.*s\n", (int)strcspn(text, "\n"), text);
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
        fd = open(path, O_RDONLY);
        same("children", &children, read(fd, text, sizeof text));
        close(fd);
    }
    say("threads", tasks);
    say("children", children);
    return finish();
}
