/* Makes its calls through syscall() and through its own instruction, past every wrapper of the library. */
#include "hostile.h"

static long raw(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

int main(int argc, char **argv)
{
    (void)argc;
    unsigned char bytes[BLOCK];
    for (int round = 0; round < ROUNDS; round++) {
        int fd = raw(SYS_open, (long)argv[1], O_RDONLY, 0, 0);
        struct stat st;
        raw(SYS_fstat, fd, (long)&st, 0, 0);
        for (int i = 0; i < READS; i++) {
            off_t at = (off_t)(block_next++ * 769u % (st.st_size / BLOCK)) * BLOCK;
            digest(bytes, i & 1 ? raw(SYS_pread64, fd, (long)bytes, BLOCK, at) : syscall(SYS_pread64, fd, bytes, BLOCK, at));
        }
        raw(SYS_close, fd, 0, 0, 0);
        cold_reads(argv[1]);
        effect();
        int out = raw(SYS_openat, AT_FDCWD, (long)"raw.log", O_WRONLY | O_CREAT | O_APPEND, 0644);
        long wrote = raw(SYS_write, out, (long)"raw\n", 4, 0);
        dprintf(1, "wrote %ld to %d\n", wrote, out);
        syscall(SYS_close, out);
    }
    return finish();
}
