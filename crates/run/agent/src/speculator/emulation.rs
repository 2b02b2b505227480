//! All other calls of the speculating program.
//!
//! A call that touches only the speculator's own memory, or only returns information, is carried out. A call with an effect
//! outside is emulated: it does nothing and reports success. Any other call ends the speculator.

use forebay_protocol::layout::End;
use forebay_sigsafe::{call, errno, general as n, memory, sys};

use super::descriptors::Kind;
use super::told::Claim;
use super::{State, end, hints, memory as program_pages, opening, outside, paths, touch_program, waits};
use crate::call::Call;
use crate::{limits, trace};

const FUTEX_COMMANDS: u32 = !(n::FUTEX_PRIVATE_FLAG | n::FUTEX_CLOCK_REALTIME);
const SIGNAL_SET_BYTES: usize = 8;

/// # Safety
/// As [`super::call`].
pub unsafe fn call(state: &mut State, call: &Call) -> isize {
    let [a, b, c, d, ..] = call.arguments;
    // SAFETY: (all arms) the caller's; what is executed is private to the speculator, and the jail sees to it.
    unsafe {
        match call.number as u32 {
            n::__NR_munmap | n::__NR_mprotect | n::__NR_brk | n::__NR_mremap | n::__NR_madvise => {
                memory_call(state, call)
            }
            number if only_returns_information(number) => call.execute(),
            n::__NR_getrlimit => touch_program(state, || limits::call(call)),
            n::__NR_prlimit64 if c == 0 && a == 0 => touch_program(state, || limits::call(call)),
            n::__NR_getpid => state.original.process as isize,
            n::__NR_gettid => state.original.thread as isize,
            n::__NR_getppid => state.original.parent as isize,
            n::__NR_umask => 0o022,

            // Output: said to have been written.
            n::__NR_write | n::__NR_pwrite64 => written(state, a, c, call.number as u32 == n::__NR_write),
            n::__NR_writev | n::__NR_pwritev | n::__NR_pwritev2 => {
                let vectors = b as *const n::iovec;
                let lengths = || (0..c.min(64)).map(|at| (*vectors.add(at)).iov_len as usize).sum();
                let count = touch_program(state, lengths);
                written(state, a, count, call.number as u32 == n::__NR_writev)
            }
            n::__NR_sendto => written(state, a, c, true),
            n::__NR_poll | n::__NR_ppoll => waits::poll(state, call),
            n::__NR_select | n::__NR_pselect6 => waits::select(state, call),
            n::__NR_epoll_wait | n::__NR_epoll_pwait => waits::epoll(state, call),
            number if outside::makes_one(number, a) => outside::made(state),
            n::__NR_pipe | n::__NR_pipe2 => outside::made_two(state, a),
            n::__NR_socketpair => outside::made_two(state, d),
            n::__NR_connect => outside::connect(state, b, c),
            n::__NR_mkdir => made_directory(state, n::AT_FDCWD as usize, a),
            n::__NR_mkdirat => made_directory(state, a, b),
            n::__NR_unlink | n::__NR_rmdir => removed(state, n::AT_FDCWD as usize, a),
            n::__NR_unlinkat => removed(state, a, b),
            n::__NR_rename => renamed(state, [n::AT_FDCWD as usize, a], [n::AT_FDCWD as usize, b]),
            n::__NR_renameat | n::__NR_renameat2 => renamed(state, [a, b], [c, d]),
            n::__NR_ftruncate => truncated(state, a, b as u64),
            number if is_emulated_as_success(number) => 0,
            n::__NR_nanosleep => slept(state, a),
            n::__NR_clock_nanosleep if b as u32 & n::TIMER_ABSTIME == 0 => slept(state, c),
            n::__NR_fadvise64 => advised(state, a, b as u64, c as u64, d as u32),

            // Signals: said to be set; none but the speculator's own are ever handled.
            n::__NR_rt_sigaction => {
                if c != 0 {
                    touch_program(state, || memory::fill(c as *mut u8, 0, size_of::<n::kernel_sigaction>()));
                }
                0
            }
            n::__NR_rt_sigprocmask => {
                if c != 0 {
                    touch_program(state, || memory::fill(c as *mut u8, 0, SIGNAL_SET_BYTES));
                }
                0
            }

            // No such attribute, no terminal, no such system here.
            n::__NR_getxattr
            | n::__NR_lgetxattr
            | n::__NR_fgetxattr
            | n::__NR_listxattr
            | n::__NR_llistxattr
            | n::__NR_flistxattr => call::error(errno::EOPNOTSUPP),
            n::__NR_ioctl => call::error(errno::ENOTTY),
            n::__NR_fstatfs => {
                opening::upgrade(state, a, false);
                match state.descriptors.file(a) {
                    Some((_, file)) if file.real >= 0 => sys!(n::__NR_fstatfs, file.real, b),
                    _ => call::ENOSYS,
                }
            }
            n::__NR_statfs => call::ENOSYS,
            n::__NR_rseq | n::__NR_set_robust_list | n::__NR_membarrier => call::ENOSYS,
            n::__NR_futex => futex(state, a, b as u32 & FUTEX_COMMANDS, c as u32),

            n::__NR_exit | n::__NR_exit_group => end(state, End::Finished),
            number => {
                trace::tell(b"  ahead: not emulated", &[number.into()]);
                end(state, End::NotEmulated)
            }
        }
    }
}

