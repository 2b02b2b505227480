//! Whether the speculator is on track: the original's calls against its log, and what is done where they part.

use core::sync::atomic::Ordering::{Relaxed, Release};

use forebay_policy::site;
use forebay_protocol::hint_log::{self, Consumed, Consumer};
use forebay_protocol::layout::{Slot, mark};
use forebay_sigsafe::{general as n, sys};

use super::verdict::{blamed, payoff};
use super::{LIVE, OWNER, Private, private};
use crate::{session, spawn, trace};

/// Calls by which a speculator may be behind before it is taken for lost.
const BEHIND_MAX: usize = 2048;
/// Hints used after a repair, that make it one that something came of.
const WORTHWHILE: u64 = 8;
/// Repairs in a row that nothing came of, after which a checkpoint is not called any more.
const FUTILE_REPAIRS_MAX: u32 = 2;

/// How a call of the original stands to what the speculator predicted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// No speculator.
    Alone,
    /// Predicted, and prefetched.
    Hinted,
    /// Predicted; nothing had to be prefetched.
    Predicted,
    /// The speculator has not come so far.
    Behind,
    /// The speculator predicted other calls.
    Unpredicted,
}

/// What is known of the live speculation's course.
pub struct Track {
    behind: Behind,
    /// Whether the speculator makes checkpoints: then the calls are kept that one would make again.
    keeps_calls: bool,
    calls: Calls,
    /// Hints used when a checkpoint was last called, and how often nothing had come of one in a row.
    used: u64,
    futile_repairs: u32,
    /// The site whose value was waited for then, and what had come of making it up.
    suspect: Option<(u32, u64)>,
}

impl Track {
    pub const fn new() -> Self {
        Self {
            behind: Behind::new(),
            keeps_calls: false,
            calls: Calls::new(),
            used: 0,
            futile_repairs: 0,
            suspect: None,
        }
    }

    /// A speculation begins.
    pub fn begin(&mut self, keeps_calls: bool) {
        self.behind.clear();
        self.keeps_calls = keeps_calls;
        self.calls.count = 0;
        self.used = 0;
        self.futile_repairs = 0;
        self.suspect = None;
    }

    /// Hints used of those of the present generation, by those `used` since the original was last forked.
    pub const fn gained(&self, used: u64) -> u64 {
        used.saturating_sub(self.used)
    }

    /// The speculator that took over last, as this generation, is at its end as well: where more came of it before it made
    /// up a value there again, the value did matter.
    pub fn convict(&mut self, slot: &Slot, generation: u32, used: u64) {
        let gained = self.gained(used);
        if let Some((site, before)) = self.suspect.take()
            && gained.saturating_sub(payoff(slot, generation, site, gained))
                > before.saturating_mul(4).saturating_add(WORTHWHILE)
        {
            trace::tell(b"convicted: site, payoff, gained since", &[site.into(), before, gained]);
            site::outcome(&slot.sites, site, u32::try_from(before).unwrap_or(u32::MAX));
        }
    }
}

/// Calls that the original made while the log was empty: the speculator will yet log them, too late to be of use.
struct Behind {
    signatures: [u64; BEHIND_MAX],
    first: usize,
    len: usize,
}

impl Behind {
    const fn new() -> Self {
        Self { signatures: [0; BEHIND_MAX], first: 0, len: 0 }
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    fn front(&self) -> Option<u64> {
        (self.len > 0).then(|| self.signatures.get(self.first % BEHIND_MAX).copied())?
    }

    fn pop(&mut self) {
        self.first = (self.first + 1) % BEHIND_MAX;
        self.len = self.len.saturating_sub(1);
    }

    fn push(&mut self, signature: u64) -> bool {
        if self.len == BEHIND_MAX {
            return false;
        }
        if let Some(place) = self.signatures.get_mut((self.first + self.len) % BEHIND_MAX) {
            *place = signature;
        }
        self.len += 1;
        true
    }
}

/// The last calls of the original that were compared, each with the entries consumed of the log when it was.
struct Calls {
    ring: [(u64, u64); BEHIND_MAX],
    count: u64,
}

impl Calls {
    const fn new() -> Self {
        Self { ring: [(0, 0); BEHIND_MAX], count: 0 }
    }

    fn push(&mut self, signature: u64, consumed: u64) {
        if let Some(place) = self.ring.get_mut(self.count as usize % BEHIND_MAX) {
            *place = (signature, consumed);
        }
        self.count += 1;
    }

