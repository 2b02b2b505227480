//! Which system calls the original looks at, and how.

use forebay_sigsafe::general as n;

/// What the original does with a call besides letting it through.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Nothing.
    Pass = 0,
    /// May stall on data of a descriptor (first argument).
    Read,
    /// May stall on data of the descriptor in the second argument (`sendfile`).
    ReadSecond,
    /// May stall on looking a path up; the path is the first argument.
    Path,
    /// As `Path`, and gives a descriptor.
    PathOpens,
    /// May stall on looking a path up; the path is the second argument.
    PathAt,
    /// As `PathAt`, and gives a descriptor.
    PathAtOpens,
    /// Moves the offset of a descriptor.
    Seek,
    /// Changes the working directory, or the root directory.
    Folder,
    /// Gives a descriptor.
    Opens,
    /// Copies the process.
    Fork,
    /// Replaces the program.
    Execute,
    /// Replaces the program, path relative to a descriptor.
    ExecuteAt,
    /// Ends the program.
    Exit,
    /// Locks that belong to an open file rather than to the process; memory whose users the system counts. A copy of the
    /// process would show in both.
    Lock,
    /// Descriptor control, which can duplicate and lock.
    Control,
    /// May confine the process to some system calls.
    Confine,
    /// May make copies of the process visible to the program, or put its children elsewhere.
    Visibility,
    /// Sets what a signal does, where its handler runs, or when.
    Signal,
    /// Gives memory, takes it back, or says what of it children have.
    Memory,
    /// A thread of libc's makes it when it starts.
    Thread,
    /// Sets or tells a limit of what the process may have.
    Limit,
}

/// Numbers below this have a class of their own.
pub const NUMBERS: usize = 512;

/// The class of each number.
pub static CLASSES: [Class; NUMBERS] = {
    let mut classes = [Class::Pass; NUMBERS];
    let table: [(u32, Class); 61] = [
        (n::__NR_read, Class::Read),
        (n::__NR_pread64, Class::Read),
        (n::__NR_readv, Class::Read),
        (n::__NR_preadv, Class::Read),
        (n::__NR_preadv2, Class::Read),
        (n::__NR_getdents, Class::Read),
        (n::__NR_getdents64, Class::Read),
        (n::__NR_copy_file_range, Class::Read),
        (n::__NR_sendfile, Class::ReadSecond),
        (n::__NR_stat, Class::Path),
        (n::__NR_lstat, Class::Path),
        (n::__NR_access, Class::Path),
        (n::__NR_readlink, Class::Path),
        (n::__NR_open, Class::PathOpens),
        (n::__NR_creat, Class::PathOpens),
        (n::__NR_newfstatat, Class::PathAt),
        (n::__NR_statx, Class::PathAt),
        (n::__NR_faccessat, Class::PathAt),
        (n::__NR_faccessat2, Class::PathAt),
        (n::__NR_readlinkat, Class::PathAt),
        (n::__NR_openat, Class::PathAtOpens),
        (n::__NR_openat2, Class::PathAtOpens),
        (n::__NR_lseek, Class::Seek),
        (n::__NR_chdir, Class::Folder),
        (n::__NR_fchdir, Class::Folder),
        (n::__NR_chroot, Class::Folder),
        (n::__NR_dup, Class::Opens),
        (n::__NR_dup2, Class::Opens),
        (n::__NR_dup3, Class::Opens),
        (n::__NR_socket, Class::Opens),
        (n::__NR_accept, Class::Opens),
        (n::__NR_accept4, Class::Opens),
        (n::__NR_epoll_create1, Class::Opens),
        (n::__NR_memfd_create, Class::Opens),
        (n::__NR_clone, Class::Fork),
        (n::__NR_execve, Class::Execute),
        (n::__NR_execveat, Class::ExecuteAt),
        (n::__NR_exit_group, Class::Exit),
        (n::__NR_flock, Class::Lock),
        (n::__NR_shmat, Class::Lock),
        (n::__NR_shmdt, Class::Lock),
        (n::__NR_fcntl, Class::Control),
        (n::__NR_prctl, Class::Confine),
        (n::__NR_seccomp, Class::Confine),
        (n::__NR_ioctl, Class::Visibility),
        (n::__NR_fanotify_init, Class::Visibility),
        (n::__NR_inotify_add_watch, Class::Visibility),
        (n::__NR_unshare, Class::Visibility),
        (n::__NR_setns, Class::Visibility),
        (n::__NR_mmap, Class::Memory),
        (n::__NR_mremap, Class::Memory),
        (n::__NR_brk, Class::Memory),
        (n::__NR_munmap, Class::Memory),
        (n::__NR_madvise, Class::Memory),
        (n::__NR_rt_sigaction, Class::Signal),
        (n::__NR_rt_sigprocmask, Class::Signal),
        (n::__NR_sigaltstack, Class::Signal),
        (n::__NR_rseq, Class::Thread),
        (n::__NR_setrlimit, Class::Limit),
        (n::__NR_getrlimit, Class::Limit),
        (n::__NR_prlimit64, Class::Limit),
    ];
    let mut index = 0;
    while index < table.len() {
        let (number, class) = table[index];
        classes[number as usize] = class;
        index += 1;
    }
    classes
};

/// Class of the call with this number.
#[inline(always)]
pub fn class(number: usize) -> Class {
    CLASSES.get(number).copied().unwrap_or(Class::Pass)
}
