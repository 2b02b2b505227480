/*
 * Calls every function of forebay.h as one of several hosts, or alone, and checks what it does. Compiled as C11 and as
 * C++17. Ends with 0 if all was as the header says; with the argument "refused" it does not get in.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <forebay.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, forebay_error());     \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

/* The last call failed, and its sentence contains `part`. */
#define FAILS(call, part)                      \
    do {                                       \
        CHECK(call);                           \
        CHECK(strstr(forebay_error(), part));  \
    } while (0)

static int rank, count;

/* All hosts map one memory. */
static int have_one_memory(void) {
    const char *separate = getenv("FOREBAY_SHARE_SEPARATE");
    int are_apart = (separate && strcmp(separate, "1") == 0) || getenv("FOREBAY_SHARE_MACHINE");
    return count == 1 || !are_apart;
}

static void before_joining(void) {
    size_t first, end;
    CHECK(strcmp(forebay_error(), "") == 0);
    FAILS(forebay_rank() == -1, "not a host");
    FAILS(forebay_hosts() == -1, "not a host");
    FAILS(forebay_leave() == -1, "not a host");
    FAILS(forebay_barrier() == -1, "not a host");
    FAILS(forebay_lock(0) == -1, "not a host");
    FAILS(forebay_unlock(0) == -1, "not a host");
    FAILS(forebay_left(&first) == -1, "not a host");
    FAILS(forebay_malloc(8) == NULL, "not a host");
    FAILS(forebay_free(NULL) == -1, "not a host");
    FAILS(forebay_malloc_left(&first) == -1, "not a host");
    FAILS(forebay_team_create(&rank, 1) == NULL, "not a host");
    FAILS(forebay_team_barrier(NULL) == -1, "not a host");
    FAILS(forebay_gather(NULL, 0, 0, NULL) == -1, "not a host");
    FAILS(forebay_trylock(0) == -1, "not a host");
    FAILS(forebay_lock_recursive(0) == -1, "not a host");
    FAILS(forebay_atomic(&first, 8, FOREBAY_ADD, &end, NULL) == -1, "not a host");
    FAILS(forebay_wait_until(&first, 8, FOREBAY_EQUAL, 0) == -1, "not a host");
    FAILS(forebay_ring(&first) == -1, "not a host");
    FAILS(forebay_semaphore_post((forebay_semaphore *)&first, 1) == -1, "not a host");
    FAILS(forebay_condition_signal((forebay_condition *)&first) == -1, "not a host");
    FAILS(forebay_rwlock_unlock((forebay_rwlock *)&first) == -1, "not a host");
    FAILS(forebay_rows(1, 1, 1, FOREBAY_BLOCKS) == NULL, "not a host");
    FAILS(forebay_alloc(1, FOREBAY_BLOCKS) == NULL, "not a host");
    FAILS(forebay_free_together(NULL) == -1, "not a host");
    FAILS(forebay_block(0, 1, &first, &end) == -1, "not a host");
    FAILS(forebay_touch(&first, 1, FOREBAY_READ) == -1, "not a host");
    FAILS(forebay_prefetch(&first, 1, FOREBAY_READ) == -1, "not a host");
    FAILS(forebay_push(&first, 1) == -1, "not a host");
    FAILS(forebay_stats(NULL, 0) == -1, "not a host");
}

static void blocks(void) {
    size_t first, end, next = 0;
    for (int host = 0; host < count; host++) {
        CHECK(forebay_block(host, 1000, &first, &end) == 0);
        CHECK(first == next && end >= first);
        next = end;
    }
    CHECK(next == 1000);
    FAILS(forebay_block(count, 10, &first, &end) == -1, "no host");
    FAILS(forebay_block(-1, 10, &first, &end) == -1, "no host");
    FAILS(forebay_block(0, 10, NULL, &end) == -1, "NULL");
    FAILS(forebay_block(0, 10, &first, NULL) == -1, "NULL");
}