    fn at(&self, number: u64) -> (u64, u64) {
        self.ring.get(number as usize % BEHIND_MAX).copied().unwrap_or((0, 0))
    }

    /// The number of the first call after `position` entries of the log were consumed; `None` where it is forgotten.
    fn after(&self, position: u64) -> Option<u64> {
        if position == 0 {
            return (self.count <= BEHIND_MAX as u64).then_some(0);
        }
        let oldest = self.count.saturating_sub(BEHIND_MAX as u64);
        (oldest..self.count).find(|&number| self.at(number).1 >= position).map(|number| number + 1)
    }
}

/// Looks the signature up in the log of the live speculator.
pub fn compare(signature: u64) -> Standing {
    let generation = LIVE.load(Relaxed);
    let Some(slot) = session::slot() else { return Standing::Alone };
    if OWNER.load(Relaxed) != forebay_sigsafe::thread_pointer() {
        return Standing::Alone;
    }
    let consumer = Consumer::new(slot, generation);
    let private = private();
    let standing = stand(slot, &consumer, private, signature);
    if private.track.keeps_calls {
        private.track.calls.push(signature, consumer.position());
    }
    standing
}

fn stand(slot: &Slot, consumer: &Consumer<'_>, private: &mut Private, signature: u64) -> Standing {
    let behind = &mut private.track.behind;
    while let Some(passed) = behind.front() {
        match consumer.consume(passed) {
            Consumed::Absent { empty: true } => break,
            _ => behind.pop(),
        }
    }
    trace::tell(b"original: signature, log", &[signature % 100_000, consumer.len()]);
    if behind.len == 0 {
        match consumer.consume(signature) {
            Consumed::Matched { mark, skipped } => {
                slot.counters.hints_wrong.fetch_add(skipped.into(), Relaxed);
                private.misses = 0;
                private.patience.forgive();
                return if mark & mark::HINTED != 0 { Standing::Hinted } else { Standing::Predicted };
            }
            Consumed::Absent { empty: false } => {
                return Standing::Unpredicted;
            }
            Consumed::Absent { empty: true } => {}
        }
    }
    if slot.speculator_pid.load(Relaxed) == 0 || !behind.push(signature) {
        return Standing::Unpredicted;
    }
    Standing::Behind
}

/// The live speculation has strayed: has its checkpoint carry on, if there is one that can. That takes the original no
/// more than a message; it does not wait.
///
/// For one that `is_late` no site is blamed.
pub fn repair(slot: &Slot, private: &mut Private, is_late: bool) -> bool {
    let generation = LIVE.load(Relaxed);
    let (checkpoint, track) = (&slot.checkpoint, &mut private.track);
    let number = checkpoint.number.load(Relaxed);
    let consumer = Consumer::new(slot, generation);
    if !track.keeps_calls
        || generation == 0
        || number == 0
        || number >> 16 != generation & 0xffff
        || consumer.position() < checkpoint.needed.load(Relaxed)
    {
        return false;
    }
    let position = checkpoint.position.load(Relaxed);
    let futile = if private.used < track.used + WORTHWHILE { track.futile_repairs + 1 } else { 0 };
    let Some(first) = track.calls.after(position).filter(|_| futile <= FUTILE_REPAIRS_MAX) else {
        return false;
    };
    trace::tell(
        b"repairs: used, misses, calls",
        &[private.used, private.patience.misses().into(), track.calls.count - first],
    );
    track.convict(slot, generation, private.used);
    let wrong = consumer.abandon();
    slot.counters.hints_wrong.fetch_add(wrong, Relaxed);
    let gained = track.gained(private.used);
    let suspect = if is_late { None } else { blamed(slot, generation) };
    track.suspect = suspect.map(|site| (site, payoff(slot, generation, site, gained)));
    track.futile_repairs = futile;
    track.used = private.used;
    private.misses = 0;
    private.patience.forgive();
    track.behind.clear();
    for number in first..track.calls.count {
        let _ = track.behind.push(track.calls.at(number).0);
    }
    track.calls.count = 0;
    let next = generation.wrapping_add(1).max(1);
    spawn::hand_over(slot, next);
    hint_log::reset(slot, next);
    checkpoint.call.store(next, Relaxed);
    slot.generation.store(next, Release);
    LIVE.store(next, Relaxed);
    // SAFETY: the word is in the slot.
    let _ = unsafe { sys!(n::__NR_futex, &raw const checkpoint.number, n::FUTEX_WAKE, 1) };
    true
}
