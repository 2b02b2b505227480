/*
 * forebay.h: memory that processes share as if they were threads, each with plain loads and stores.
 *
 * Every process that `forebay share -n N -- PROGRAM` starts is a host, once it has joined; a program started alone is a
 * job of one host. What is allocated is at the same address on all hosts, so pointers into it can be shared too.
 * Link with -lforebay; see forebay_share(3).
 *
 * Consistency: hosts on one machine map one memory, and see stores as threads do. Between machines memory is sequentially
 * consistent. Order conflicting accesses by locks, barriers or atomic operations, which are atomic and sequentially
 * consistent for all threads of all hosts. The unit that is shared between machines is a minipage: a row or a chunk of rows as
 * allocated here, whatever else is on its page.
 *
 * Errors: functions that return int return 0 or a number on success, -1 on failure; those that return a pointer return
 * NULL. forebay_error() tells why. A host that is lost ends the job: calls that wait fail, and the process ends with
 * status 70 if it waits for memory that can never come.
 *
 * Threads: any thread may call any function at any time. The collective functions (forebay_rows, forebay_alloc,
 * forebay_free_together, forebay_barrier) are called by all hosts in the same order, each by one thread at a time. forebay_leave wants no other
 * thread in a call. None of them may be called in a signal handler.
 *
 * Forks: a child that a host forks is no host, and calls fail there. It has the memory of a job on one machine. Between
 * machines shared memory is not there.
 *
 * System calls: read, write, readv, send, recv, fread, fwrite and their relatives take shared memory; between machines this
 * library wraps them. forebay_share(3) lists them.
 */
#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How minipages are spread over the hosts at first: one of these, or the rank of the host that has all. */
enum {
    FOREBAY_BLOCKS = -1, /* neighbouring ones have the same host: of 10 and two hosts, the first 5 the first */
    FOREBAY_CYCLIC = -2, /* in turn */
    FOREBAY_COPIES = -3  /* in turn, and each host begins with a copy: for what is read by all */
};

/* What memory is wanted for. */
enum { FOREBAY_READ = 0, FOREBAY_WRITE = 1 };

/* A figure of this host. The name lives as long as the process. */
struct forebay_stat {
    const char *name;
    uint64_t value;
};

/*
 * Makes this process a host, and waits until all have called it. `bytes` is the size of the shared memory. 0 is as
 * large as need be: half of what is free on each machine, of which no more is taken than is allocated. `views` is how many
 * minipages can share a page (0: as many as need be; at most 256). forebay share's --size and --views take their places.
 * A process can join once. One thread.
 */
int forebay_join(size_t bytes, unsigned views);

/*
 * Waits until all hosts leave, and serves them meanwhile. Locks that this host has are given up. Shared memory must not be
 * used afterwards. To end without it is to be lost to the others. Fails, and changes nothing, while another thread is in a
 * call; once it has begun to leave the process is no host any more, even if it fails. One thread.
 */
int forebay_leave(void);

/* Which host this is, from 0; how many there are. Any thread. */
int forebay_rank(void);
int forebay_hosts(void);

/*
 * The share of host `rank` in `count` things: those from `*first` up to but not including `*end`, which are the rows that
 * begin at that host with FOREBAY_BLOCKS. Any thread.
 */
int forebay_block(int rank, size_t count, size_t *first, size_t *end);

/*
 * Allocates `rows` rows of `bytes` bytes each, all zero; `chunk` neighbouring rows are one minipage and follow each other
 * in memory (1: each row its own). Returns a table of `rows` pointers, one to each row, which is this process's own and can
 * be given to free(3); the rows stay:
 *
 *     double **grid = forebay_rows(1000, 64 * sizeof(double), 1, FOREBAY_BLOCKS);
 *     grid[i][j] = 1;
 *
 * Rows are aligned to 16 bytes where they begin a chunk. All hosts call it, with the same arguments, and go on when all
 * have. Collective.
 */
void *forebay_rows(size_t rows, size_t bytes, size_t chunk, int placement);

/*
 * Allocates `bytes` bytes, all zero, in a minipage of their own, and returns their address. Small ones share pages, as many on
 * each as there are views. Collective.
 */
void *forebay_alloc(size_t bytes, int placement);

/*
 * Frees what forebay_rows or forebay_alloc has allocated; `start` is its first byte, as in the first pointer of a table. All hosts call
 * it, and go on when all have. From then on no host may use the memory, and it is allocated again. Fails where no such allocation begins, or where it is free already. Collective.
 */
int forebay_free_together(void *start);

/* Stores at `bytes` how many bytes any such allocation can have. Any thread. */
int forebay_left(size_t *bytes);