/* Every host writes some rows, all read all, in each placement and chunking. */
static void rows(void) {
    const int placements[] = {FOREBAY_BLOCKS, FOREBAY_CYCLIC, FOREBAY_COPIES, count - 1};
    const size_t chunks[] = {1, 3, 1000};
    for (int kind = 0; kind < 12; kind++) {
        const size_t chunk = chunks[kind % 3], all = 100, columns = 20;
        int **table = (int **)forebay_rows(all, columns * sizeof(int), chunk, placements[kind / 3]);
        CHECK(table != NULL);
        for (size_t i = 0; i + 1 < all && chunk == 3; i++)
            CHECK((i + 1) % chunk == 0 || table[i + 1] == table[i] + columns);
        for (int round = 1; round < 4; round++) {
            for (size_t i = (size_t)rank; i < all; i += (size_t)count)
                for (size_t j = 0; j < columns; j++) table[i][j] = round * 10000 + (int)(i * columns + j);
            CHECK(forebay_barrier() == 0);
            for (size_t i = 0; i < all; i++)
                for (size_t j = 0; j < columns; j++) CHECK(table[i][j] == round * 10000 + (int)(i * columns + j));
            CHECK(forebay_barrier() == 0);
        }
        free(table);
    }
    FAILS(forebay_rows(0, 8, 1, FOREBAY_BLOCKS) == NULL, "0");
    FAILS(forebay_rows(8, 0, 1, FOREBAY_BLOCKS) == NULL, "0");
    FAILS(forebay_rows(1, SIZE_MAX, 1, FOREBAY_BLOCKS) == NULL, "not");
    FAILS(forebay_rows(SIZE_MAX, 8, 1, FOREBAY_BLOCKS) == NULL, "rows");
    FAILS(forebay_rows(1, (size_t)1 << 40, 1, FOREBAY_BLOCKS) == NULL, "do not fit");
    FAILS(forebay_rows(1, 8, 1, -9) == NULL, "no host -9");
    FAILS(forebay_rows(1, 8, 1, count) == NULL, "no host");
    FAILS(forebay_alloc(0, FOREBAY_BLOCKS) == NULL, "0");
}

/* A sum under a lock, by two threads of each host. */
static void *add(void *argument) {
    long *sum = (long *)argument;
    for (int i = 0; i < 100; i++) {
        CHECK(forebay_lock(3) == 0);
        *sum += 1;
        CHECK(forebay_unlock(3) == 0);
    }
    return NULL;
}

static void locks(void) {
    long *sum = (long *)forebay_alloc(sizeof *sum, 0);
    pthread_t thread;
    CHECK(sum != NULL);
    CHECK(pthread_create(&thread, NULL, add, sum) == 0);
    add(sum);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(forebay_barrier() == 0);
    CHECK(*sum == 200L * count);
    FAILS(forebay_unlock(99) == -1, "lock 99");
    CHECK(forebay_barrier() == 0);
}

/* All hosts at once, on words of each size. */
static void atomics(void) {
    uint8_t *bytes = (uint8_t *)forebay_alloc(64, count - 1);
    CHECK(bytes != NULL);
    uint16_t *two = (uint16_t *)(bytes + 2);
    uint32_t *four = (uint32_t *)(bytes + 4);
    int64_t *eight = (int64_t *)(bytes + 8);
    for (int i = 0; i < 10; i++) {
        forebay_fetch_add(bytes, 1);
        forebay_fetch_or(two, (uint16_t)(1u << rank));
        forebay_fetch_xor(four, 1u << rank);
        int64_t now = forebay_load(eight);
        while (!forebay_compare_exchange(eight, &now, now - 1)) continue;
    }
    CHECK(forebay_barrier() == 0);
    CHECK(*bytes == 10 * count && *two == (1 << count) - 1 && *four == 0 && *eight == -10 * count);
    CHECK(forebay_barrier() == 0);
    if (rank == 0) {
        CHECK(forebay_swap(bytes, 7) == 10 * count && forebay_fetch_and(two, 1) == (1 << count) - 1);
        forebay_store(eight, 5);
    }
    CHECK(forebay_barrier() == 0);
    CHECK(*bytes == 7 && *two == 1 && *eight == 5);

    uint64_t *pair = (uint64_t *)(void *)(bytes + 16), one[2] = {1, UINT64_MAX}, before[2] = {0, 0};
    if (forebay_atomic(pair, 16, FOREBAY_ADD, one, before) == 0) {
        CHECK(forebay_barrier() == 0);
        CHECK(forebay_atomic(pair, 16, FOREBAY_LOAD, NULL, before) == 0);
        CHECK(before[0] == (uint64_t)count && before[1] == 0 - (uint64_t)count);
        uint64_t seven[2] = {7, 7};
        CHECK(forebay_atomic(pair, 16, FOREBAY_COMPARE_EXCHANGE, seven, seven) == 0 && seven[0] == before[0]);
        CHECK(forebay_barrier() == 0);
        if (rank == 0) CHECK(forebay_atomic(pair, 16, FOREBAY_COMPARE_EXCHANGE, before, before) == 1);
    } else {
        CHECK(strstr(forebay_error(), "128 bits"));
    }
    uint32_t wanted = 3, was = 9;
    CHECK(forebay_barrier() == 0);
    if (rank == 0) CHECK(forebay_atomic(four, 4, FOREBAY_STORE, &wanted, NULL) == 0);
    CHECK(forebay_barrier() == 0);
    CHECK(forebay_atomic(four, 4, FOREBAY_LOAD, NULL, &was) == 0 && was == 3);
    FAILS(forebay_atomic(bytes + 1, 4, FOREBAY_ADD, &wanted, NULL) == -1, "1, 2, 4, 8 or 16 bytes");
    FAILS(forebay_atomic(four, 4, FOREBAY_ADD, NULL, NULL) == -1, "value is NULL");
    FAILS(forebay_atomic(four, 4, FOREBAY_LOAD, NULL, NULL) == -1, "before is NULL");
    FAILS(forebay_atomic(four, 4, 9, &wanted, NULL) == -1, "operation is 9");
    FAILS(forebay_atomic(&wanted, 4, FOREBAY_ADD, &wanted, NULL) == -1, "not all of one allocation");
    CHECK(forebay_barrier() == 0);
}

