/* Executes a program in a child that has its memory, and a page for a stack. */
#include "hostile.h"

enum { AREA = 1 << 20, STACK = 4096 };

static int child(void *unused)
{
    (void)unused;
    execve("/bin/true", (char *[]){"true", NULL}, environ);
    _exit(9);
}

static void *fork_once(void *unused)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execve("/bin/true", (char *[]){"true", NULL}, environ);
        _exit(9);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    say("of a thread", status);
    return unused;
}

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    char *area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *stack = area + AREA / 2;
    for (int round = 0; round < 3; round++) {
        memset(area, 0xa5, AREA);
        pid_t pid = clone(child, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        int status = -1;
        waitpid(pid, &status, 0);
        say("status", status);
        long untouched = 0;
        while (untouched < AREA / 2 && stack[-1 - untouched] == (char)0xa5)
            untouched++;
        say("untouched below the stack", untouched);
    }
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    if (pthread_create(&thread, &attributes, fork_once, NULL) == 0)
        pthread_join(thread, NULL);
    return finish();
}
