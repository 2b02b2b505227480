/* Appends through io_uring with raw system calls; the rings are shared memory. */
#include "hostile.h"
#include <linux/io_uring.h>

int main(int argc, char **argv)
{
    (void)argc;
    struct io_uring_params p = {0};
    int ring = syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0) {
        say("io_uring", ring);
        return finish();
    }
    size_t size = p.sq_off.array + p.sq_entries * 4 + p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    char *sq = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *cq = p.features & IORING_FEAT_SINGLE_MMAP
                   ? sq
                   : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entries =
        mmap(NULL, p.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || entries == MAP_FAILED)
        die("mmap");
    int out = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    unsigned mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    for (int round = 0; round < ROUNDS; round++) {
        char text[32];
        cold_reads(argv[1]);
        snprintf(text, sizeof text, "round %d %08x\n", round, checksum);
        effect();
        unsigned tail = __atomic_load_n((unsigned *)(sq + p.sq_off.tail), __ATOMIC_ACQUIRE);
        struct io_uring_sqe *entry = entries + (tail & mask);
        memset(entry, 0, sizeof *entry);
        entry->opcode = IORING_OP_WRITE;
        entry->fd = out;
        entry->addr = (unsigned long)text;
        entry->len = strlen(text);
        entry->off = -1;
        ((unsigned *)(sq + p.sq_off.array))[tail & mask] = tail & mask;
        __atomic_store_n((unsigned *)(sq + p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
        say("enter", syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
        unsigned head = *(unsigned *)(cq + p.cq_off.head);
        say("completed", __atomic_load_n((unsigned *)(cq + p.cq_off.tail), __ATOMIC_ACQUIRE) - head);
        struct io_uring_cqe *done =
            (struct io_uring_cqe *)(cq + p.cq_off.cqes) + (head & *(unsigned *)(cq + p.cq_off.ring_mask));
        say("wrote", done->res);
        __atomic_store_n((unsigned *)(cq + p.cq_off.head), head + 1, __ATOMIC_RELEASE);
    }
    return finish();
}