struct account {
    forebay_semaphore units;
    forebay_condition changed;
    forebay_rwlock lock;
    int64_t turn, sum, other;
};

/* Hosts take turns by a word, a semaphore, a condition, and locks of each kind. */
static void waits(void) {
    struct account *shared = (struct account *)forebay_alloc(sizeof *shared, 0);
    CHECK(shared != NULL);
    for (int round = 0; round < 5; round++) {
        CHECK(forebay_wait_until(&shared->turn, 8, FOREBAY_EQUAL, round * count + rank) == 0);
        shared->turn++;
        CHECK(forebay_ring(&shared->turn) == 0);
    }
    CHECK(forebay_wait_until(&shared->turn, 8, FOREBAY_GREATER_OR_EQUAL, 5 * count) == 0);
    if (rank == 0) CHECK(forebay_semaphore_post(&shared->units, 1) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(forebay_semaphore_wait(&shared->units) == 0);
        shared->sum++;
        CHECK(forebay_semaphore_post(&shared->units, 1) == 0);
        CHECK(forebay_lock_recursive(8) == 0 && forebay_lock_recursive(8) == 0);
        shared->other++;
        CHECK(forebay_unlock(8) == 0 && forebay_unlock(8) == 0);
    }
    CHECK(forebay_barrier() == 0);
    CHECK(shared->sum == 20 * count && shared->other == 20 * count);
    CHECK(forebay_barrier() == 0);
    /* The last host to come wakes the others. */
    CHECK(forebay_lock(8) == 0);
    shared->turn++;
    while (shared->turn < 6 * count) CHECK(forebay_condition_wait(&shared->changed, 8) == 0);
    CHECK(forebay_condition_signal(&shared->changed) == 0 && forebay_condition_broadcast(&shared->changed) == 0);
    CHECK(forebay_unlock(8) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(forebay_rwlock_write(&shared->lock) == 0);
        shared->sum++, shared->other++;
        CHECK(forebay_rwlock_unlock(&shared->lock) == 0);
        CHECK(forebay_rwlock_read(&shared->lock) == 0);
        CHECK(shared->sum == shared->other);
        CHECK(forebay_rwlock_unlock(&shared->lock) == 0);
    }
    CHECK(forebay_barrier() == 0);
    CHECK(forebay_rwlock_tryread(&shared->lock) == 1);
    CHECK(forebay_rwlock_trywrite(&shared->lock) == 0);
    CHECK(forebay_barrier() == 0);
    CHECK(forebay_rwlock_unlock(&shared->lock) == 0);
    if (rank == 0) CHECK(forebay_lock(8) == 0 && forebay_semaphore_trywait(&shared->units) == 1);
    CHECK(forebay_barrier() == 0);
    CHECK(forebay_trylock(8) == 0 && forebay_semaphore_trywait(&shared->units) == 0);
    FAILS(forebay_rwlock_unlock(&shared->lock) == -1, "no thread has this lock");
    FAILS(forebay_condition_wait(&shared->changed, 70) == -1, "lock 70");
    FAILS(forebay_wait_until(&shared->turn, 8, 6, 0) == -1, "comparison is 6");
    FAILS(forebay_wait_until(&shared->turn, 3, FOREBAY_EQUAL, 0) == -1, "1, 2, 4, 8 or 16 bytes");
    FAILS(forebay_ring(&rank) == -1, "not all of one allocation");
    FAILS(forebay_semaphore_post((forebay_semaphore *)((char *)shared + 4), 1) == -1, "at a multiple");
    CHECK(forebay_barrier() == 0);
    if (rank == 0) CHECK(forebay_unlock(8) == 0);
    CHECK(forebay_barrier() == 0);
}

