/* Puts itself into a strict seccomp filter after cold reads, as browsers' workers do, and reads on. */
#include "hostile.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define ALLOW(name) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(read), ALLOW(pread64), ALLOW(lseek), ALLOW(write), ALLOW(openat), ALLOW(close), ALLOW(fstat),
        ALLOW(newfstatat), ALLOW(exit_group), ALLOW(clock_gettime), ALLOW(rt_sigreturn),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    effect();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        die("seccomp");
    for (int round = 0; round < ROUNDS; round++)
        cold_reads(argv[1]);
    say("inside", 1);
    return finish();
}