/// The speculator is alone with its memory: it wakes no thread, and what it waits for does not come.
///
/// # Safety
/// As [`super::call`].
unsafe fn futex(state: &mut State, word: usize, command: u32, expected: u32) -> isize {
    match command {
        n::FUTEX_WAKE | n::FUTEX_WAKE_BITSET => 0,
        n::FUTEX_WAIT | n::FUTEX_WAIT_BITSET => {
            // SAFETY: the caller's; garbage ends the speculator.
            let found = touch_program(state, || unsafe { (word as *const u32).read_volatile() });
            if found == expected { end(state, End::Thread) } else { call::EAGAIN }
        }
        n::FUTEX_LOCK_PI | n::FUTEX_LOCK_PI2 => end(state, End::Thread),
        _ => end(state, End::NotEmulated),
    }
}

/// The longest sleep that a speculator passes over: that of a program that paces itself. During a longer one files may be
/// rewritten, and what is read before would be shown to the program after it, where the kernel keeps it without asking.
const SLEEP_NS_MAX: i64 = 1_000_000;

/// # Safety
/// As [`super::call`].
unsafe fn slept(state: &mut State, duration: usize) -> isize {
    // SAFETY: the caller's; garbage ends the speculator.
    let wanted =
        touch_program(state, || unsafe { (duration as *const n::__kernel_timespec).read_unaligned() });
    if wanted.tv_sec != 0 || wanted.tv_nsec > SLEEP_NS_MAX {
        end(state, End::NotEmulated);
    }
    0
}

/// # Safety
/// As [`super::call`].
unsafe fn made_directory(state: &mut State, directory: usize, path: usize) -> isize {
    // SAFETY: the caller's.
    let made = unsafe { paths::make(state, directory, path, Claim::Directory) };
    made.map_or(call::error(errno::EEXIST), |_| 0)
}

/// # Safety
/// As [`super::call`].
unsafe fn removed(state: &mut State, directory: usize, path: usize) -> isize {
    // SAFETY: the caller's.
    let _ = unsafe { paths::forget(state, directory, path) };
    0
}

/// # Safety
/// As [`super::call`].
unsafe fn renamed(state: &mut State, from: [usize; 2], to: [usize; 2]) -> isize {
    let ([from_directory, from], [to_directory, to]) = (from, to);
    // SAFETY: the caller's.
    if let Some(claim) = unsafe { paths::forget(state, from_directory, from) } {
        // SAFETY: the caller's.
        let _ = unsafe { paths::tell(state, to_directory, to, claim) };
    }
    0
}

