/* Reads on a stack that no forked child has; a core file would be an effect. */
#include "hostile.h"
#include <sys/resource.h>
#include <ucontext.h>

enum { STACK = 256 << 10 };

static ucontext_t home, coroutine;
static const char *path;

static void body(void)
{
    for (int round = 0; round < 6; round++)
        cold_reads(path);
    swapcontext(&coroutine, &home);
}

int main(int argc, char **argv)
{
    (void)argc;
    path = argv[1];
    struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &core);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || madvise(stack, STACK, MADV_DONTFORK) < 0)
        die("a stack");
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK;
    makecontext(&coroutine, body, 0);
    swapcontext(&home, &coroutine);
    return finish();
}
