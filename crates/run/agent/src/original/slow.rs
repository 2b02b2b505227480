//! The slow path: what the original does after a stall, one entry at a time.
//!
//! # Rule of its state
//!
//! * [`enter`] is the one way to [`Private`]. It gives one entry exclusive use and refuses all others: other threads, signal
//!   handlers (SIGURG's too, also one that interrupted the entry), and vfork children, which share this memory.
//! * The entry passes the state down as `&mut`.
//! * Signals are blocked meanwhile, but for those that an instruction causes. A handler that jumps out of an entry, or that ends
//!   its thread as the one of a cancellation does, would keep the state in use for ever.
//! * A speculator is forked within an entry and never leaves it: it has no slow path.
//! * A forked child in which the state was in use at the fork never becomes an original: see [`super::begin`].
//! * What calls do outside the slow path is in atomics: [`super::track`].

use core::mem;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::fork::ForkPolicy;
use forebay_policy::price::FORK_AWAITED_US;
use forebay_policy::track::Track;
use forebay_sigsafe::general as n;
use forebay_sigsafe::turn::{Held, Turn};
use forebay_sigsafe::{sys, thread_pointer, ticks};

use super::speculation::{Charged, Speculation};
use super::stall::Waits;
use super::{fault, size};
use crate::session;
use crate::snapshot::Spawned;

/// State of the slow path.
pub struct Private {
    pub forks: ForkPolicy,
    pub live: Speculation,
    /// What was known of threads at the last page faults that they were told of.
    pub faults: fault::Seen,
    pub size: size::Known,
    pub waits: Waits,
    pub charged: Charged,
    /// When this process began.
    pub started: u64,
}

static SLOW: Turn<Private> = Turn::new(Private {
    forks: ForkPolicy::new(1),
    live: Speculation::new(1),
    faults: fault::Seen::new(),
    size: size::Known::new(),
    waits: Waits::new(),
    charged: Charged::new(),
    started: 0,
});

impl Private {
    /// A process begins.
    pub fn begin(&mut self, ticks_per_second: u64) {
        self.forks = ForkPolicy::new(ticks_per_second);
        self.live.track = Track::new(ticks_per_second);
        self.size = size::Known::new();
        self.charged = Charged::new();
        self.started = ticks();
        self.faults.begin_process();
    }
}

/// The state, for the entry that is in. It is given back first, then signals are as they were.
pub struct Entry {
    private: Held<'static, Private>,
    _signals: Blocked,
}

impl Deref for Entry {
    type Target = Private;

    fn deref(&self) -> &Private {
        &self.private
    }
}

impl DerefMut for Entry {
    fn deref_mut(&mut self) -> &mut Private {
        &mut self.private
    }
}

/// Signals are blocked until this is dropped; has the mask of before.
pub struct Blocked(u64);

/// Signals that an instruction causes: where they are blocked they end the process. A debugger steps by the first, and a
/// program's own sandbox answers calls by the last.
const OF_INSTRUCTIONS: [u32; 6] = [n::SIGTRAP, n::SIGSEGV, n::SIGBUS, n::SIGILL, n::SIGFPE, n::SIGSYS];

impl Blocked {
    pub fn begin() -> Self {
        let blocked =
            OF_INSTRUCTIONS.into_iter().fold(u64::MAX, |blocked, signal| blocked & !(1 << (signal - 1)));
        let mut mask = 0u64;
        // SAFETY: the call reads and fills locals.
        let _ = unsafe { sys!(n::__NR_rt_sigprocmask, n::SIG_BLOCK, &raw const blocked, &raw mut mask, 8) };
        Self(mask)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the call reads the mask that it filled in.
        let _ = unsafe { sys!(n::__NR_rt_sigprocmask, n::SIG_SETMASK, &raw const self.0, 0, 8) };
    }
}

/// Enters the slow path, unless another entry is in.
pub fn enter() -> Option<Entry> {
    let signals = Blocked::begin();
    let mut private = SLOW.enter(thread_pointer())?;
    let stall = private.forks.stall_mean();
    private.live.catch_up(stall);
    Some(Entry { private, _signals: signals })
}

/// Leaves the slow path; but a speculator, which has just been forked there, keeps it, and has a mask of signals of its own.
#[inline]
pub fn leave(entry: Entry, spawned: Option<Spawned>) -> Option<Spawned> {
    if spawned == Some(Spawned::Speculator) {
        mem::forget(entry);
    }
    spawned
}

/// Acts in the slow path: a thread that is just about to fork has done so then. Where that takes too long, or this is a
/// handler that interrupted the slow path of its own thread, `act` goes without.
pub fn exclusive(act: impl FnOnce(Option<&mut Private>)) {
    let second = session::header().map_or(0, |header| header.ticks_per_second.load(Relaxed));
    let longest = second / (1_000_000 / FORK_AWAITED_US);
    let begun = ticks();
    let mut private = enter();
    while private.is_none() && SLOW.holder() != thread_pointer() && ticks().wrapping_sub(begun) < longest {
        // SAFETY: no arguments.
        let _ = unsafe { sys!(n::__NR_sched_yield) };
        private = enter();
    }
    act(private.as_deref_mut());
}
