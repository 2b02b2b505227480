/* Threads touch pages of a cold mapped file, each in an order of its own, and make no call. What else happens is named by an
 * argument: they block signals amid their faults, or were started so, or fork, execute, or end; or the program handles SIGURG,
 * or another signal with much stack. */
#include "faulting.h"
#include <poll.h>

enum { FEW = 3, MANY = 12, LONG_ROUNDS = 8, ENDS = 12 };

static unsigned char *data;
static size_t size;
static pthread_barrier_t together, in_handlers;
static unsigned sums[MANY];
static int threads_count = FEW;
static _Atomic int urged, wrong;
static const char *way;
static int started_blocked;

static int is_way(const char *name)
{
    return !strcmp(way, name);
}

static void on_urge(int number)
{
    urged += number == SIGURG;
}

/* Needs as much stack as a report of a crash, on the alternate one where the thread has one. */
static void on_large_stack(int number)
{
    volatile unsigned char room[200 << 10];
    pthread_t self = pthread_self();
    for (size_t i = 0; i + sizeof self <= sizeof room; i += sizeof self)
        memcpy((void *)(room + i), &self, sizeof self);
    /* The others' handlers run meanwhile. */
    pthread_barrier_wait(&in_handlers);
    for (size_t i = 0; i + sizeof self <= sizeof room; i += sizeof self)
        if (memcmp((void *)(room + i), &self, sizeof self) != 0) {
            wrong++;
            break;
        }
    urged += number == SIGUSR1;
    pthread_barrier_wait(&in_handlers);
}

/* Values of `count` pages that only this thread touches: which, they say themselves. */
static unsigned touched(unsigned *state, long self, int count)
{
    unsigned sum = 0;
    for (int i = 0; i < count; i++) {
        *state = *state * 1103515245 + 12345;
        size_t page = (*state >> 8) % (size / BLOCK / threads_count) * threads_count + self;
        const unsigned *words = (const unsigned *)(data + page * BLOCK);
        if (words[0] != 0x600d600d || words[1] != page)
            wrong++;
        sum = sum * 31 + words[2];
    }
    return sum;
}

/* The thread finds no stack for signals that it has not made, and the one that it has. */
static void change_stacks(long self)
{
    static char own[MANY][64 << 10];
    stack_t stack, mine = {.ss_sp = own[self], .ss_size = sizeof own[self]}, none = {.ss_flags = SS_DISABLE};
    if (sigaltstack(NULL, &stack) < 0 || stack.ss_flags != SS_DISABLE)
        wrong++;
    if (sigaltstack(&mine, NULL) < 0 || sigaltstack(NULL, &stack) < 0 || stack.ss_sp != own[self])
        wrong++;
    if (sigaltstack(&none, &stack) < 0 || stack.ss_sp != own[self])
        wrong++;
}

/* No signal is pending that the thread blocks, whatever call could show it. */
static void look_for_signals(void)
{
    sigset_t pending, none, all;
    struct timespec now = {0, 0};
    sigemptyset(&none);
    sigfillset(&all);
    if (sigpending(&pending) < 0 || sigismember(&pending, SIGURG))
        wrong++;
    if (ppoll(NULL, 0, &now, &none) != 0)
        wrong++;
    if (sigtimedwait(&all, NULL, &now) >= 0)
        wrong++;
}

/* A copy of the thread, alone in its process, waits for pages as well. */
static void fork_and_touch(unsigned state, long self)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        change_stacks(self);
        touched(&state, self, TOUCHES);
        _exit(wrong != 0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        wrong++;
}

static void *on_thread(void *argument)
{
    long self = (long)argument;
    unsigned state = self * 12345 + 1;
    for (int round = 0; round < LONG_ROUNDS; round++) {
        pthread_barrier_wait(&together);
        if (is_way("block") && round == LONG_ROUNDS / 2) {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_BLOCK, &all, NULL);
        }
        sums[self] = sums[self] * 31 + touched(&state, self, TOUCHES / 2);
        if (is_way("stack"))
            change_stacks(self);
        if (is_way("fork"))
            fork_and_touch(state + 1, self);
        if (is_way("exec") && self == 0 && round == LONG_ROUNDS / 2) {
            execl("/proc/self/exe", "mapped_threads", "data", "touch", NULL);
            die("execl");
        }
        sums[self] = sums[self] * 31 + touched(&state, self, TOUCHES / 2);
        if (started_blocked || (is_way("block") && round >= LONG_ROUNDS / 2))
            look_for_signals();
        if (is_way("handle") && round >= LONG_ROUNDS / 2)
            pthread_kill(pthread_self(), SIGURG);
        if (is_way("large"))
            pthread_kill(pthread_self(), SIGUSR1);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

/* One of many that end at once after some of their touches, in each way there is. */
static void *on_short_thread(void *argument)
{
    long self = (long)argument % threads_count, number = (long)argument / threads_count;
    unsigned state = (long)argument * 12345 + 1;
    unsigned sum = touched(&state, self, TOUCHES);
    if (number % 3 == 0)
        pthread_exit((void *)(long)sum);
    if (number % 3 == 1)
        for (;;) {
            touched(&state, self, 10);
            pthread_testcancel();
        }
    return (void *)(long)sum;
}

static void end_amid_faults(int fd)
{
    for (long number = 0; number < ENDS; number++) {
        pthread_t threads[MANY];
        for (long self = 0; self < threads_count; self++)
            pthread_create(&threads[self], NULL, on_short_thread, (void *)(number * threads_count + self));
        for (long self = 0; self < threads_count; self++) {
            void *sum;
            if (number % 3 == 1)
                pthread_cancel(threads[self]);
            pthread_join(threads[self], &sum);
            say("ended", (long)sum);
        }
        munmap(data, size);
        data = cold_map(fd, size, PROT_READ, MAP_PRIVATE);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("arguments");
    way = argv[2];
    if (is_way("large"))
        threads_count = MANY;
    int fd = open(argv[1], O_RDWR);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    size = st.st_size;
    data = cold_map(fd, size, PROT_READ, MAP_PRIVATE);
    if (is_way("end"))
        end_amid_faults(fd);
    pthread_t threads[MANY];
    pthread_barrier_init(&together, NULL, threads_count + 1);
    pthread_barrier_init(&in_handlers, NULL, threads_count);
    struct sigaction large = {.sa_handler = on_large_stack, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &large, NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
#if __GLIBC_PREREQ(2, 32)
    sigset_t all;
    sigfillset(&all);
    if (is_way("born"))
        started_blocked = pthread_attr_setsigmask_np(&attributes, &all) == 0;
#endif
    for (long self = 0; self < threads_count; self++)
        pthread_create(&threads[self], &attributes, on_thread, (void *)self);
    for (int round = 0; round < LONG_ROUNDS; round++) {
        struct sigaction action = {.sa_handler = on_urge, .sa_flags = SA_RESTART};
        if (is_way("handle") && round == LONG_ROUNDS / 2)
            sigaction(SIGURG, &action, NULL);
        pthread_barrier_wait(&together);
        pthread_barrier_wait(&together);
        munmap(data, size);
        data = cold_map(fd, size, PROT_READ, MAP_PRIVATE);
        append_line("out/file", round);
        effect();
    }
    for (int self = 0; self < threads_count; self++) {
        pthread_join(threads[self], NULL);
        dprintf(1, "sum %08x\n", sums[self]);
    }
    dprintf(1, "urged %d wrong %d\n", urged, wrong);
    return finish();
}
