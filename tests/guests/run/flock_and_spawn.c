/* Locks a file and maps it, with a program spawned in between whose descriptor of that number is another: after cold reads, the
 * lock ends with the descriptor. */
#include "hostile.h"
#include <spawn.h>
#include <sys/file.h>

int main(int argc, char **argv)
{
    (void)argc;
    char *arguments[] = {"true", NULL}, *environment[] = {NULL};
    for (int round = 0; round < ROUNDS; round++) {
        int fd = open("out/file", O_RDONLY);
        if (fd < 0 || flock(fd, LOCK_EX) < 0)
            die("flock");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, 0, fd);
        pid_t child;
        int status;
        if (posix_spawnp(&child, "true", &actions, NULL, arguments, environment) || waitpid(child, &status, 0) != child)
            die("posix_spawn");
        posix_spawn_file_actions_destroy(&actions);
        void *map = mmap(NULL, BLOCK, PROT_READ, MAP_PRIVATE, fd, 0);
        cold_reads(argv[1]);
        munmap(map, BLOCK);
        close(fd);
        fd = open("out/file", O_RDONLY);
        say("flock", flock(fd, LOCK_EX | LOCK_NB));
        close(fd);
    }
    return finish();
}