/* Teams of all hosts and of those in reverse order. */
static void teams(void) {
    enum { MANY = 20000 };
    int *reversed = (int *)malloc(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++) reversed[i] = count - 1 - i;
    void *both[2] = {NULL, forebay_team_create(reversed, (size_t)count)};
    double *values = (double *)malloc(MANY * sizeof *values);
    int *all = (int *)malloc(sizeof(int) * (size_t)count);
    CHECK(both[1] != NULL && forebay_team_rank(NULL) == rank && forebay_team_rank(both[1]) == count - 1 - rank);
    CHECK(forebay_team_hosts(NULL) == count && forebay_team_hosts(both[1]) == count);
    for (int kind = 0; kind < 2; kind++) {
        void *team = both[kind];
        const int place = forebay_team_rank(team);
        for (int i = 0; i < MANY; i++) values[i] = i + rank;
        CHECK(forebay_all_reduce(team, values, MANY, FOREBAY_DOUBLE, FOREBAY_SUM) == 0);
        for (int i = 0; i < MANY; i++) CHECK(values[i] == (double)count * i + count * (count - 1) / 2);
        values[0] = place;
        CHECK(forebay_reduce(team, values, 1, FOREBAY_DOUBLE, FOREBAY_MAX, 0) == 0);
        CHECK(values[0] == (place == 0 ? count - 1 : place));
        values[1] = place + 5;
        CHECK(forebay_broadcast(team, values, 2 * sizeof *values, count - 1) == 0 && values[1] == count + 4);
        CHECK(forebay_all_gather(team, &rank, sizeof rank, all) == 0);
        for (int i = 0; i < count; i++) CHECK(all[i] == (kind ? reversed[i] : i));
        CHECK(forebay_team_barrier(team) == 0);
        FAILS(forebay_all_reduce(team, values, 1, FOREBAY_DOUBLE, FOREBAY_BITS_OR) == -1, "no bits");
        FAILS(forebay_all_reduce(team, values, 1, 10, FOREBAY_SUM) == -1, "type is 10");
        FAILS(forebay_all_reduce(team, values, 1, FOREBAY_DOUBLE, 7) == -1, "reduction is 7");
        FAILS(forebay_all_reduce(team, NULL, 1, FOREBAY_DOUBLE, FOREBAY_SUM) == -1, "NULL");
        FAILS(forebay_broadcast(team, values, 1, count) == -1, "no host");
    }
    FAILS(forebay_team_create(&count, 1) == NULL, "no host");
    FAILS(forebay_team_create(NULL, 1) == NULL, "NULL");
    forebay_team_free(both[1]);
    forebay_team_free(NULL);
    free(reversed), free(values), free(all);
}

