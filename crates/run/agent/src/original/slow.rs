//! The slow path: what the original does after a stall, one entry at a time.
//!
//! # Rule of its state
//!
//! [`Private`] is reached through [`enter`] alone, which gives one entry exclusive use of it and refuses all others: other
//! threads, vfork children (which have this memory) and signal handlers, SIGURG's too, also one that interrupted the
//! entry. It is passed down as `&mut`. A forked copy that becomes a speculator keeps the state of its entry for ever, so it
//! has no slow path. A forked child in which the state was in use at the fork stays a child without one: see
//! [`super::begin_forked_child`]. What calls do outside the slow path is in atomics: [`super::track`].

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::patience::Patience;
use forebay_policy::resync::Policy;
use forebay_policy::room::Room;
use forebay_sigsafe::general as n;
use forebay_sigsafe::turn::{Held, Turn};
use forebay_sigsafe::{sys, thread_pointer, ticks};

use super::fault;
use super::track::{self, Repairs};
use crate::session;
use crate::spawn::{Forked, Spawned};

/// Part of a second that a thread waits for another one that is about to fork.
const WAIT_PART: u64 = 20;

/// State of the slow path.
pub struct Private {
    pub policy: Policy,
    pub used: u64,
    /// What [`track::hits`] was when `used` was last brought up to date.
    hits_seen: u64,
    pub late: u64,
    /// Part of the mean stall that late hints spared, in ticks.
    pub late_saved: u64,
    /// Stalled calls that were not predicted since the last one that was.
    pub misses: u32,
    /// What page faults it takes for the speculation to have strayed.
    pub patience: Patience,
    /// What was known of the thread at the last page fault that it was told of.
    pub faults: fault::Seen,
    pub forked: Forked,
    /// Pages that ended speculators had taken.
    pub speculator_pages: u64,
    pub started: u64,
    /// Stops of all speculation before the last fork.
    pub stops: u32,
    /// When the size of the process was last looked at.
    pub weighed_at: u64,
    /// Pages of its own that it had then, swapped out or not.
    pub anonymous_pages: u64,
    pub room: Room,
    pub has_huge_pages: bool,
    pub repairs: Repairs,
    pub switches: [(usize, i64); 16],
}

static SLOW: Turn<Private> = Turn::new(Private {
    policy: Policy::new(1),
    used: 0,
    hits_seen: 0,
    late: 0,
    late_saved: 0,
    misses: 0,
    patience: Patience::new(1),
    faults: fault::Seen::new(),
    forked: Forked::new(),
    speculator_pages: 0,
    started: 0,
    stops: 0,
    weighed_at: 0,
    anonymous_pages: 0,
    room: Room::new(1),
    has_huge_pages: false,
    repairs: Repairs::new(),
    switches: [(0, 0); 16],
});

impl Private {
    /// A process begins.
    pub fn begin(&mut self, ticks_per_second: u64) {
        self.policy = Policy::new(ticks_per_second);
        self.patience = Patience::new(ticks_per_second);
        self.room = Room::new(ticks_per_second);
        (self.weighed_at, self.anonymous_pages) = (0, 0);
        self.started = ticks();
        self.policy.begin(self.started);
        self.faults = fault::Seen::begin_process();
    }

    /// The original is about to be forked: nothing is known of the speculation.
    pub fn forget_speculation(&mut self) {
        self.used = 0;
        self.hits_seen = track::hits();
        self.late = 0;
        self.late_saved = 0;
        self.misses = 0;
        self.patience.on_fork();
    }

    /// Takes what calls outside the slow path have found out.
    fn catch_up(&mut self) {
        let hits = track::hits();
        self.used += hits.wrapping_sub(self.hits_seen);
        self.hits_seen = hits;
        if track::take_match() {
            self.misses = 0;
            self.patience.forgive();
        }
    }
}

/// Enters the slow path, unless another entry is in.
#[inline]
pub fn enter() -> Option<Held<'static, Private>> {
    let mut private = SLOW.enter(thread_pointer())?;
    private.catch_up();
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
pub fn alone(act: impl FnOnce(Option<&mut Private>)) {
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
