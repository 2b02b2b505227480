/* The same with the strictest kind: read, write and exit only. */
#include "hostile.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDONLY);
    unsigned char bytes[BLOCK];
    cold_reads(argv[1]);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
        die("seccomp");
    for (int i = 0; i < 300; i++)
        digest(bytes, read(fd, bytes, sizeof bytes));
    char text[] = "checksum 00000000\n";
    for (int i = 0; i < 8; i++)
        text[16 - i] = "0123456789abcdef"[checksum >> (4 * i) & 15];
    write(1, text, sizeof text - 1);
    syscall(SYS_exit, 0);
}