/* Many rows and small allocations at once. */
static void many(void) {
    enum { ROWS = 50, BYTES = 24 };
    char **rows = (char **)forebay_rows(ROWS, BYTES, 1, FOREBAY_CYCLIC), all[ROWS][BYTES];
    CHECK(rows != NULL);
    memset(all, 'a' + rank, sizeof all);
    if (rank == count - 1) CHECK(forebay_scatter((void *const *)rows, ROWS, BYTES, all) == 0);
    CHECK(forebay_barrier() == 0);
    CHECK(forebay_gather((const void *const *)rows, ROWS, BYTES, all) == 0);
    for (int i = 0; i < ROWS; i++) CHECK(all[i][0] == 'a' + count - 1 && all[i][BYTES - 1] == 'a' + count - 1);
    FAILS(forebay_gather((const void *const *)rows, ROWS, BYTES + 1, all) == -1, "not all of one allocation");
    FAILS(forebay_gather(NULL, ROWS, BYTES, all) == -1, "rows is NULL");
    free(rows);
    size_t before, after;
    CHECK(forebay_left(&before) == 0);
    for (int i = 0; i < 80; i++) CHECK(forebay_alloc(16, FOREBAY_CYCLIC) != NULL);
    /* Eight views, so eight to a page. */
    CHECK(forebay_left(&after) == 0 && before - after <= 10 * 4096);
    FAILS(forebay_left(NULL) == -1, "NULL");
    /* More than there is, but for what all have freed. */
    for (int round = 0; round < 12; round++) {
        char *part = (char *)forebay_alloc(after / 8, 0);
        CHECK(part != NULL && part[after / 8 - 1] == 0);
        CHECK(forebay_barrier() == 0);
        if (rank == count - 1) part[after / 8 - 1] = 1;
        FAILS(forebay_free_together(part + 1) == -1, "begins at");
        CHECK(forebay_free_together(part) == 0);
        FAILS(forebay_free_together(part) == -1, "free already");
    }
    CHECK(forebay_barrier() == 0);
}

/* Each host allocates a list alone; the next host frees it. */
static void alone(void) {
    struct node {
        struct node *next;
        int number;
    };
    enum { NODES = 100 };
    struct node **lists = (struct node **)forebay_alloc(count * sizeof *lists, 0);
    size_t before, after;
    CHECK(lists != NULL && forebay_malloc_left(&before) == 0);
    for (int i = 0; i < NODES; i++) {
        struct node *node = (struct node *)forebay_malloc(i % 2 ? sizeof *node : 5000);
        CHECK(node != NULL && (uintptr_t)node % 16 == 0 && node->next == NULL);
        node->number = i;
        node->next = lists[rank];
        lists[rank] = node;
    }
    CHECK(forebay_malloc_left(&after) == 0 && after < before);
    CHECK(forebay_barrier() == 0);
    struct node *node = lists[(rank + 1) % count];
    for (int i = NODES - 1; i >= 0; i--) {
        struct node *next = node->next;
        CHECK(node->number == i);
        FAILS(forebay_free((char *)node + 16) == -1, "begins at");
        CHECK(forebay_free(node) == 0);
        if (i == 0) FAILS(forebay_free(node) == -1, "free already");
        node = next;
    }
    CHECK(node == NULL && forebay_free(NULL) == 0);
    CHECK(forebay_barrier() == 0);
    FAILS(forebay_free(lists) == -1, "begins at");
    FAILS(forebay_free(&before) == -1, "begins at");
    FAILS(forebay_malloc((size_t)1 << 40) == NULL, "do not fit");
    FAILS(forebay_malloc(0) == NULL, "0");
    FAILS(forebay_malloc_left(NULL) == -1, "NULL");
    CHECK(forebay_barrier() == 0);
}

