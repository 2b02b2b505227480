/* Executes in every way there is, well and badly; each child reads cold data first. */
#include "hostile.h"
#include <spawn.h>

static const char *data;

static void in_child(const char *what, int (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        cold_reads(data);
        body();
        int error = errno;
        dprintf(1, "%s: %s\n", what, strerror(error));
        _exit(90);
    }
    int status;
    waitpid(child, &status, 0);
    say(what, status);
}

static char *echo[] = {"other-name", "one", "two words", "", NULL};
static char *script[] = {"./script", "argument", NULL};
extern char **environ;

static int by_path(void) { return execv("/bin/echo", echo); }
static int by_name(void) { return execvp("echo", echo); }
static int by_name_and_environment(void) { return execvpe("env", (char *[]){"env", NULL}, (char *[]){"X=1", NULL}); }
static int by_descriptor(void) { return fexecve(open("/bin/echo", O_RDONLY), echo, environ); }
static int by_closing_descriptor(void) { return fexecve(open("/bin/echo", O_RDONLY | O_CLOEXEC), echo, environ); }
static int by_directory(void)
{
    return syscall(SYS_execveat, open("/bin", O_PATH), "echo", echo, environ, 0);
}
static int of_a_script(void) { return execv("./script", script); }
static int of_a_script_by_name(void)
{
    setenv("PATH", ".:/bin", 1);
    return execvp("script", script);
}
static int without_interpreter(void) { return execv("./no-interpreter", script); }
static int without_interpreter_by_shell(void)
{
    setenv("PATH", ".", 1);
    return execvp("no-interpreter", script);
}
static int of_a_directory(void) { return execv("/tmp", echo); }
static int of_data(void) { return execv("./data", echo); }
static int of_nothing(void) { return execv("", echo); }
static int of_a_missing(void) { return execv("./missing", echo); }
static int of_a_bad_interpreter(void) { return execv("./bad-interpreter", script); }
static int without_arguments(void) { return execv("/bin/true", (char *[]){NULL}); }
static int with_null_arguments(void) { return syscall(SYS_execve, "/bin/true", NULL, environ); }
static int with_bad_arguments(void) { return execve("/bin/echo", (char **)8, environ); }
static int with_bad_environment(void) { return execve("/bin/echo", echo, (char **)8); }
static int with_bad_path(void) { return execve((char *)8, echo, environ); }
static int through_the_loader(void)
{
    return execv("/lib64/ld-linux-x86-64.so.2", (char *[]){"ld.so", "/bin/echo", "through", "the", "loader", NULL});
}
static int with_a_loop(void)
{
    symlink("loop", "loop");
    return execv("./loop", echo);
}

static void make(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT, 0755);
    write(fd, text, strlen(text));
    close(fd);
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    make("script", "#!/bin/sh -e\necho script \"$0\" \"$@\"\nexit 3\n");
    make("no-interpreter", "echo none \"$@\"\n");
    make("bad-interpreter", "#!/nonexistent/program\n");
    effect();
    in_child("path", by_path);
    in_child("name", by_name);
    in_child("name and environment", by_name_and_environment);
    in_child("descriptor", by_descriptor);
    in_child("closing descriptor", by_closing_descriptor);
    in_child("directory", by_directory);
    in_child("script", of_a_script);
    in_child("script by name", of_a_script_by_name);
    in_child("no interpreter", without_interpreter);
    in_child("no interpreter by shell", without_interpreter_by_shell);
    in_child("of a directory", of_a_directory);
    in_child("of data", of_data);
    in_child("of nothing", of_nothing);
    in_child("of a missing", of_a_missing);
    in_child("bad interpreter", of_a_bad_interpreter);
    in_child("no arguments", without_arguments);
    in_child("null arguments", with_null_arguments);
    in_child("bad arguments", with_bad_arguments);
    in_child("bad environment", with_bad_environment);
    in_child("bad path", with_bad_path);
    in_child("loader", through_the_loader);
    in_child("loop", with_a_loop);

    pid_t child;
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t mask;
    sigfillset(&mask);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
    char *status[] = {"grep", "-E", "SigBlk|SigIgn|SigCgt", "/proc/self/status", NULL};
    int spawned = posix_spawn(&child, "/bin/grep", NULL, &attributes, status, environ);
    int result;
    waitpid(child, &result, 0);
    say("spawn", spawned);
    say("status", result);
    return finish();
}
