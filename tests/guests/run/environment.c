/* Changes its own environment in every way, then executes programs that print what they got. */
#include "hostile.h"

extern char **environ;

static void show(const char *when)
{
    dprintf(1, "%s: LD_PRELOAD=%s FOREBAY_SESSION=%s\n", when, getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none",
            getenv("FOREBAY_SESSION") ? "set" : "none");
}

int main(int argc, char **argv)
{
    (void)argc;
    show("at the start");
    cold_reads(argv[1]);
    setenv("ADDED", "1", 1);
    putenv("PUT=2");
    effect();
    system("env | sort | grep -v '^_='; head -c 5 data | wc -c");
    cold_reads(argv[1]);
    setenv("LD_PRELOAD", "libm.so.6", 1);
    system("echo preload is $LD_PRELOAD; cat data | wc -c");
    unsetenv("LD_PRELOAD");
    cold_reads(argv[1]);
    char *few[] = {"A=1", "LD_PRELOAD=", NULL};
    environ = few;
    system("/usr/bin/env | sort");
    clearenv();
    cold_reads(argv[1]);
    if (fork() == 0) {
        execl("/usr/bin/env", "env", NULL);
        _exit(1);
    }
    int status;
    wait(&status);
    say("status", status);
    char *none[] = {NULL};
    char *arguments[] = {"env", NULL};
    if (fork() == 0) {
        execve("/usr/bin/env", arguments, none);
        _exit(1);
    }
    wait(&status);
    if (fork() == 0) {
        execve("/usr/bin/env", arguments, NULL);
        _exit(1);
    }
    wait(&status);
    say("status", status);
    show("at the end");
    return finish();
}
