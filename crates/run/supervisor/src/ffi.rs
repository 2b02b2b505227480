//! The calls for which nobody has a safe wrapper: what was inherited before `main`, the shared mapping, starting a
//! program exactly as it would have started without us, waiting for signals, and what the kernel is asked whether it can.
//!
//! # Safety
//! Each function here is safe to call: it takes references, owned descriptors and nul-terminated strings, and checks
//! the rest itself.
#![allow(unsafe_code)]

mod fault_signals;
mod own_code;

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    io, mem,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering},
    time::Duration,
};

use forebay_protocol::layout::{CHANNEL_BYTES, Header, LEASES_NONE, LEASES_SOME, SLOTS, Slot, slot_offset};

pub use self::{
    fault_signals::{has_fault_signals, open_fault_signals, signal_one_in},
    own_code::{OwnCode, expect},
};

/// Rust's runtime ignores SIGPIPE and fills closed standard descriptors before `main`; the program must find both as
/// they were, so they are looked at before the runtime starts.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

static CAPTURED: AtomicBool = AtomicBool::new(false);
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static STANDARD_CLOSED: AtomicU8 = AtomicU8::new(0);
static START_TICKS: AtomicU64 = AtomicU64::new(0);
static START_NANOSECONDS: AtomicU64 = AtomicU64::new(0);

extern "C" fn before_main() {
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    let mut closed = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD reads a flag of a descriptor and takes no pointer.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            closed |= 1 << fd;
        }
    }
    STANDARD_CLOSED.store(closed, Ordering::Relaxed);
    let (ticks, nanoseconds) = simultaneous();
    START_TICKS.store(ticks, Ordering::Relaxed);
    START_NANOSECONDS.store(nanoseconds, Ordering::Relaxed);
    CAPTURED.store(true, Ordering::Relaxed);
}

fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all zeros is a valid sigaction, and the call only fills it.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The time-stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads a register.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// CLOCK_MONOTONIC_RAW, in nanoseconds.
fn raw_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The counter and the clock at the same moment: the least interrupted of three attempts.
pub fn simultaneous() -> (u64, u64) {
    let attempt = || {
        let before = ticks();
        let nanoseconds = raw_nanoseconds();
        let after = ticks();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), nanoseconds)
    };
    let (_, ticks, nanoseconds) = (0..3).map(|_| attempt()).min_by_key(|one| one.0).expect("three attempts");
    (ticks, nanoseconds)
}

/// [`simultaneous`] as it was when the process started.
pub fn simultaneous_at_start() -> Option<(u64, u64)> {
    CAPTURED
        .load(Ordering::Relaxed)
        .then(|| (START_TICKS.load(Ordering::Relaxed), START_NANOSECONDS.load(Ordering::Relaxed)))
}

/// The channel's memory object, mapped shared for the rest of the process's life.
#[derive(Clone, Copy)]
pub struct Mapping(*mut c_void);

// SAFETY: the mapping is never unmapped and all that is reached through it is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first [`CHANNEL_BYTES`] of `memory`, which must be a sealed memory object of that size.
    ///
    /// # Errors
    /// `memory` is smaller, can shrink, or cannot be mapped.
    pub fn new(memory: BorrowedFd<'_>) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(memory)?;
        let size = rustix::fs::fstat(memory)?.st_size;
        if !seals.contains(rustix::fs::SealFlags::SHRINK) || usize::try_from(size) != Ok(CHANNEL_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                CHANNEL_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                memory.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(address)) }
    }

    /// The header.
    pub fn header(self) -> &'static Header {
        // SAFETY: the mapping starts with room for a header, is page aligned, cannot shrink (sealed), is never
        // unmapped, and every field is an atomic for which any bytes are valid.
        unsafe { &*self.0.cast::<Header>() }
    }

    /// Slot `index`.
    ///
    /// # Panics
    /// `index` is not below [`SLOTS`].
    pub fn slot(self, index: usize) -> &'static Slot {
        assert!(index < SLOTS);
        // SAFETY: as for the header; the offset is a whole number of pages inside the mapping.
        unsafe { &*self.0.byte_add(slot_offset(index)).cast::<Slot>() }
    }
}

