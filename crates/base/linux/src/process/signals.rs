//! Signals: blocked, received, passed on.

use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::time::Duration;

use rustix::process::{getpid, getsid};

use super::inherited::is_ignored;

/// Signals blocked in this thread until it is dropped: they wait for [`next_signal`]. The signals that a fault of our
/// own would raise stay as they are. Keeps what the program shall inherit.
pub struct SignalsBlocked {
    pub(super) inherited: libc::sigset_t,
    pub(super) sigchld_ignored: bool,
}

impl SignalsBlocked {
    /// Blocks the signals.
    #[must_use]
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

impl SignalsBlocked {
    /// Blocks the signals for a process that waits for one of a child and for no other.
    #[must_use]
    pub fn but_for_children() -> Self {
        extern "C" fn nothing(_: libc::c_int) {}
        let blocked = Self::new();
        // SAFETY: all zeros is a valid sigaction; the handler does nothing.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut());
        }
        blocked
    }
}

/// The mask of a call that `signal` alone may interrupt.
pub(super) fn receive(signal: libc::c_int) -> libc::sigset_t {
    let mut set = waited_for();
    // SAFETY: the call changes the set only.
    unsafe { libc::sigdelset(&mut set, signal) };
    set
}

impl Default for SignalsBlocked {
    fn default() -> Self {
        Self::new()
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

/// Whether a signal that reached this process is meant for the program. The terminal sends its signals to the program
/// too. Limits and timers that the kernel enforces on this process are its own.
#[must_use]
pub fn is_for_program(arrived: &Arrived) -> bool {
    match arrived.number {
        libc::SIGCHLD => false,
        _ if !arrived.by_kernel => arrived.sender != getpid().as_raw_nonzero().get(),
        // Only the leader of a session gets the signal that its terminal is gone.
        libc::SIGHUP => getsid(None).is_ok_and(|leader| leader == getpid()),
        libc::SIGINT | libc::SIGQUIT | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU | libc::SIGCONT => false,
        libc::SIGWINCH | libc::SIGPIPE | libc::SIGXCPU | libc::SIGXFSZ => false,
        _ => true,
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
/// where the default action of that signal ends no process.
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
