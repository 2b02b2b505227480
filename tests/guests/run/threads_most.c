/* Waits for cold data, and then has as many threads and programs at once as the system lets it have: threads_most FILE THREADS.
   The first THREADS are threads. All wait for the end of a pipe. */
#include "hostile.h"

#include <spawn.h>

enum { TRIES_MAX = 300, TASKS_MAX = 1000, STACK_BYTES = 64 << 10 };

static int ends[2];

static void *wait_for_end(void *nothing)
{
    char byte;
    if (read(ends[0], &byte, 1) != 0)
        die("read");
    return nothing;
}

static int start(pthread_t *thread, const pthread_attr_t *attributes)
{
    return pthread_create(thread, attributes, wait_for_end, NULL);
}

static int spawn(pid_t *child)
{
    posix_spawn_file_actions_t actions;
    char *const argv[] = {"cat", NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    int result = posix_spawn(child, "/bin/cat", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

int main(int argc, char **argv)
{
    (void)argc;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int threads_max = atoi(argv[2]);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[TASKS_MAX];
        pid_t children[TASKS_MAX];
        int tasks = 0, tries = round == 0 ? TRIES_MAX : 0;
        if (pipe2(ends, O_CLOEXEC) < 0)
            die("pipe2");
        cold_reads(argv[1]);
        effect();
        while (tasks < TASKS_MAX) {
            int failed = tasks < threads_max ? start(&threads[tasks], &attributes) : spawn(&children[tasks]);
            if (failed == 0) {
                tasks++;
            } else if (failed == EAGAIN && tries == TRIES_MAX) {
                break;
            } else if (failed == EAGAIN) {
                /* Those of the round before may not be forgotten yet. */
                tries++;
                usleep(1000);
            } else {
                errno = failed;
                die("start");
            }
        }
        say("at once", tasks);
        close(ends[1]);
        for (int task = 0, status; task < tasks; task++)
            if (task < threads_max ? pthread_join(threads[task], NULL) != 0
                                   : waitpid(children[task], &status, 0) < 0 || status)
                say("failed", task);
        close(ends[0]);
    }
    return finish();
}
