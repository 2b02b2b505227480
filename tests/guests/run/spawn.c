/* Starts programs with posix_spawn, popen and system. */
#include "hostile.h"
#include <spawn.h>

extern char **environ;

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        pid_t child;
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
        posix_spawn_file_actions_addopen(&actions, 0, argv[1], O_RDONLY, 0);
        char *arguments[] = {"wc", "-c", NULL};
        say("spawn", posix_spawnp(&child, "wc", &actions, NULL, arguments, environ));
        int status = -1;
        waitpid(child, &status, 0);
        say("status", status);
        cold_reads(argv[1]);
        say("system", system("echo system >> out/log; exit 4"));
        cold_reads(argv[1]);
        char line[64] = {0};
        FILE *pipe = popen("cat out/log | wc -l", "r");
        fgets(line, sizeof line, pipe);
        say("pclose", pclose(pipe));
        dprintf(1, "%s", line);
        pid_t missing;
        char *nothing[] = {"missing", NULL};
        say("missing", posix_spawn(&missing, "/nonexistent/program", NULL, NULL, nothing, environ));
    }
    return finish();
}
