/* Takes a signal on an alternate stack in the middle of reading, and overflows a stack on purpose. */
#include "hostile.h"

static const char *data;
static sigjmp_buf back;
static volatile int depth;
static char *stack_base;

static void handler(int number)
{
    char here;
    cold_reads(data);
    effect();
    dprintf(1, "signal %d on the alternate stack: %d\n", number, &here >= stack_base && &here < stack_base + 65536 * 4);
    if (number == SIGSEGV)
        siglongjmp(back, 1);
}

static int deeper(int n)
{
    volatile char room[10000];
    room[n % 10000] = n;
    depth = n;
    return deeper(n + 1) + room[5];
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    stack_base = malloc(65536 * 4);
    stack_t stack = {.ss_sp = stack_base, .ss_size = 65536 * 4};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int round = 0; round < 2; round++) {
        cold_reads(argv[1]);
        raise(SIGUSR1);
        cold_reads(argv[1]);
        if (sigsetjmp(back, 1) == 0)
            say("never", deeper(1));
        say("overflowed", depth > 100);
    }
    return finish();
}
