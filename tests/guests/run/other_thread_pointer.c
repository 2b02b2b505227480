/* Goes through a mapped file while the register that libc has its thread pointer in is zero. */
#include "hostile.h"
#include <asm/prctl.h>
#include <sys/auxv.h>

enum { BYTES = 32 << 20, HAS_FSGSBASE = 2 };

int main(int argc, char **argv)
{
    (void)argc;
    if (!(getauxval(AT_HWCAP2) & HAS_FSGSBASE))
        return finish();
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, BYTES);
    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    unsigned pages = st.st_size / BLOCK;
    unsigned char *data = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    madvise(data, st.st_size, MADV_RANDOM);
    unsigned long pointer, sum = 0;
    syscall(SYS_arch_prctl, ARCH_GET_FS, &pointer);
    for (unsigned round = 0; round < pages / 4; round++) {
        __asm__ volatile("wrfsbase %0" ::"r"(0ul) : "memory");
        for (unsigned i = 0; i < 4; i++)
            sum += data[((4 * round + i) * 769u % pages) * (unsigned long)BLOCK];
        __asm__ volatile("wrfsbase %0" ::"r"(pointer) : "memory");
    }
    say("sum", sum);
    return finish();
}
