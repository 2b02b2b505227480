/* Waits for swapped memory where there is little stack: with alternate stacks that have room for one handler, in handlers
   that run there, and on a coroutine. What lies below those stacks must stay what it is. */
#include "faulting.h"
#include <ucontext.h>

enum { BELOW = 16 << 10, STACKS_MAX = 64 << 10 };

static unsigned char *data;
static unsigned char place[BELOW + STACKS_MAX] __attribute__((aligned(4096)));
static ucontext_t home, coroutine;
static volatile int caught;

static void on_signal(int number)
{
    caught += number != 0;
    touch_pages(data, MEMORY, 10);
}

static void on_coroutine(void)
{
    for (;;) {
        touch_pages(data, MEMORY, TOUCHES / 4);
        swapcontext(&coroutine, &home);
    }
}

static unsigned untouched(void)
{
    unsigned count = 0;
    while (count < BELOW && place[BELOW - 1 - count] == 0xa5)
        count++;
    return count;
}

static void with_stack(size_t size)
{
    memset(place, 0xa5, sizeof place);
    stack_t stack = {.ss_sp = place + BELOW, .ss_size = size};
    say("alternate stack", sigaltstack(&stack, NULL));
    touch_pages(data, MEMORY, TOUCHES);
    effect();
    for (int i = 0; i < 40; i++)
        raise(SIGUSR1);
    dprintf(1, "caught %d, untouched %u\n", caught, untouched());
}

int main(int argc, char **argv)
{
    data = memory(MEMORY, MAP_PRIVATE);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    touch_pages(data, MEMORY, TOUCHES);
    with_stack(32 << 10);
    if (argc > 1)
        with_stack(atoi(argv[1]));
    /* None at all, and little of the ordinary one. */
    memset(place, 0xa5, sizeof place);
    stack_t none = {.ss_flags = SS_DISABLE};
    say("no alternate stack", sigaltstack(&none, NULL));
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = place + BELOW;
    coroutine.uc_stack.ss_size = 3072;
    makecontext(&coroutine, on_coroutine, 0);
    for (int round = 0; round < ROUNDS; round++) {
        swapcontext(&home, &coroutine);
        effect();
        dprintf(1, "coroutine: untouched %u\n", untouched());
    }
    return finish();
}
