/* Works at paths of the greatest length, past it, and in directories deeper than any path. */
#include "hostile.h"

int main(int argc, char **argv)
{
    (void)argc;
    int data = open(argv[1], O_RDONLY);
    char name[201], path[PATH_MAX + 200] = {0};
    memset(name, 'n', 200);
    name[200] = 0;
    int top = open(".", O_RDONLY);
    for (int depth = 0; depth < 25; depth++) {
        cold_reads_fd(data);
        if (depth == 0)
            effect();
        say("mkdir", mkdir(name, 0755));
        say("chdir", chdir(name));
        snprintf(path + strlen(path), sizeof path - strlen(path), "%s/", name);
    }
    int out = open("deep", O_WRONLY | O_CREAT, 0644);
    say("deep", write(out, "deep down\n", 10));
    say("getcwd", getcwd((char[PATH_MAX]){0}, PATH_MAX) != NULL);
    fchdir(top);
    struct stat st;
    say("too long", stat(path, &st));
    path[4000 / 201 * 201] = 0;
    say("long enough", stat(path, &st));
    strcat(path, "/x");
    say("missing", open(path, O_RDONLY));
    char same[3000] = {0};
    while (strlen(same) < 2900)
        strcat(same, "./out/../");
    strcat(same, "out/file");
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads_fd(data);
        say("roundabout", open(same, O_RDONLY) >= 0);
    }
    for (int depth = 0; depth < 25; depth++) {
        chdir(name);
    }
    say("unlink", unlink("deep"));
    for (int depth = 0; depth < 25; depth++) {
        cold_reads_fd(data);
        chdir("..");
        say("rmdir", rmdir(name));
    }
    return finish();
}
