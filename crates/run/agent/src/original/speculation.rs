//! What came of the live speculation so far. At its end that is its outcome.

use core::mem;
use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::estimate::Spared;
use forebay_policy::track::{Foreseen, Track};
use forebay_sigsafe::ticks;

use super::track::{self, Repairs};
use crate::session;
use crate::snapshot::Forked;

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
    pub const fn new(ticks_per_second: u64) -> Self {
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

    /// Takes what calls outside the slow path have found out; a stall takes so long.
    pub fn catch_up(&mut self, stall: u64) {
        let now = track::Used::now();
        let before = mem::replace(&mut self.used_seen, now);
        let executed = now.executed.wrapping_sub(before.executed);
        let spared = if executed == 0 { 0 } else { self.spared_by_executor(executed) };
        self.used += now.hits.wrapping_sub(before.hits) + spared;
        self.saved += now.saved.wrapping_sub(before.saved) + spared.saturating_mul(stall);
        if track::take_match() {
            self.misses = 0;
        }
    }

    /// A hint was late: the original waited for `duration`, and without the hint it would have for `stall`.
    pub const fn on_late(&mut self, duration: u64, stall: u64) {
        self.late += 1;
        self.saved += stall.saturating_sub(duration);
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

/// What was charged for speculations: pages and processor time that speculators took, and first writes after forks.
pub struct Charged {
    pub pages: u64,
    pub cpu_us: u64,
    pub first_writes: u64,
}

impl Charged {
    pub const fn new() -> Self {
        Self { pages: 0, cpu_us: 0, first_writes: 0 }
    }
}
