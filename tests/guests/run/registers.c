/* Fills every register that a system call must not change, calls syscall(), and looks at them again, cold and
 * warm. Code inside the library relies on this, so whoever stands between it and the kernel must keep it. */
#include "hostile.h"

struct state {
    unsigned long general[6]; /* rbx rbp r12 r13 r14 r15 */
    unsigned long arguments[6]; /* rdi rsi rdx r10 r8 r9 as syscall() leaves them */
    unsigned char vectors[16][32];
    unsigned flags, control;
    unsigned short x87;
};

long observed_call(long fd, void *bytes, long at, struct state *before, struct state *after, int wide);

__asm__(".text\n"
        ".type observed_call, @function\n"
        "observed_call:\n"
        "  push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "  push %r8; push %r9; push %rcx\n"
        /* vectors from *before */
        "  test %r9d, %r9d\n"
        "  jz 1f\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "  vmovdqu 96+32*\\n(%rcx), %ymm\\n\n"
        ".endr\n"
        "  jmp 2f\n"
        "1:\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "  movdqu 96+32*\\n(%rcx), %xmm\\n\n"
        ".endr\n"
        "2:\n"
        "  mov %rdx, %r8\n"                          /* offset: fifth argument of syscall() */
        "  mov %rsi, %rdx\n"                         /* buffer */
        "  mov %rdi, %rsi\n"                         /* descriptor */
        "  mov $17, %edi\n"                          /* pread64 */
        "  mov $0x1111111111111111, %rbx\n"
        "  mov $0x2222222222222222, %rbp\n"
        "  mov $0x3333333333333333, %r12\n"
        "  mov $0x4444444444444444, %r13\n"
        "  mov $0x5555555555555555, %r14\n"
        "  mov $0x6666666666666666, %r15\n"
        "  mov $4096, %ecx\n"
        "  mov $0x7777777777777777, %r9\n"
        "  call syscall@plt\n"
        "  mov 8(%rsp), %rcx\n"                      /* wide */
        "  xchg %rax, 16(%rsp)\n"                    /* result against *after */
        "  mov %rbx, 0(%rax)\n"
        "  mov %rbp, 8(%rax)\n"
        "  mov %r12, 16(%rax)\n"
        "  mov %r13, 24(%rax)\n"
        "  mov %r14, 32(%rax)\n"
        "  mov %r15, 40(%rax)\n"
        "  mov %rdi, 48(%rax)\n"
        "  mov %rsi, 56(%rax)\n"
        "  mov %rdx, 64(%rax)\n"
        "  mov %r10, 72(%rax)\n"
        "  mov %r8, 80(%rax)\n"
        "  mov %r9, 88(%rax)\n"
        "  test %ecx, %ecx\n"
        "  jz 1f\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "  vmovdqu %ymm\\n, 96+32*\\n(%rax)\n"
        ".endr\n"
        "  vzeroupper\n"
        "  jmp 2f\n"
        "1:\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "  movdqu %xmm\\n, 96+32*\\n(%rax)\n"
        ".endr\n"
        "2:\n"
        "  pushf; pop %rcx\n"
        "  mov %ecx, 608(%rax)\n"
        "  stmxcsr 612(%rax)\n"
        "  fnstcw 616(%rax)\n"
        "  add $16, %rsp\n"
        "  pop %rax\n"
        "  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "  ret\n");

int main(int argc, char **argv)
{
    (void)argc;
    static unsigned char bytes[BLOCK];
    static struct state before, after;
    int wide = __builtin_cpu_supports("avx"), fd = open(argv[1], O_RDONLY), wrong = 0;
    for (unsigned i = 0; i < sizeof before.vectors; i++)
        ((unsigned char *)before.vectors)[i] = i * 37 + 11;
    unsigned rounded = 0x5f80, control; /* round up, flush to zero off: not what the library uses itself */
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    __asm__ volatile("ldmxcsr %0" : : "m"(rounded));
    unsigned short word = 0x0b7f;
    __asm__ volatile("fldcw %0" : : "m"(word));
    for (int i = 0; i < 400; i++) {
        long at = (long)(i % 200 * 769 % 2000) * BLOCK;
        memset(after.vectors, 0, sizeof after.vectors);
        long got = observed_call(fd, bytes, at, &before, &after, wide);
        wrong |= (got != BLOCK) << 0;
        for (int n = 0; n < 6; n++)
            wrong |= (after.general[n] != 0x1111111111111111ul * (n + 1)) << 1;
        wrong |= (after.arguments[0] != (unsigned long)fd || after.arguments[1] != (unsigned long)bytes) << 2;
        wrong |= (after.arguments[2] != BLOCK || after.arguments[3] != (unsigned long)at) << 3;
        wrong |= (after.arguments[4] != 0x7777777777777777ul) << 4;
        for (int n = 0; n < 16; n++)
            wrong |= memcmp(before.vectors[n], after.vectors[n], wide ? 32 : 16) ? 32 : 0;
        wrong |= (after.flags & 0x400) ? 64 : 0;
        wrong |= (after.control & 0xffc0) != (rounded & 0xffc0) ? 128 : 0;
        wrong |= after.x87 != word ? 256 : 0;
        digest(bytes, got);
    }
    __asm__ volatile("ldmxcsr %0" : : "m"(control));
    __asm__ volatile("fninit");
    say("wrong", wrong);
    return finish();
}
