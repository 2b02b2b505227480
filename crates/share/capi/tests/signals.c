/* Signals of the program, as hosts of a job: `signals WHAT`. Each prints one line on host 0, the same in every job. */
#define _GNU_SOURCE
#include <dirent.h>
#include <forebay.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define ROWS 64

static volatile long **rows;
static volatile long handled;
static int me;
static volatile sig_atomic_t armed;
static sigjmp_buf limit;

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, forebay_error());
    return 1;
}

static void timer(int signal, long microseconds)
{
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    (void)signal;
    setitimer(ITIMER_REAL, &every, NULL);
}

static void counts(int signal)
{
    (void)signal;
    rows[handled++ % ROWS][me]++;
}

/* A handler counts in shared memory while its thread locks, unlocks and meets the others. */
static int calls(void)
{
    long locks = 0, sum = 0;
    signal(SIGALRM, counts);
    timer(SIGALRM, 500);
    while (handled < 400) {
        if (forebay_lock(3) < 0) return fail("lock");
        locks++;
        if (forebay_unlock(3) < 0) return fail("unlock");
    }
    timer(SIGALRM, 0);
    for (int i = 0; i < 200; i++) {
        if (i == 50) timer(SIGALRM, 500);
        if (i == 150) timer(SIGALRM, 0);
        if (forebay_barrier() < 0) return fail("barrier");
    }
    for (int i = 0; i < ROWS; i++) sum += rows[i][me];
    if (sum != handled) return fprintf(stderr, "host %d: %ld of %ld\n", me, sum, handled), 1;
    if (locks == 0) return fprintf(stderr, "host %d: no lock amid %ld signals\n", me, handled), 1;
    return 0;
}

static void jumps(int signal)
{
    (void)signal;
    if (armed) {
        armed = 0;
        siglongjmp(limit, 1);
    }
}

/* A time limit by a jump out of an access: what was not jumped out of is done, once. */
static int jump(void)
{
    volatile long jumped = 0, done = 0, sum = 0, i;
    if (me == 1) {
        signal(SIGALRM, jumps);
        timer(SIGALRM, 100);
        for (i = 0; jumped < 500; i++) {
            if (sigsetjmp(limit, 1)) {
                jumped++;
                continue;
            }
            armed = 1;
            rows[i % ROWS][me]++;
            armed = 0;
            done++;
        }
        timer(SIGALRM, 0);
        rows[0][4] = 1;
    } else {
        for (i = 0; rows[0][4] == 0; i++) rows[i % ROWS][me]++, done++;
    }
    if (forebay_barrier() < 0) return fail("barrier");
    for (int row = 0; row < ROWS; row++) sum += rows[row][me];
    if (sum < done || sum > i) return fprintf(stderr, "host %d: %ld, not %ld to %ld\n", me, sum, done, i), 1;
    return 0;
}

/* Signals that the program's threads block stay pending until it lets them in. */
static int blocked(void)
{
    sigset_t set;
    signal(SIGRTMIN, counts);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 5; i++) kill(getpid(), SIGRTMIN);
    for (int i = 0; i < 100; i++) forebay_barrier();
    if (handled) return fprintf(stderr, "a signal that is blocked was handled\n"), 1;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    if (handled != 5) return fprintf(stderr, "%ld of 5 signals\n", handled), 1;
    return 0;
}

/* Every thread but the first blocks all signals that can be blocked. */
static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int wrong = 0;
    while ((task = readdir(tasks))) {
        char path[300], line[200];
        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof line, status)) {
            unsigned long long mask;
            if (sscanf(line, "SigBlk: %llx", &mask) != 1) continue;
            for (int number = 1; number <= 64; number++) {
                if (number == SIGKILL || number == SIGSTOP || (number > 31 && number < SIGRTMIN)) continue;
                if (!(mask >> (number - 1) & 1)) wrong++, fprintf(stderr, "%s takes %d\n", task->d_name, number);
            }
        }
        if (status) fclose(status);
    }
    closedir(tasks);
    return wrong;
}

/* Memory that the program locks is shared all the same. */
static int locked(void)
{
    if (mlockall(MCL_CURRENT) < 0) return perror("mlockall"), 1;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < ROWS; i++)
            if ((i + round) % forebay_hosts() == forebay_rank()) rows[i][5] = round * ROWS + i;
        if (forebay_barrier() < 0) return fail("barrier");
        for (int i = 0; i < ROWS; i++)
            if (rows[i][5] != round * ROWS + i) return fprintf(stderr, "row %d of round %d\n", i, round), 1;
        if (forebay_barrier() < 0) return fail("barrier");
    }
    return 0;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    int first = strcmp(what, "locked first") == 0, wrong;
    if (first && mlockall(MCL_CURRENT | MCL_FUTURE) < 0) return perror("mlockall"), 1;
    if (forebay_join(1 << 20, 0) < 0) return fail("join");
    me = forebay_rank();
    rows = (volatile long **)forebay_rows(ROWS, 64, 1, FOREBAY_CYCLIC);
    if (!rows || forebay_barrier() < 0) return fail("rows");
    wrong = strcmp(what, "calls") == 0     ? calls()
            : strcmp(what, "jump") == 0    ? jump()
            : strcmp(what, "blocked") == 0 ? blocked()
            : strcmp(what, "threads") == 0 ? threads()
                                           : locked();
    if (wrong) return 1;
    if (forebay_barrier() < 0) return fail("barrier");
    if (forebay_rank() == 0) printf("%s: well\n", what);
    return forebay_leave() < 0 ? fail("leave") : 0;
}
