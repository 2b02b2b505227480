/* A child of a program with much memory looks at what a signal does that nobody has set. */
#include "hostile.h"

enum { BYTES = 64 << 20 };

int main(int argc, char **argv)
{
    (void)argc;
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, BYTES);
    cold_reads(argv[1]);
    if (fork() == 0) {
        struct sigaction action, before, ignore = {.sa_handler = SIG_IGN};
        stack_t stack;
        sigaction(SIGURG, NULL, &action);
        sigaltstack(NULL, &stack);
        sigaction(SIGURG, &ignore, &before);
        dprintf(1, "handler %d, before %d, stack %d\n", action.sa_handler != SIG_DFL,
                before.sa_handler != SIG_DFL, stack.ss_sp != NULL);
        _exit(0);
    }
    wait(NULL);
    cold_reads(argv[1]);
    return finish();
}