/* A pointer in shared memory leads to the same place on all hosts, and a system call to memory that was touched. */
static void pointers(void) {
    char **shared = (char **)forebay_alloc(sizeof *shared, 0);
    char *text = (char *)forebay_alloc(10000, count - 1);
    CHECK(shared != NULL && text != NULL);
    if (rank == count - 1) {
        memset(text, 'x', 10000);
        *shared = text + 5000;
    }
    CHECK(forebay_barrier() == 0);
    CHECK(forebay_touch(*shared, 5000, FOREBAY_READ) == 0);
    int copy = memfd_create("copy", 0), zero = open("/dev/zero", O_RDONLY);
    CHECK(write(copy, *shared, 5000) == 5000);
    CHECK(forebay_barrier() == 0);
    if (rank == 0) {
        CHECK(forebay_touch(text, 10000, FOREBAY_WRITE) == 0);
        CHECK(read(zero, text, 10000) == 10000);
    }
    CHECK(forebay_barrier() == 0);
    CHECK(text[0] == 0 && text[9999] == 0);
    CHECK(forebay_barrier() == 0);
    if (rank == 0) text[0] = 'y';
    CHECK(forebay_prefetch(text, 10000, FOREBAY_READ) == 0);
    CHECK(forebay_barrier() == 0);
    if (rank == 0) CHECK(forebay_push(text, 10000) == 0);
    CHECK(forebay_prefetch(text, 1, FOREBAY_WRITE) == 0);
    CHECK(text[0] == 'y');

    FAILS(forebay_touch(text, 10001, FOREBAY_READ) == -1, "not all of one allocation");
    FAILS(forebay_touch(text, 0, FOREBAY_READ) == -1, "0 bytes");
    FAILS(forebay_touch(NULL, 1, FOREBAY_READ) == -1, "0x0");
    FAILS(forebay_touch(&rank, sizeof rank, FOREBAY_WRITE) == -1, "not all of one allocation");
    FAILS(forebay_touch(text, SIZE_MAX, FOREBAY_READ) == -1, "not all of one allocation");
    FAILS(forebay_touch(text, 1, 2) == -1, "FOREBAY_WRITE");
    FAILS(forebay_prefetch(&rank, 1, FOREBAY_READ) == -1, "not all of one allocation");
    FAILS(forebay_push(NULL, 1) == -1, "not all of one allocation");
    CHECK(forebay_barrier() == 0);
}

static void figures(void) {
    struct forebay_stat counts[64];
    int all = forebay_stats(NULL, 0);
    uint64_t faults = 0;
    CHECK(all > 0 && all < 64);
    CHECK(forebay_stats(counts, 64) == all);
    for (int i = 0; i < all; i++)
        if (strstr(counts[i].name, "faults")) faults += counts[i].value;
    /* Hosts with one memory do not fault. */
    if (have_one_memory()) CHECK(faults == 0);
    /* The first host of a machine counts those of its machine. */
    else if (rank == 0) CHECK(faults > 0);
    counts[1].name = NULL;
    CHECK(forebay_stats(counts, 1) == all);
    CHECK(counts[0].value == 0 && counts[1].name == NULL);
    FAILS(forebay_stats(NULL, 1) == -1, "NULL");
    FAILS(forebay_stats(counts, -1) == -1, "-1");
    /* By the names of version 0.1. */
    struct forebay_count figures[64];
    CHECK(forebay_count() == count && forebay_counts(NULL, 0) == all && forebay_counts(figures, 64) == all);
    CHECK(strcmp(figures[0].name, counts[0].name) == 0);
}

/* Of any size, on memory that the last host has. */
static void system_calls(void) {
    enum { WORDS = 500000, BYTES = WORDS * sizeof(uint32_t) };
    uint32_t **rows = (uint32_t **)forebay_rows(3, BYTES, 1, count - 1);
    CHECK(rows != NULL);
    for (uint32_t i = 0; i < 3 * WORDS && rank == count - 1; i++) rows[i / WORDS][i % WORDS] = i;
    CHECK(forebay_barrier() == 0);
    if (rank == 0) {
        FILE *file = tmpfile();
        uint32_t word, mark = 77;
        CHECK(file != NULL && forebay_touch(rows[0], 1, FOREBAY_READ) == 0);
        CHECK(write(fileno(file), rows[0], BYTES) == BYTES);
        CHECK(pwrite(fileno(file), rows[1], BYTES, BYTES) == BYTES);
        struct iovec out[3] = {{rows[2], BYTES}, {&mark, sizeof mark}, {rows[0], sizeof word}};
        CHECK(lseek(fileno(file), 2 * (off_t)BYTES, SEEK_SET) == 2 * (off_t)BYTES);
        CHECK(writev(fileno(file), out, 3) == BYTES + 8);
        for (uint32_t i = 0; i < 3 * WORDS; i += 1000)
            CHECK(pread(fileno(file), &word, sizeof word, i * (off_t)sizeof word) == sizeof word && word == i);
        CHECK(pread(fileno(file), &word, sizeof word, 3 * (off_t)BYTES) == sizeof word && word == mark);
        /* One row lower than they were. */
        struct iovec in[2] = {{rows[0], BYTES}, {rows[1], BYTES}};
        CHECK(preadv(fileno(file), in, 2, BYTES) == 2 * BYTES);
        CHECK(rows[0][0] == WORDS && rows[1][WORDS - 1] == 3 * WORDS - 1);
        CHECK(pread(fileno(file), rows[2], BYTES, 3 * (off_t)BYTES) == 8 && rows[2][0] == mark && rows[2][2] == 2 * WORDS + 2);
        rewind(file);
        CHECK(fread(rows[2], sizeof word, WORDS, file) == WORDS && rows[2][WORDS - 1] == WORDS - 1);
        rewind(file);
        CHECK(fwrite(rows[1], BYTES, 1, file) == 1 && fflush(file) == 0);
        CHECK(pread(fileno(file), &word, sizeof word, BYTES - 4) == sizeof word && word == 3 * WORDS - 1);
        CHECK(fclose(file) == 0);
    }
    CHECK(forebay_barrier() == 0);
    CHECK(rows[0][5] == WORDS + 5 && rows[2][5] == 5);
    CHECK(forebay_barrier() == 0);
    if (rank == 0) {
        int ends[2];
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
        CHECK(send(ends[0], rows[1], 20000, 0) == 20000);
        CHECK(recv(ends[1], rows[2], BYTES, 0) == 20000 && rows[2][4999] == rows[1][4999]);
        struct iovec piece = {rows[1] + 1, 8};
        struct msghdr message;
        memset(&message, 0, sizeof message);
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        CHECK(sendmsg(ends[0], &message, 0) == 8);
        piece.iov_base = rows[2];
        CHECK(recvmsg(ends[1], &message, 0) == 8 && rows[2][1] == rows[1][2] && message.msg_flags == 0);
        close(ends[0]);
        close(ends[1]);
    }
    free(rows);
}

