/* Removes its working directory and a file that it reads, and works on. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int data = open(argv[1], O_RDONLY);
    mkdir("out/gone", 0755);
    cold_reads_fd(data);
    effect();
    say("chdir", chdir("out/gone"));
    say("rmdir", rmdir("../gone"));
    say("unlink data", unlink("../../data"));
    for (int round = 0; round < ROUNDS; round++) {
        char where[PATH_MAX];
        struct stat st;
        cold_reads_fd(data);
        say("getcwd", getcwd(where, sizeof where) != NULL);
        say("create", open("x", O_CREAT | O_WRONLY, 0600));
        say("here", stat(".", &st));
        say("up", stat("..", &st));
        fstat(data, &st);
        say("links", st.st_nlink);
    }
    return finish();
}