/// Signals blocked in this thread until it is dropped: they wait for [`next_signal`]. The signals that a fault of our
/// own would raise stay as they are. Keeps what the program shall inherit.
pub struct SignalsBlocked {
    inherited: libc::sigset_t,
    sigchld_ignored: bool,
}

impl SignalsBlocked {
    /// Blocks the signals.
    pub fn new() -> Self {
        let sigchld_ignored = is_ignored(libc::SIGCHLD);
        // SAFETY: all zeros is a valid sigset_t and sigaction; the calls read and fill these only.
        unsafe {
            let mut inherited: libc::sigset_t = mem::zeroed();
            libc::sigprocmask(libc::SIG_SETMASK, &waited_for(), &mut inherited);
            if sigchld_ignored {
                // Or the kernel would throw away the exit status that we mirror.
                let default: libc::sigaction = mem::zeroed();
                libc::sigaction(libc::SIGCHLD, &default, ptr::null_mut());
            }
            Self { inherited, sigchld_ignored }
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that sigprocmask gave.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.inherited, ptr::null_mut()) };
    }
}

fn waited_for() -> libc::sigset_t {
    // SAFETY: all zeros is a valid sigset_t; the calls change it only.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut set);
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS] {
            libc::sigdelset(&mut set, fault);
        }
        set
    }
}

/// A signal that reached this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub number: i32,
    /// Sent by the kernel, for instance for a key of the terminal, and not by a process.
    pub by_kernel: bool,
    /// Process that sent it, if one did.
    pub sender: i32,
    /// Value sent along by sigqueue(3).
    pub value: Option<usize>,
}

/// The next blocked signal, at the latest after `timeout`; for ever without one.
pub fn next_signal(timeout: Option<Duration>) -> Option<Arrived> {
    let limit = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    // SAFETY: all zeros is a valid siginfo_t; `limit` outlives the call; the fields read are those that any signal
    // with a sender has, and zero otherwise.
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        let number = libc::sigtimedwait(&waited_for(), &mut info, limit);
        (number > 0).then(|| Arrived {
            number,
            by_kernel: info.si_code > 0,
            sender: if info.si_code > 0 { 0 } else { info.si_pid() },
            value: (info.si_code == libc::SI_QUEUE).then(|| info.si_value().sival_ptr as usize),
        })
    }
}

/// Sends `signal` to `pid`, with the value of sigqueue(3) where there is one. A process that is gone gets none.
pub fn send_signal(pid: i32, signal: i32, value: Option<usize>) {
    // SAFETY: neither call takes a pointer that it follows.
    unsafe {
        match value {
            Some(value) => libc::sigqueue(pid, signal, libc::sigval { sival_ptr: value as *mut c_void }),
            None => libc::kill(pid, signal),
        };
    }
}

/// Ends this process by `signal`, as the program that it stands for was ended, without a core file of its own. Returns
/// where that signal ends nobody.
pub fn end_by(signal: i32) {
    // SAFETY: all zeros is a valid sigset_t and sigaction; the calls read and fill these only. The default action leaves
    // no code of ours that could run in a handler.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        let default: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, &default, ptr::null_mut());
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        libc::raise(signal);
    }
}

/// How a child's state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// It ended with this status.
    Exited(u8),
    /// This signal ended it.
    Killed(i32),
    /// A signal stopped it, and it is stopped now.
    Stopped,
}

/// What became of child `pid`, without waiting; `None` where nothing changed.
///
/// # Errors
/// There is no such child.
pub fn child_state(pid: i32) -> io::Result<Option<ChildState>> {
    let mut status = 0;
    // SAFETY: the call fills `status`.
    let waited = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG | libc::WUNTRACED) };
    Ok(match waited {
        0 => None,
        -1 => return Err(io::Error::last_os_error()),
        _ if libc::WIFSTOPPED(status) => Some(ChildState::Stopped),
        _ if libc::WIFSIGNALED(status) => Some(ChildState::Killed(libc::WTERMSIG(status))),
        _ => Some(ChildState::Exited(libc::WEXITSTATUS(status) as u8)),
    })
}

