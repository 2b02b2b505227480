/* Reads on stacks in shared memory: of a coroutine, and of a thread. */
#include "hostile.h"
#include <ucontext.h>

enum { STACK = 256 << 10 };

static ucontext_t home, coroutine;
static const char *path;

static void read_often(void)
{
    for (int round = 0; round < 6; round++)
        cold_reads(path);
}

static void body(void)
{
    read_often();
    swapcontext(&coroutine, &home);
}

static void *thread(void *unused)
{
    read_often();
    return unused;
}

int main(int argc, char **argv)
{
    (void)argc;
    path = argv[1];
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        die("mmap");
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK;
    makecontext(&coroutine, body, 0);
    swapcontext(&home, &coroutine);
    pthread_attr_t attributes;
    pthread_t other;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    if (pthread_create(&other, &attributes, thread, NULL) == 0)
        pthread_join(other, NULL);
    return finish();
}
