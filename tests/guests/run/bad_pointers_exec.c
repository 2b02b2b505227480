/* Executes programs by pointers that lead nowhere. */
#include "hostile.h"

#define NOWHERE 0x123456789000

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    char *page = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + BLOCK, BLOCK);
    memset(page, 'a', BLOCK);
    say("path", execve((char *)NOWHERE, argv, environ));
    say("path of the kernel's", execve((char *)0xffffffff80000000, argv, environ));
    say("path without an end", execve(page, argv, environ));
    say("path of none", execve((char *)8, argv, environ));
    say("arguments", execve("/bin/true", (char **)NOWHERE, environ));
    say("environment", execve("/bin/true", argv, (char **)NOWHERE));
    cold_reads(argv[1]);
    return finish();
}
