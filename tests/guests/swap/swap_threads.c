/* Threads that wait for swapped memory while the main thread does, and note what they find in turn; timers strike
   meanwhile, and their handlers touch such memory too. */
#include "faulting.h"

enum { THREADS = 3 };

static unsigned char *data;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;
static unsigned sums[THREADS];
static volatile unsigned strikes, wrong;

static void on_strike(int number)
{
    strikes += number != 0;
    size_t page = strikes % 3000 * BLOCK;
    if (data[page] != value_of(page))
        wrong = 1;
}

static void *on_thread(void *argument)
{
    long number = (long)argument;
    unsigned state = number * 12345 + 1, sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < TOUCHES / 4; i++) {
            state = state * 1103515245 + 12345;
            sum = sum * 31 + data[(state >> 8) % (MEMORY / BLOCK) * BLOCK];
        }
        pthread_mutex_lock(&turn);
        sums[number] = sum;
        pthread_mutex_unlock(&turn);
        pthread_barrier_wait(&together);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

int main(void)
{
    data = memory(MEMORY, MAP_PRIVATE);
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS + 1);
    struct sigaction action = {.sa_handler = on_strike, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    touch_pages(data, MEMORY, TOUCHES);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, on_thread, (void *)i);
    for (int round = 0; round < ROUNDS; round++) {
        setitimer(ITIMER_REAL, &often, NULL);
        touch_pages(data, MEMORY, TOUCHES);
        setitimer(ITIMER_REAL, &never, NULL);
        pthread_barrier_wait(&together);
        effect();
        append_line("out/file", round);
        dprintf(1, "sums %08x %08x %08x\n", sums[0], sums[1], sums[2]);
        pthread_barrier_wait(&together);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    dprintf(1, "struck %d wrong %d\n", strikes > 0, wrong);
    return finish();
}
