/* Runs a command and meanwhile tells the kernel, in the order given, which files that command is
 * going to read: what somebody who knows a program's access pattern would write by hand.
 *
 *   agrep_hinted PATH... -- COMMAND [ARGUMENT...]
 *
 * A directory stands for everything below it. The exit status is the command's, or 128 plus the
 * number of the signal that ended it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { THREADS = 32, CHUNK_BYTES = 128 * 1024 };

struct job {
    struct job *next;
    char path[];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first;
    struct job **last;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, &queue.first};

static void push(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    struct job *job = malloc(sizeof *job + size);
    if (job == NULL)
        return;
    snprintf(job->path, size, "%s%s%s", directory, *directory ? "/" : "", name);
    job->next = NULL;
    pthread_mutex_lock(&queue.lock);
    *queue.last = job;
    queue.last = &job->next;
    pthread_cond_signal(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
}

static struct job *pop(void)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.first == NULL)
        pthread_cond_wait(&queue.changed, &queue.lock);
    struct job *job = queue.first;
    queue.first = job->next;
    if (queue.first == NULL)
        queue.last = &queue.first;
    pthread_mutex_unlock(&queue.lock);
    return job;
}

static void hint_directory(int file, const char *path)
{
    DIR *directory = fdopendir(file);
    if (directory == NULL) {
        close(file);
        return;
    }
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            (entry->d_type == DT_DIR || entry->d_type == DT_REG))
            push(path, entry->d_name);
    }
    closedir(directory);
}

static void hint_file(int file, off_t size)
{
    for (off_t offset = 0; offset < size; offset += CHUNK_BYTES)
        posix_fadvise(file, offset, CHUNK_BYTES, POSIX_FADV_WILLNEED);
    close(file);
}

static void *work(void *unused)
{
    for (;;) {
        struct job *job = pop();
        struct stat status;
        int file = open(job->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        if (file >= 0) {
            if (fstat(file, &status) != 0)
                close(file);
            else if (S_ISDIR(status.st_mode))
                hint_directory(file, job->path);
            else
                hint_file(file, status.st_size);
        }
        free(job);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int separator = 1;
    while (separator < argc && strcmp(argv[separator], "--") != 0)
        separator++;
    if (separator + 1 >= argc) {
        fprintf(stderr, "usage: agrep_hinted PATH... -- COMMAND [ARGUMENT...]\n");
        return 125;
    }
    pid_t child;
    int failure = posix_spawnp(&child, argv[separator + 1], NULL, NULL, argv + separator + 1, environ);
    if (failure != 0) {
        fprintf(stderr, "agrep_hinted: %s: %s\n", argv[separator + 1], strerror(failure));
        return failure == ENOENT ? 127 : 126;
    }
    for (int path = 1; path < separator; path++)
        push("", argv[path]);
    for (int thread = 0; thread < THREADS; thread++) {
        pthread_t id;
        if (pthread_create(&id, NULL, work, NULL) == 0)
            pthread_detach(id);
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return 125;
    }
    fflush(NULL);
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}
