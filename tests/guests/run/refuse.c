/* refuse NAME[,NAME...] PROGRAM ARG...: runs a program in a kernel where the named features do not exist. */
#include "hostile.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#define PAGEMAP_SCAN 0xc0606610

static const struct feature {
    const char *name;
    int error;
    int calls[6];
} features[] = {
    {"seccomp", EINVAL, {SYS_seccomp, -SYS_prctl, -1}},
    {"landlock", ENOSYS, {SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self, -1}},
    {"perf_event_open", EACCES, {SYS_perf_event_open, -1}},
    {"userfaultfd", EPERM, {SYS_userfaultfd, -1}},
    {"preadv2", ENOSYS, {SYS_preadv2, -1}},
    {"nowait", EOPNOTSUPP, {SYS_preadv2, -1}},
    {"openat2", ENOSYS, {SYS_openat2, -1}},
    {"cachestat", ENOSYS, {SYS_cachestat, -1}},
    {"memfd_create", ENOSYS, {SYS_memfd_create, -1}},
    {"setsid", EPERM, {SYS_setsid, -1}},
    {"sched_setscheduler", EPERM, {SYS_sched_setscheduler, SYS_sched_setattr, -1}},
    {"clone3", ENOSYS, {SYS_clone3, -1}},
    {"pidfd_open", ENOSYS, {SYS_pidfd_open, -1}},
    {"close_range", ENOSYS, {SYS_close_range, -1}},
    {"statx", ENOSYS, {SYS_statx, -1}},
    {"fadvise", ENOSYS, {SYS_fadvise64, SYS_readahead, -1}},
    {"mlock", EPERM, {SYS_mlock, SYS_mlock2, SYS_mlockall, -1}},
    {"process_vm", EPERM, {SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_process_madvise, -1}},
    {"rseq", ENOSYS, {SYS_rseq, -1}},
    {"limits", EPERM, {SYS_prlimit64, SYS_getrlimit, SYS_setrlimit, -1}},
    {"mprotect_exec", EACCES, {-SYS_mprotect, -1}},
    {"pagemap_scan", ENOTTY, {-SYS_ioctl, -1}},
    /* As container engines refuse what they do not know. */
    {"newer_calls", EPERM, {SYS_faccessat2, SYS_openat2, SYS_pidfd_open, SYS_close_range, SYS_cachestat, -1}},
    /* No new processes: from here on only threads can be made. */
    {"fork", EAGAIN, {-SYS_clone, SYS_fork, SYS_vfork, SYS_clone3, -1}},
};

int main(int argc, char **argv)
{
    if (argc < 3) {
        dprintf(2, "refuse NAME[,NAME...] PROGRAM ARG...\n");
        return 2;
    }
    struct sock_filter code[256];
    int n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *name = strtok(strdup(argv[1]), ","); name; name = strtok(NULL, ",")) {
        const struct feature *found = NULL;
        for (unsigned i = 0; i < sizeof features / sizeof *features; i++)
            if (!strcmp(features[i].name, name))
                found = &features[i];
        if (!found) {
            dprintf(2, "refuse: no feature is called %s\n", name);
            return 2;
        }
        for (const int *call = found->calls; *call != -1; call++) {
            unsigned refusal = SECCOMP_RET_ERRNO | found->error;
            if (*call >= 0) {
                code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *call, 0, 1);
                code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refusal);
                continue;
            }
            /* A negative number is a call of which only some argument is refused. */
            unsigned argument = *call == -SYS_mprotect ? 2 : *call == -SYS_ioctl ? 1 : 0;
            unsigned offset = offsetof(struct seccomp_data, args) + 8 * argument;
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, -*call, 0, 4);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
            if (*call == -SYS_prctl)
                code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1);
            else if (*call == -SYS_ioctl)
                code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PAGEMAP_SCAN, 0, 1);
            else if (*call == -SYS_mprotect)
                code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
            else
                code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x10000 /* CLONE_THREAD */, 1, 0);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refusal);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
        }
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        die("refuse: seccomp");
    execvp(argv[2], argv + 2);
    die(argv[2]);
}
