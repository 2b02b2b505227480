/* A mutex and a condition in shared memory, as POSIX threads share them between processes. */
#define _GNU_SOURCE
#include <errno.h>
#include <forebay.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

struct together {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    sem_t semaphore;
    long sum;
    int arrived;
};

int main(void)
{
    pthread_mutexattr_t how;
    pthread_condattr_t when;
    struct together *all;
    sem_t own;
    if (forebay_join(1 << 20, 0) < 0) return fprintf(stderr, "%s\n", forebay_error()), 1;
    if (sem_init(&own, 0, 1) < 0 || sem_wait(&own) < 0) return perror("a semaphore of its own"), 1;
    all = forebay_alloc(sizeof *all, 0);
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&when);
    pthread_condattr_setpshared(&when, PTHREAD_PROCESS_SHARED);
    if (forebay_rank() == 0) {
        int refused = pthread_mutex_init(&all->mutex, &how);
        if (refused != pthread_cond_init(&all->changed, &when)) return fprintf(stderr, "not alike\n"), 1;
        if ((sem_init(&all->semaphore, 1, 0) < 0) != (refused != 0)) return fprintf(stderr, "not alike\n"), 1;
        all->sum = refused == ENOTSUP ? -1 : 0;
    }
    if (forebay_barrier() < 0) return 1;
    if (all->sum < 0) {
        if (forebay_rank() == 0) printf("refused\n");
        return forebay_leave() < 0;
    }
    if (forebay_barrier() < 0) return 1;
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&all->mutex);
        all->sum++;
        pthread_mutex_unlock(&all->mutex);
    }
    pthread_mutex_lock(&all->mutex);
    all->arrived++;
    pthread_cond_broadcast(&all->changed);
    while (all->arrived < forebay_hosts()) pthread_cond_wait(&all->changed, &all->mutex);
    pthread_mutex_unlock(&all->mutex);
    if (forebay_rank() == 0) printf("%ld\n", all->sum);
    return forebay_leave() < 0;
}