/// Removes the remains of processes that were started by nobody here, and fell to this one when their parents had ended: where it
/// is the first of its namespace, or was told to adopt them. `pid`'s are left.
pub fn bury_orphans(pid: i32) {
    loop {
        // SAFETY: all zeros is a valid siginfo_t, which the call fills; it has a process id then.
        let ended = unsafe {
            let mut info: libc::siginfo_t = mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            if libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0 { info.si_pid() } else { 0 }
        };
        if ended == 0 || ended == pid {
            return;
        }
        // SAFETY: the call takes no pointer that it writes to.
        if unsafe { libc::waitpid(ended, ptr::null_mut(), libc::WNOHANG) } != ended {
            return;
        }
    }
}

/// The environment as the kernel passed it: order, duplicates and entries without `=` included.
pub fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: `environ` is null or a null-terminated array of strings; nothing in this program changes it.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(CStr::from_ptr(*entry).to_owned());
            entry = entry.add(1);
        }
    }
    entries
}

/// How long a child lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As it likes.
    Own,
    /// No longer than the thread that starts it.
    OfParent,
}

/// Starts `path` as a child, in the state that this process was started in: signal mask, ignored signals, closed
/// standard descriptors. Returns its process id once it runs the new program.
///
/// As posix_spawn(3) does, the child borrows our memory until then: nothing is copied, whatever our size.
///
/// # Errors
/// What clone(2) or execve(2) said.
pub fn start(
    path: &CStr,
    arguments: &[CString],
    environment: &[CString],
    inherited: &SignalsBlocked,
    life: Life,
) -> io::Result<i32> {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    let birth = Birth {
        path: path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        mask: inherited.inherited,
        sigpipe_ignored: SIGPIPE_IGNORED.load(Ordering::Relaxed) || !CAPTURED.load(Ordering::Relaxed),
        sigchld_ignored: inherited.sigchld_ignored,
        standard_closed: STANDARD_CLOSED.load(Ordering::Relaxed),
        dies_with_parent: life == Life::OfParent,
        errno: AtomicI32::new(0),
    };
    let mut stack = vec![0u128; CHILD_STACK_BYTES / size_of::<u128>()];
    // SAFETY: the child runs `become_program` on a stack of its own, aligned and larger than it needs; CLONE_VFORK
    // keeps this thread, and so `birth` and `stack`, in place until the child has called execve or _exit. All
    // signals with handlers of ours are faults, which the child does not raise.
    let pid = unsafe {
        libc::clone(
            become_program,
            stack.as_mut_ptr_range().end.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            ptr::from_ref(&birth).cast_mut().cast(),
        )
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    match birth.errno.load(Ordering::Acquire) {
        0 => Ok(pid),
        errno => {
            // SAFETY: the child has called _exit; this only removes its remains.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// Becomes the program at `path`, with the environment and in the state that this process was started in. Returns where
/// that fails, with the reason.
pub fn become_other(path: &CStr, arguments: &[CString]) -> io::Error {
    let arguments: Vec<*const c_char> =
        arguments.iter().map(|argument| argument.as_ptr()).chain([ptr::null()]).collect();
    // SAFETY: all zeros is a valid sigaction; strings and array are terminated and outlive the call.
    unsafe {
        if !SIGPIPE_IGNORED.load(Ordering::Relaxed) && CAPTURED.load(Ordering::Relaxed) {
            let default: libc::sigaction = mem::zeroed();
            libc::sigaction(libc::SIGPIPE, &default, ptr::null_mut());
        }
        for fd in 0..3 {
            if STANDARD_CLOSED.load(Ordering::Relaxed) & 1 << fd != 0 {
                // What the runtime opened there.
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        libc::execv(path.as_ptr(), arguments.as_ptr());
    }
    io::Error::last_os_error()
}

/// The path that this program was started by, where the kernel tells it: without `/proc`, too.
pub fn executed_as() -> Option<PathBuf> {
    // SAFETY: the kernel's string stays where it is, at the end of the stack.
    unsafe {
        let path = libc::getauxval(libc::AT_EXECFN) as *const c_char;
        (!path.is_null()).then(|| PathBuf::from(OsStr::from_bytes(CStr::from_ptr(path).to_bytes())))
    }
}

const CHILD_STACK_BYTES: usize = 32 << 10;

/// What the child needs, prepared so that it neither allocates nor locks.
struct Birth {
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    mask: libc::sigset_t,
    sigpipe_ignored: bool,
    sigchld_ignored: bool,
    standard_closed: u8,
    dies_with_parent: bool,
    errno: AtomicI32,
}

extern "C" fn become_program(birth: *mut c_void) -> c_int {
    // SAFETY: the parent passes a Birth that stays until we are gone. The calls are async-signal-safe, and what they
    // change (dispositions, descriptors, mask) is the child's own: only memory is shared.
    unsafe {
        let birth = &*birth.cast::<Birth>();
        let mut action: libc::sigaction = mem::zeroed();
        if !birth.sigpipe_ignored {
            libc::sigaction(libc::SIGPIPE, &action, ptr::null_mut());
        }
        if birth.sigchld_ignored {
            action.sa_sigaction = libc::SIG_IGN;
            libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut());
        }
        for fd in 0..3 {
            if birth.standard_closed & 1 << fd != 0 {
                libc::close(fd);
            }
        }
        if birth.dies_with_parent {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &birth.mask, ptr::null_mut());
        libc::execve(birth.path, birth.arguments, birth.environment);
        birth.errno.store(*libc::__errno_location(), Ordering::Release);
        libc::_exit(127)
    }
}

/// Version of Landlock that the kernel offers; `None` where it is off (landlock(7)).
#[must_use]
pub fn landlock_version() -> Option<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: c_int = 1;
    // SAFETY: asked for the version, the call takes no attributes and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<c_void>(),
            0,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Whether this user may handle page faults of programs (userfaultfd(2), in user mode).
#[must_use]
pub fn has_userfaultfd() -> bool {
    const UFFD_USER_MODE_ONLY: c_int = 1;
    // SAFETY: the call takes no pointers; the descriptor is a new one.
    unsafe {
        let faults = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY);
        if faults >= 0 {
            drop(OwnedFd::from_raw_fd(faults as c_int));
        }
        faults >= 0
    }
}

/// Whether the kernel looks for pages of some kind in a page map (ioctl_pagemap_scan(2), Linux 6.7).
#[must_use]
pub fn has_pagemap_scan(pages: BorrowedFd<'_>) -> bool {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    const SWAPPED: u64 = 1 << 4;
    let mut found = [0u64; 3];
    // struct pm_scan_arg: size, flags, start, end, walk_end, vec, vec_len, max_pages, and four categories.
    let mut scan = [96, 0, 0, 4096, 0, found.as_mut_ptr() as u64, 1, 0, 0, SWAPPED, 0, SWAPPED];
    // SAFETY: the structure is as large as it says, and the array has room for the one region that it says.
    unsafe { libc::ioctl(pages.as_raw_fd(), PAGEMAP_SCAN, scan.as_mut_ptr()) >= 0 }
}

/// Starts a process that tells the header whether anybody holds a lease; its number.
///
/// The kernel lets its list of locks be read only after a grace period of all processors, in which the reader can
/// neither be interrupted nor killed. Nobody waits for this process.
///
/// # Errors
/// The system refuses a process.
pub fn start_looking_for_leases(header: &Header) -> io::Result<i32> {
    // SAFETY: without flags the call is a fork whose end is signalled to nobody. The child uses its own stack and calls
    // that are allowed after a fork of a process with threads, and ends.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        0 => look_for_leases(header),
        pid if pid > 0 => Ok(pid as i32),
        _ => Err(io::Error::last_os_error()),
    }
}

fn look_for_leases(header: &Header) -> ! {
    let mut list = [0u8; 4096];
    // SAFETY: the calls take numbers, a terminated path and a buffer of the length they are told.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        libc::setsid();
        let file = libc::open(c"/proc/locks".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = usize::try_from(libc::read(file, list.as_mut_ptr().cast(), list.len())).unwrap_or(0);
        let some = length == list.len() || list[..length].windows(5).any(|word| word == b"LEASE");
        header.leases.store(if some { LEASES_SOME } else { LEASES_NONE }, Ordering::Release);
        // Hints may have waited for that.
        header.doorbell.fetch_add(1, Ordering::SeqCst);
        libc::syscall(libc::SYS_futex, &raw const header.doorbell, libc::FUTEX_WAKE, 1);
        libc::_exit(0)
    }
}

/// Removes the remains of a process started by [`start_looking_for_leases`]; whether it has ended.
pub fn has_looked(pid: i32) -> bool {
    // SAFETY: the call takes no pointer that it writes to.
    unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL | libc::WNOHANG) != 0 }
}
