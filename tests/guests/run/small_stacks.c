/* Reads, and in children executes, on stacks that have room for the call and little else: threads' and coroutines' of
   the least size. */
#include "hostile.h"
#include <ucontext.h>

static const char *data;
static ucontext_t home, coroutine;
static unsigned char bytes[BLOCK];
static int data_fd;

static void *on_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < READS; i++)
        digest(bytes, pread(data_fd, bytes, BLOCK, (off_t)(block_next++ * 769u % 2000) * BLOCK));
    int fd = open(data, O_RDONLY);
    digest(bytes, read(fd, bytes, BLOCK));
    close(fd);
    return NULL;
}

static void execute_in_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        execve("/nonexistent/program", (char *[]){"program", NULL}, environ);
        execve("/bin/true", (char *[]){"true", NULL}, environ);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say("status", status);
}

static void on_coroutine(void)
{
    for (;;) {
        on_thread(NULL);
        execute_in_child();
        swapcontext(&coroutine, &home);
    }
}

static void on_signal(int number)
{
    (void)number;
    on_thread(NULL);
}

int main(int argc, char **argv)
{
    data = argv[1];
    data_fd = open(data, O_RDONLY);
    int smallest = argc > 2 ? atoi(argv[2]) : 4096;
    for (int size = 65536; size >= smallest; size /= 2) {
        /* A page that cannot be touched ends the stack. */
        char *stack = mmap(NULL, size + BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(stack, BLOCK, PROT_NONE);
        getcontext(&coroutine);
        coroutine.uc_stack.ss_sp = stack + BLOCK;
        coroutine.uc_stack.ss_size = size;
        makecontext(&coroutine, on_coroutine, 0);
        effect();
        for (int round = 0; round < 3; round++)
            swapcontext(&home, &coroutine);
        munmap(stack, size + BLOCK);
        say("coroutine of", size);
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    pthread_t thread;
    pthread_create(&thread, &attributes, on_thread, NULL);
    pthread_join(thread, NULL);
    say("thread", 1);
    long least = sysconf(_SC_MINSIGSTKSZ) + 2048;
    char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack, BLOCK, PROT_NONE);
    stack_t alternate = {.ss_sp = stack + BLOCK, .ss_size = least};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    say("signal", 1);
    return finish();
}
