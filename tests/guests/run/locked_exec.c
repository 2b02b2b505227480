/* Holds POSIX locks on what it executes: they outlast the execution, also one that fails. */
#include "hostile.h"

static void locked(const char *what, const char *path)
{
    if (fork() == 0) {
        struct flock lock = {.l_type = F_WRLCK};
        fcntl(open(path, O_RDWR), F_GETLK, &lock);
        say(what, lock.l_type);
        fflush(NULL);
        _exit(0);
    }
    wait(NULL);
}

static void lock(const char *path, int flags, short type)
{
    struct flock lock = {.l_type = type};
    fcntl(open(path, flags, 0755), F_SETLK, &lock);
}

static int execute(void *data)
{
    fflush(NULL);
    return execl("./program", "program", data, "program", NULL);
}

/* By children: one that takes the lock itself, and one that shares the descriptors of its parent, which holds the lock. */
static void execute_in_children(char *data)
{
    if (fork() == 0) {
        lock("program", O_RDWR, F_RDLCK);
        _exit(execute(data));
    }
    wait(NULL);
    lock("program", O_RDWR, F_RDLCK);
    static char stack[1 << 20];
    clone(execute, stack + sizeof stack, CLONE_FILES | SIGCHLD, data);
    wait(NULL);
    locked("shared", "program");
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        locked("executed", argv[2]);
        return finish();
    }
    cold_reads(argv[1]);
    lock("no-program", O_RDWR | O_CREAT, F_WRLCK);
    execl("./no-program", "no-program", NULL);
    say("failed", errno);
    locked("not executed", "no-program");

    char copy[] = "cp \"$0\" program";
    if (fork() == 0)
        execl("/bin/sh", "sh", "-c", copy, argv[0], NULL);
    wait(NULL);
    execute_in_children(argv[1]);
    return execute(argv[1]);
}
