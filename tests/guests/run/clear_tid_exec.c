/* Waits for the word that the kernel clears when a child with this memory has executed a program (CLONE_CHILD_CLEARTID). */
#include "hostile.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static volatile int word;

static int child(void *unused)
{
    (void)unused;
    execve("/bin/true", (char *[]){"true", NULL}, environ);
    _exit(9);
}

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    char *stack = malloc(1 << 16);
    for (volatile int round = 0; round < 3; round++) {
        word = 1;
        int flags = CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD;
        pid_t pid = clone(child, stack + (1 << 16), flags, NULL, NULL, NULL, (void *)&word);
        struct timespec limit = {20, 0};
        while (word != 0 && (syscall(SYS_futex, &word, FUTEX_WAIT, 1, &limit, NULL, 0) == 0 || errno != ETIMEDOUT))
            ;
        say("word", word);
        int status = -1;
        waitpid(pid, &status, 0);
        say("status", status);
    }
    return finish();
}