/// Calls for memory, which is the speculator's own.
///
/// # Safety
/// As [`super::call`].
unsafe fn memory_call(state: &mut State, call: &Call) -> isize {
    let [a, b, c, ..] = call.arguments;
    // SAFETY: (all arms) the caller's; the memory is private.
    unsafe {
        match call.number as u32 {
            n::__NR_munmap => {
                program_pages::unmapped(state, a, b);
                program_pages::private_pages::release(state, b);
                call.execute()
            }
            n::__NR_mprotect => call.execute(),
            n::__NR_brk => {
                let end = sys!(n::__NR_brk, 0) as usize;
                if a != 0 && a < end {
                    program_pages::private_pages::release(state, end - a);
                }
                program_pages::private_pages::account(state, a.saturating_sub(end));
                call.execute()
            }
            n::__NR_mremap => {
                program_pages::private_pages::account(state, c.saturating_sub(b));
                call.execute()
            }
            _ => advise(call, c as u32),
        }
    }
}

/// Calls that return information, and change nothing.
const fn only_returns_information(number: u32) -> bool {
    matches!(
        number,
        n::__NR_getuid
            | n::__NR_geteuid
            | n::__NR_getgid
            | n::__NR_getegid
            | n::__NR_getresuid
            | n::__NR_getresgid
            | n::__NR_getgroups
            | n::__NR_getcwd
            | n::__NR_uname
            | n::__NR_sysinfo
            | n::__NR_times
            | n::__NR_getrusage
            | n::__NR_clock_gettime
            | n::__NR_clock_getres
            | n::__NR_gettimeofday
            | n::__NR_time
            | n::__NR_getrandom
            | n::__NR_sched_getaffinity
            | n::__NR_sched_yield
            | n::__NR_getcpu
    )
}

/// Calls that do nothing and report success: their effect would be outside, or of no use.
const fn is_emulated_as_success(number: u32) -> bool {
    matches!(
        number,
        n::__NR_fallocate
            | n::__NR_fsync
            | n::__NR_fdatasync
            | n::__NR_sync_file_range
            | n::__NR_syncfs
            | n::__NR_sync
            | n::__NR_msync
            | n::__NR_truncate
            | n::__NR_link
            | n::__NR_linkat
            | n::__NR_symlink
            | n::__NR_symlinkat
            | n::__NR_chmod
            | n::__NR_fchmod
            | n::__NR_fchmodat
            | n::__NR_chown
            | n::__NR_fchown
            | n::__NR_lchown
            | n::__NR_fchownat
            | n::__NR_utime
            | n::__NR_utimes
            | n::__NR_utimensat
            | n::__NR_futimesat
            | n::__NR_setxattr
            | n::__NR_lsetxattr
            | n::__NR_fsetxattr
            | n::__NR_removexattr
            | n::__NR_flock
            | n::__NR_readahead
            | n::__NR_sigaltstack
            | n::__NR_setpriority
            | n::__NR_epoll_ctl
            | n::__NR_shutdown
            | n::__NR_setsockopt
    )
}

/// # Safety
/// As [`super::call`].
unsafe fn advise(call: &Call, advice: u32) -> isize {
    match advice {
        n::MADV_NORMAL
        | n::MADV_RANDOM
        | n::MADV_SEQUENTIAL
        | n::MADV_WILLNEED
        | n::MADV_DONTNEED
        | n::MADV_FREE
        | n::MADV_HUGEPAGE
        | n::MADV_NOHUGEPAGE => {
            // SAFETY: the caller's; private memory.
            unsafe { call.execute() }
        }
        _ => 0,
    }
}

fn written(state: &mut State, descriptor: usize, count: usize, advances: bool) -> isize {
    let Some((_, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    if advances {
        file.offset = file.offset.saturating_add(count as u64);
    }
    if file.kind == Kind::Sink {
        file.size = file.size.max(file.offset);
    }
    count as isize
}

fn truncated(state: &mut State, descriptor: usize, size: u64) -> isize {
    let Some((_, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    if file.kind == Kind::Sink {
        file.size = size;
    }
    0
}

/// A program's own advice is a hint too.
fn advised(state: &mut State, descriptor: usize, offset: u64, length: u64, advice: u32) -> isize {
    let Some((_, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    let file = *file;
    if advice == n::POSIX_FADV_WILLNEED && file.real >= 0 {
        hints::make_room(state, file.device);
        super::kernel::will_need(file.real as isize, offset, length.min(128 << 10));
    }
    0
}
