/* Finds the largest total of arguments that can be executed, in powers and down to some bytes, and the longest
 * single variable. */
#include "hostile.h"
#include <sys/resource.h>

extern char **environ;

/* 0 where execve of /bin/true with so many bytes of arguments works, else its error. */
static int attempt(long bytes, char **environment)
{
    enum { PIECE = 100000 };
    static char *arguments[64];
    int n = 0;
    arguments[n++] = "true";
    while (bytes > 0 && n < 60) {
        long piece = bytes < PIECE ? bytes : PIECE;
        char *text = malloc(piece);
        memset(text, 'a', piece - 1);
        text[piece - 1] = 0;
        arguments[n++] = text;
        bytes -= piece;
    }
    arguments[n] = NULL;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe");
    pid_t child = fork();
    if (child == 0) {
        execve("/bin/true", arguments, environment);
        write(ends[1], &errno, sizeof errno);
        _exit(1);
    }
    close(ends[1]);
    int error = 0;
    read(ends[0], &error, sizeof error);
    close(ends[0]);
    waitpid(child, NULL, 0);
    for (int i = 1; i < n; i++)
        free(arguments[i]);
    return error;
}

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    char *environment[] = {"A=1", NULL};
    long good = 1000, bad = 5000000;
    while (bad - good > 1) {
        long middle = (good + bad) / 2;
        if (attempt(middle, environment))
            bad = middle;
        else
            good = middle;
    }
    effect();
    say("largest", good);
    errno = attempt(bad, environment);
    say("error", -1);
    char *large = malloc(140000);
    memset(large, 'v', 140000);
    memcpy(large, "LONG=", 5);
    for (int length = 131070; length < 131075; length++) {
        char was = large[length];
        large[length] = 0;
        char *one[] = {large, NULL};
        say("variable", attempt(100, one));
        large[length] = was;
    }
    cold_reads(argv[1]);
    return finish();
}
