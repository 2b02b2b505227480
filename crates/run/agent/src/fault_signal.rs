//! The signal of a page fault: whether a thread blocks it, and what room it needs.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use forebay_sigsafe::{general as n, sys};

pub const SIGNAL: u32 = n::SIGURG;
/// What the program's alternate stack must have, so that our signal fits besides a handler of the program's that runs
/// there (each has a frame of 3 KiB and more), and so that it fits where only handlers do that end the program.
const ROOM_BYTES_MIN: usize = 24 << 10;
const ROOM_ALONE_BYTES_MIN: usize = 8 << 10;
const SIGNALS: u32 = 64;
const SIG_IGNORE: usize = 1;

/// What `rt_sigaction` takes.
#[repr(C)]
pub struct Action {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: u64,
}

pub const NO_ACTION: Action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };

/// Some thread has asked to block the signal, or the program was started so.
static WAS_BLOCKED: AtomicBool = AtomicBool::new(false);

/// Whether a thread may have blocked the signal. Where none has, none was started so.
pub fn was_ever_blocked() -> bool {
    WAS_BLOCKED.load(Ordering::Relaxed)
}

/// Takes note of a thread that blocks the signal, if it does.
pub fn note_blocked(is_blocked: bool) {
    if is_blocked {
        WAS_BLOCKED.store(true, Ordering::Relaxed);
    }
}

/// Whether the calling thread blocks the signal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    No,
    /// libc does, for a moment.
    ByLibc,
    ByProgram,
}

impl Blocked {
    pub fn now() -> Self {
        let mut mask = u64::MAX;
        // SAFETY: the call writes to a local.
        let _ = unsafe { sys!(n::__NR_rt_sigprocmask, n::SIG_BLOCK, 0, &raw mut mask, 8) };
        Self::by(mask)
    }

    /// By the set of signals that is blocked. Where libc blocks all for itself, it gives the program no occasion to see one: its
    /// sets have signals that no program can block through it.
    pub const fn by(set: u64) -> Self {
        const OF_LIBC: u64 = bit(32) | bit(33);
        match (set & bit(SIGNAL) != 0, set & OF_LIBC == OF_LIBC) {
            (false, _) => Self::No,
            (true, true) => Self::ByLibc,
            (true, false) => Self::ByProgram,
        }
    }
}

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Whether the signal fits on an alternate stack of that size, whatever else runs there.
pub fn has_room(room: usize) -> bool {
    room >= ROOM_BYTES_MIN || (room >= ROOM_ALONE_BYTES_MIN && !handlers_return_to_stack())
}

/// Whether a handler of the program's runs on the alternate stack that may return: one of a signal that is not a fault.
fn handlers_return_to_stack() -> bool {
    (1..=SIGNALS).any(|signal| {
        let mut action = MaybeUninit::<Action>::zeroed();
        // SAFETY: the call fills a local, whose zeroes are valid too.
        let action = unsafe {
            let _ = sys!(n::__NR_rt_sigaction, signal, 0, action.as_mut_ptr(), 8);
            action.assume_init()
        };
        action.handler > SIG_IGNORE
            && signal != SIGNAL
            && action.flags & u64::from(n::SA_ONSTACK) != 0
            && ![n::SIGSEGV, n::SIGBUS, n::SIGILL, n::SIGFPE].contains(&signal)
    })
}
