//! The slow path: what the original does after a stall, one entry at a time.
//!
//! # Rule of its state
//!
//! * [`enter`] is the one way to [`Private`]. It gives one entry exclusive use and refuses all others: other threads, signal
//!   handlers (SIGURG's too, also one that interrupted the entry), and vfork children, which share this memory.
//! * The entry passes the state down as `&mut`.
//! * A speculator is forked within an entry and never leaves it: it has no slow path.
//! * A forked child in which the state was in use at the fork never becomes an original: see [`super::begin`].
//! * What calls do outside the slow path is in atomics: [`super::track`].

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::patience::Patience;
use forebay_policy::resync::Policy;
use forebay_sigsafe::general as n;
use forebay_sigsafe::turn::{Held, Turn};
use forebay_sigsafe::{sys, thread_pointer, ticks};

use super::stall::Waits;
use super::track::{self, Repairs};
use super::{fault, size};
use crate::session;
use crate::snapshot::{Forked, Spawned};

/// Part of a second that a thread waits for another one that is about to fork.
const WAIT_PART: u64 = 20;

/// State of the slow path.
pub struct Private {
    pub policy: Policy,
    pub live: Speculation,
    /// What was known of the thread at the last page fault that it was told of.
    pub faults: fault::Seen,
    pub size: size::Known,
    pub waits: Waits,
    /// Pages that ended speculators had taken.
    pub speculator_pages: u64,
    /// When this process began.
    pub started: u64,
}

static SLOW: Turn<Private> = Turn::new(Private {
    policy: Policy::new(1),
    live: Speculation::new(1),
    faults: fault::Seen::new(),
    size: size::Known::new(1),
    waits: Waits::new(),
    speculator_pages: 0,
    started: 0,
});

impl Private {
    /// A process begins.
    pub fn begin(&mut self, ticks_per_second: u64) {
        self.policy = Policy::new(ticks_per_second);
        self.live.detector = Patience::new(ticks_per_second);
        self.size = size::Known::new(ticks_per_second);
        self.started = ticks();
        self.policy.begin(self.started);
        self.faults = fault::Seen::begin_process();
    }
}

/// What came of the live speculation so far.
pub struct Speculation {
    /// How things stood when the original was forked.
    pub forked: Forked,
    /// Stops of all speculation before that.
    pub stops: u32,
    /// Hints that spared the original a stall.
    pub used: u64,
    /// What [`track::hits`] was when `used` was last brought up to date.
    hits_seen: u64,
    pub late: u64,
    /// Part of the mean stall that late hints spared, in ticks.
    pub late_saved: u64,
    /// Stalled calls that were not predicted since the last one that was.
    pub misses: u32,
    /// Finds out, by page faults, whether the speculation is off track.
    pub detector: Patience,
    pub repairs: Repairs,
}

impl Speculation {
    const fn new(ticks_per_second: u64) -> Self {
        Self {
            forked: Forked::new(),
            stops: 0,
            used: 0,
            hits_seen: 0,
            late: 0,
            late_saved: 0,
            misses: 0,
            detector: Patience::new(ticks_per_second),
            repairs: Repairs::new(),
        }
    }

    /// Another one begins, after so many stops of all speculation. It makes checkpoints where calls are kept for them.
    pub fn begin(&mut self, forked: Forked, stops: u32, keeps_calls: bool) {
        self.detector.on_fork();
        let repairs = track::begin(keeps_calls);
        let (detector, hits_seen) = (self.detector, track::hits());
        *self =
            Self { forked, stops, used: 0, hits_seen, late: 0, late_saved: 0, misses: 0, detector, repairs };
    }

    /// Takes what calls outside the slow path have found out.
    fn catch_up(&mut self) {
        let hits = track::hits();
        self.used += hits.wrapping_sub(self.hits_seen);
        self.hits_seen = hits;
        if track::take_match() {
            self.misses = 0;
            self.detector.forgive();
        }
    }
}

/// Enters the slow path, unless another entry is in.
#[inline]
pub fn enter() -> Option<Held<'static, Private>> {
    let mut private = SLOW.enter(thread_pointer())?;
    private.live.catch_up();
    Some(private)
}

/// Leaves the slow path; but a speculator, which has just been forked there, keeps it.
#[inline]
pub fn leave(private: Held<'static, Private>, spawned: Option<Spawned>) -> Option<Spawned> {
    if spawned == Some(Spawned::Speculator) {
        core::mem::forget(private);
    }
    spawned
}

/// Acts in the slow path: a thread that is just about to fork has done so then. Where that takes too long, or this is a
/// handler that interrupted the slow path of its own thread, `act` goes without.
pub fn exclusive(act: impl FnOnce(Option<&mut Private>)) {
    let longest = session::header().map_or(0, |header| header.ticks_per_second.load(Relaxed) / WAIT_PART);
    let begun = ticks();
    let mut private = enter();
    while private.is_none() && SLOW.holder() != thread_pointer() && ticks().wrapping_sub(begun) < longest {
        // SAFETY: no arguments.
        let _ = unsafe { sys!(n::__NR_sched_yield) };
        private = enter();
    }
    act(private.as_deref_mut());
}
