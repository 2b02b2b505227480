/* Handlers that ask for the alternate stack, in threads that have none, and need more than a small one. Then the main thread sets one
 * for itself. */
#include "hostile.h"

enum { BYTES = 32 << 20, PIECE = 1 << 20, THREADS = 8, STACK = 1 << 18, ROOM = 120 << 10 };

static __thread uintptr_t where;
static pthread_barrier_t barrier;

static void handler(int number)
{
    volatile char room[ROOM];
    memset((char *)room, number, sizeof room);
    where = (uintptr_t)&room[ROOM / 2];
}

static void piece(void)
{
    char *at = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        die("mmap");
    *at = 1;
}

/* Whether a handler runs near this frame. */
static int is_here(void)
{
    char here;
    raise(SIGUSR1);
    return where < (uintptr_t)&here && (uintptr_t)&here - where < 4 * ROOM;
}

static void meet(void)
{
    pthread_barrier_wait(&barrier);
}

static void *thread(void *unused)
{
    (void)unused;
    piece();
    meet();
    long right = is_here();
    meet();
    /* The main thread has a stack of its own now. */
    meet();
    piece();
    return (void *)(right + is_here());
}

int main(void)
{
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[0] = 1;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK}, told;
    sigaction(SIGUSR1, &action, NULL);
    piece();
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread, NULL);
    meet();
    meet();
    static char stack[STACK];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack}, before;
    if (sigaltstack(&own, &before) < 0)
        die("sigaltstack");
    say("without a stack before", before.ss_flags == SS_DISABLE);
    meet();
    is_here();
    say("on its own", where - (uintptr_t)stack < STACK);
    long right = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        right += (long)result;
    }
    say("on stacks of threads", right);
    sigaction(SIGUSR1, NULL, &told);
    say("flag", (told.sa_flags & SA_ONSTACK) != 0);
    return 0;
}