/*
 * Allocates `bytes` bytes, all zero, in a minipage of their own, and returns their address; 16 divides it. One host calls this, at
 * any time, whatever the others do. The address is valid on every host that is told it. Frees what any host has allocated so: from
 * then on no host may use it, and it is allocated again. Freeing NULL does nothing. Fails where no such allocation begins, or where it
 * is free already. The memory for this is apart from that of forebay_rows and forebay_alloc, and as large. Stores at `bytes` how much
 * of it is left for this machine: what no machine uses, and what was freed here. Any thread.
 */
void *forebay_malloc(size_t bytes);
int forebay_free(void *start);
int forebay_malloc_left(size_t *bytes);

/*
 * Copies `count` rows of `bytes` bytes each to `to`, one behind the other, or from there to the rows. Between machines all rows
 * are asked for together. Any thread.
 */
int forebay_gather(const void *const *rows, size_t count, size_t bytes, void *to);
int forebay_scatter(void *const *rows, size_t count, size_t bytes, const void *from);

/*
 * Teams: some hosts, which reduce, broadcast and gather values together. NULL is the team of all hosts, which all call the first
 * time. One thread of each member calls a team at a time.
 *
 * Makes a team of these hosts, in this order; all hosts of the job call it, members and others. Collective. Frees what
 * this process has of it. Tells the place of this host in a team, and how many members there are.
 */
void *forebay_team_create(const int *ranks, size_t count);
void forebay_team_free(void *team);
int forebay_team_rank(const void *team);
int forebay_team_hosts(const void *team);

/* Types of numbers. */
enum {
    FOREBAY_INT8 = 0,
    FOREBAY_UINT8 = 1,
    FOREBAY_INT16 = 2,
    FOREBAY_UINT16 = 3,
    FOREBAY_INT32 = 4,
    FOREBAY_UINT32 = 5,
    FOREBAY_INT64 = 6,
    FOREBAY_UINT64 = 7,
    FOREBAY_FLOAT = 8,
    FOREBAY_DOUBLE = 9
};

/*
 * What becomes of two numbers; the last three, of bits, not of FOREBAY_FLOAT and FOREBAY_DOUBLE. The smaller and the larger one
 * of two are NaN if one of them is.
 */
enum {
    FOREBAY_SUM = 0,
    FOREBAY_PRODUCT = 1,
    FOREBAY_MIN = 2,
    FOREBAY_MAX = 3,
    FOREBAY_BITS_AND = 4,
    FOREBAY_BITS_OR = 5,
    FOREBAY_BITS_XOR = 6
};

/*
 * All members call these with the same arguments, but for the values. `root` is the place of a member in the team.
 *
 * Waits until all have called it. Replaces `count` numbers by the sums, say, of those of all members in their order: at the root,
 * or at all members. Replaces `bytes` bytes by those of the root. Fills `all` with `bytes` bytes of each member, in their order.
 */
int forebay_team_barrier(const void *team);
int forebay_reduce(const void *team, void *values, size_t count, int type, int reduction, int root);
int forebay_all_reduce(const void *team, void *values, size_t count, int type, int reduction);
int forebay_broadcast(const void *team, void *values, size_t bytes, int root);
int forebay_all_gather(const void *team, const void *mine, size_t bytes, void *all);

/* Waits until all hosts have come here. Collective. */
int forebay_barrier(void);

/*
 * Waits until no thread of any host has lock number `lock`, and takes it; gives it up. A thread that has it and takes it
 * again waits for ever. Unlocking fails if no thread of this host has it. Any thread.
 *
 * forebay_trylock does not wait: it returns 1 if it took the lock, 0 if a thread has it. forebay_lock_recursive lets a
 * thread that took the lock by it take the lock once more; the thread unlocks as often.
 */
int forebay_lock(uint32_t lock);
int forebay_trylock(uint32_t lock);
int forebay_lock_recursive(uint32_t lock);
int forebay_unlock(uint32_t lock);

/*
 * What threads of all hosts wait with. Each is 8 bytes of shared memory at a multiple of 8; one of zeros is ready for use, and
 * has no units. Between machines those that different hosts use belong in allocations of their own. Any thread.
 */
typedef struct { uint64_t word; } forebay_semaphore;
typedef struct { uint64_t word; } forebay_condition;
typedef struct { uint64_t word; } forebay_rwlock;

/* Adds units; waits until there is one, and takes it; takes one without waiting: 1 if there was one, else 0. */
int forebay_semaphore_post(forebay_semaphore *semaphore, uint32_t units);
int forebay_semaphore_wait(forebay_semaphore *semaphore);
int forebay_semaphore_trywait(forebay_semaphore *semaphore);

/*
 * Gives up lock number `lock`, which this thread has, waits until it is notified, and takes the lock again. Look at what is
 * waited for again afterwards. Notifies the thread that has waited longest, or all that wait.
 */
int forebay_condition_wait(forebay_condition *condition, uint32_t lock);
int forebay_condition_signal(forebay_condition *condition);
int forebay_condition_broadcast(forebay_condition *condition);