/* A child is no host. It has the memory of one machine, and none between machines. */
static void children(void) {
    int status;
    char *text = (char *)forebay_alloc((size_t)count, 0);
    text = text ? text + rank : text;
    CHECK(text != NULL);
    pid_t child = fork();
    if (child == 0) {
        FAILS(forebay_barrier() == -1, "forked");
        FAILS(forebay_leave() == -1, "forked");
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    child = fork();
    if (child == 0) {
        *(volatile char *)text = 1;
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (!have_one_memory())
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    else
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0 && *(volatile char *)text == 1);
}

static volatile pid_t waiter;

static void *wait_for_lock(void *argument) {
    (void)argument;
    waiter = gettid();
    CHECK(forebay_lock(100 + (uint32_t)rank) == 0);
    return NULL;
}

/* Whether the thread sleeps on a futex, which since it told its number it does in the call alone. */
static int is_asleep(pid_t thread) {
    char path[64], text[16] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    close(file);
    return length > 0 && strncmp(text, "202 ", 4) == 0;
}

/* A thread that is in a call keeps the host from leaving. */
static void leaving(void) {
    pthread_t thread;
    const uint32_t lock = 100 + (uint32_t)rank;
    CHECK(forebay_lock(lock) == 0);
    CHECK(pthread_create(&thread, NULL, wait_for_lock, NULL) == 0);
    for (int i = 0; i < 60000 && !(waiter && is_asleep(waiter)); i++) usleep(1000);
    FAILS(forebay_leave() == -1, "in a call");
    CHECK(forebay_unlock(lock) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(forebay_unlock(lock) == 0);
    CHECK(forebay_leave() == 0);
    FAILS(forebay_leave() == -1, "not a host");
    FAILS(forebay_barrier() == -1, "not a host");
    FAILS(forebay_join(0, 0) == -1, "joined already");
}

int main(int arguments, char **argument) {
    before_joining();
    if (arguments > 1 && strcmp(argument[1], "refused") == 0) {
        FAILS(forebay_join(0, 257) == -1, "1 to 256 views");
        FAILS(forebay_join((size_t)1 << 60, 1) == -1, "bytes");
        return 0;
    }
    CHECK(forebay_join(32 << 20, 8) == 0);
    FAILS(forebay_join(0, 0) == -1, "joined already");
    rank = forebay_rank();
    count = forebay_hosts();
    CHECK(rank >= 0 && rank < count);
    blocks();
    rows();
    locks();
    atomics();
    waits();
    teams();
    many();
    alone();
    pointers();
    figures();
    system_calls();
    children();
    leaving();
    return 0;
}
