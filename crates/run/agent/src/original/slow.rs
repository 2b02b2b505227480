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

use forebay_policy::estimate::Spared;
use forebay_policy::fork::ForkPolicy;
use forebay_policy::track::{Foreseen, Track};
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

/// What was charged for speculations: pages and processor time that speculators took, and first writes after forks.
pub struct Charged {
    pub pages: u64,
    pub cpu_us: u64,
    pub first_writes: u64,
}

impl Charged {
    const fn new() -> Self {
        Self { pages: 0, cpu_us: 0, first_writes: 0 }
    }
}

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

    /// Takes what calls outside the slow path have found out.
    fn catch_up(&mut self) {
        let live = &mut self.live;
        let now = track::Used::now();
        let before = mem::replace(&mut live.used_seen, now);
        let executed = now.executed.wrapping_sub(before.executed);
        let spared = if executed == 0 { 0 } else { live.spared_by_executor(executed) };
        live.used += now.hits.wrapping_sub(before.hits) + spared;
        live.saved += now.saved.wrapping_sub(before.saved) + spared.saturating_mul(self.forks.stall_mean());
        if track::take_match() {
            live.misses = 0;
        }
    }
}

/// What came of the live speculation so far.
pub struct Speculation {
    /// How things stood when the original was forked.
    pub forked: Forked,
    /// When that was.
    pub began_at: u64,
    /// Hints that spared the original a stall.
    pub used: u64,
    /// The stall time that they saved, and what late hints saved of theirs, in ticks.
    pub saved: u64,
    /// What was used when these were last brought up to date, and what of a stall was left over then.
    used_seen: track::Used,
    spared: Spared,
    pub late: u64,
    /// Hinted pages that the original reaches as soon as the speculator: the first one after both went on from the same fault.
    abreast: u64,
    /// Stalled calls that were not predicted since the last one that was.
    pub misses: u32,
    /// Finds out, by stalls that were not prevented, whether the speculation is off track.
    pub track: Track,
    /// Used hints that `track` was told of.
    told: u64,
    pub repairs: Repairs,
    /// Pages that the original copied for it, once it is over; `None` where what came later is charged, too.
    pub copied: Option<u64>,
}

impl Speculation {
    const fn new(ticks_per_second: u64) -> Self {
        Self {
            forked: Forked::new(),
            began_at: 0,
            used: 0,
            saved: 0,
            used_seen: track::Used::NONE,
            spared: Spared::new(),
            late: 0,
            abreast: 0,
            misses: 0,
            track: Track::new(ticks_per_second),
            told: 0,
            repairs: Repairs::new(),
            copied: None,
        }
    }

    /// Another one begins. It makes checkpoints where calls are kept for them.
    pub fn begin(&mut self, forked: Forked, keeps_calls: bool) {
        self.track.on_fork();
        let repairs = track::begin(keeps_calls);
        let began_at = ticks();
        let (used, saved, late, abreast, misses, told, copied) = (0, 0, 0, 0, 0, 0, None);
        *self = Self { forked, began_at, used, saved, late, abreast, misses, told, repairs, copied, ..*self };
    }

    /// Original and speculator go on from the same fault.
    pub const fn on_start_abreast(&mut self) {
        self.abreast = 1;
    }

    /// The original has reached so many more hinted pages. Without a hint each would have taken it `stall`.
    pub fn on_pages(&mut self, pages: u64, stall: u64) {
        let abreast = self.abreast.min(pages);
        self.abreast -= abreast;
        self.used += pages;
        self.saved = self.saved.saturating_add((pages - abreast).saturating_mul(stall));
    }

    /// So many more hints were used that the executor carried out: the stalls that they spared.
    fn spared_by_executor(&mut self, used: u64) -> u64 {
        let Some(counters) = session::slot().map(|slot| &slot.counters) else { return used };
        let (read, steps) = (counters.steps_read.load(Relaxed), counters.steps.load(Relaxed));
        let spared = self.spared.add(used, read, steps);
        counters.hints_clustered.fetch_add(used.saturating_sub(spared), Relaxed);
        spared
    }

    /// The original had so many stalls, until `now`, that were not prevented; it waited for so many pages as foreseen.
    pub fn on_stalls(&mut self, now: u64, stalls: u64, left_out: u64) {
        let hinted = self.used.saturating_sub(mem::replace(&mut self.told, self.used));
        self.track.on_stalls(now, stalls, Foreseen { hinted, left_out });
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
struct Blocked(u64);

/// Signals that an instruction causes: where they are blocked they end the process. A debugger steps by the first, and a
/// program's own sandbox answers calls by the last.
const OF_INSTRUCTIONS: [u32; 6] = [n::SIGTRAP, n::SIGSEGV, n::SIGBUS, n::SIGILL, n::SIGFPE, n::SIGSYS];

impl Blocked {
    fn begin() -> Self {
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
    private.catch_up();
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