/*
 * Takes a lock that several threads have to read or one has to write; without waiting: 1 if taken, else 0; gives it up. A thread
 * that waits to write goes before those that come later to read.
 */
int forebay_rwlock_read(forebay_rwlock *lock);
int forebay_rwlock_write(forebay_rwlock *lock);
int forebay_rwlock_tryread(forebay_rwlock *lock);
int forebay_rwlock_trywrite(forebay_rwlock *lock);
int forebay_rwlock_unlock(forebay_rwlock *lock);

/* How a word is compared with a number. */
enum {
    FOREBAY_EQUAL = 0,
    FOREBAY_NOT_EQUAL = 1,
    FOREBAY_LESS = 2,
    FOREBAY_LESS_OR_EQUAL = 3,
    FOREBAY_GREATER = 4,
    FOREBAY_GREATER_OR_EQUAL = 5
};

/*
 * Waits until the word of 1, 2, 4 or 8 bytes at `word`, a number with a sign, compares so with `number`, whichever thread
 * stores it and how. `number` may be one that the word cannot be. A store of another machine wakes this thread at once. So does forebay_ring on this machine; without that
 * the thread looks once in a millisecond. Any thread.
 */
int forebay_wait_until(const void *word, size_t bytes, int comparison, int64_t number);
int forebay_ring(const void *word);

/*
 * Atomic operations on words of 1, 2, 4 and 8 bytes in shared memory, on one machine and between machines, sequentially
 * consistent: the type is that of the pointer. The last five return what was there. forebay_compare_exchange sets the
 * word to `wanted` if it is *expected, else *expected to the word, and returns whether it set the word. Atomics of C11 and C++
 * on shared memory do the same.
 */
#define forebay_load(word) __atomic_load_n((word), __ATOMIC_SEQ_CST)
#define forebay_store(word, value) __atomic_store_n((word), (value), __ATOMIC_SEQ_CST)
#define forebay_compare_exchange(word, expected, wanted) \
    __atomic_compare_exchange_n((word), (expected), (wanted), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define forebay_swap(word, value) __atomic_exchange_n((word), (value), __ATOMIC_SEQ_CST)
#define forebay_fetch_add(word, value) __atomic_fetch_add((word), (value), __ATOMIC_SEQ_CST)
#define forebay_fetch_and(word, value) __atomic_fetch_and((word), (value), __ATOMIC_SEQ_CST)
#define forebay_fetch_or(word, value) __atomic_fetch_or((word), (value), __ATOMIC_SEQ_CST)
#define forebay_fetch_xor(word, value) __atomic_fetch_xor((word), (value), __ATOMIC_SEQ_CST)

/* What forebay_atomic does. */
enum {
    FOREBAY_LOAD = 0,
    FOREBAY_STORE = 1,
    FOREBAY_COMPARE_EXCHANGE = 2,
    FOREBAY_ADD = 3,
    FOREBAY_AND = 4,
    FOREBAY_OR = 5,
    FOREBAY_XOR = 6
};

/*
 * The same for words of 16 bytes too, and for other languages: does `operation` with the word of 1, 2, 4, 8 or 16 bytes at
 * `word`, at a multiple of that. `value` points to as many bytes, and may be NULL to load. What was there is stored at `before`,
 * which may be NULL but to load and to compare: a comparison wants there what the word should be, and returns 1 if it set the
 * word, else 0. Fails for 16 bytes if this processor has no such operations. Any thread.
 */
int forebay_atomic(void *word, size_t bytes, int operation, const void *value, void *before);

/*
 * The following want `bytes` bytes from `start` on, within a row, a chunk or an allocation, and act on whole minipages.
 * Any thread.
 *
 * On one machine there is nothing to fetch. Between machines forebay_prefetch asks for them, to be read or written soon, and
 * does not wait. forebay_push sends them to all hosts,
 * which can read them then without waiting. forebay_touch waits until this host may read or write them, and changes
 * nothing. What was touched stays until another host wants it.
 */
int forebay_prefetch(const void *start, size_t bytes, int access);
int forebay_push(const void *start, size_t bytes);
int forebay_touch(const void *start, size_t bytes, int access);

/*
 * Fills in up to `room` figures of this host (faults, requests, messages) since this was last called, and returns how
 * many there are. With room 0 it only tells that, and `stats` may be NULL. Any thread.
 */
int forebay_stats(struct forebay_stat *stats, int room);

/* Why the last call of this thread failed that did: a sentence, until the next one fails; "" if none has. Any thread. */
const char *forebay_error(void);

/*
 * Names of version 0.1: forebay_count is forebay_hosts, forebay_counts is forebay_stats, and struct forebay_count is struct
 * forebay_stat. Programs with these names are compiled and run as those with the others.
 */
struct forebay_count {
    const char *name;
    uint64_t value;
};
int forebay_count(void);
int forebay_counts(struct forebay_count *counts, int room);

#ifdef __cplusplus
}
#endif

#endif
