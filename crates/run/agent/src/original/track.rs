//! Whether the speculator is on track: compares the original's calls with its log, and calls its checkpoint.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use forebay_policy::estimate::StallTime;
use forebay_policy::price::{FUTILE_REPAIRS_MAX, REPAIR_WORTH_HINTS};
use forebay_policy::site;
use forebay_protocol::hint_log::{self, Consumed, Consumer, Readers};
use forebay_protocol::layout::{Slot, mark};
use forebay_sigsafe::{general as n, sys, thread_pointer, ticks};

use super::outcome::{responsible_site, reward};
use super::slow::Private;
use super::{LIVE, OWNER};
use crate::{session, spawn, speculator, trace};

/// Calls by which a speculator may be behind before it is unrecoverable.
const AWAITED_MAX: usize = 2048;

/// How a call of the original stands to what the speculator predicted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// No speculator, or one of another thread, which did not make this call.
    NoSpeculator,
    /// Predicted, and prefetched: the stall that the hint saves takes so many ticks, or 0 where that is unknown.
    Hinted(u64),
    /// Predicted; nothing had to be prefetched.
    Predicted,
    /// The speculator has not come so far.
    Pending,
    /// The speculator predicted other calls.
    Mismatch,
}

impl Match {
    /// For traces.
    pub const fn number(self) -> u64 {
        match self {
            Self::NoSpeculator => 0,
            Self::Hinted(_) => 1,
            Self::Predicted => 2,
            Self::Pending => 3,
            Self::Mismatch => 4,
        }
    }
}

/// Matched calls whose hints were given to a device, ever, and the stall time that this saved.
static HITS: AtomicU64 = AtomicU64::new(0);
static SAVED: AtomicU64 = AtomicU64::new(0);
/// Those whose hints were given to the executor. What each of them saved is not known.
static EXECUTED: AtomicU64 = AtomicU64::new(0);
/// A call was predicted since the slow path was last entered.
static HAS_MATCHED: AtomicBool = AtomicBool::new(false);
/// Whether a thread besides the one that the speculator is a copy of has made calls.
static IS_SHARED: AtomicBool = AtomicBool::new(false);
/// Whether the speculator makes checkpoints: then the calls are kept that one would make again.
static KEEPS_CALLS: AtomicBool = AtomicBool::new(false);
/// When the original entered a window of a file that it reads in sequence.
static WINDOW_ENTERED: AtomicU64 = AtomicU64::new(0);
static AWAITED: Awaited = Awaited::new();
static CALLS: Calls = Calls::new();

/// A hint saved the original a stall of so many ticks; 0 where that is unknown.
pub fn used(stall: u64) {
    if stall == 0 {
        EXECUTED.fetch_add(1, Relaxed);
    } else {
        HITS.fetch_add(1, Relaxed);
        SAVED.fetch_add(stall, Relaxed);
    }
    if let Some(slot) = session::slot() {
        slot.counters.hints_used.fetch_add(1, Relaxed);
    }
}

/// Hints that were used, ever.
#[derive(Clone, Copy)]
pub struct Used {
    /// Those that spared the original a stall each, and the stall time that this saved.
    pub hits: u64,
    pub saved: u64,
    /// Those that the executor carried out.
    pub executed: u64,
}

impl Used {
    pub const NONE: Self = Self { hits: 0, saved: 0, executed: 0 };

    pub fn now() -> Self {
        Self { hits: HITS.load(Relaxed), saved: SAVED.load(Relaxed), executed: EXECUTED.load(Relaxed) }
    }
}

/// Whether a call was predicted since this was last asked.
pub fn take_match() -> bool {
    let has_matched = HAS_MATCHED.load(Relaxed);
    if has_matched {
        HAS_MATCHED.store(false, Relaxed);
    }
    has_matched
}

/// A speculation begins.
pub fn begin(keeps_calls: bool) -> Repairs {
    AWAITED.clear();
    KEEPS_CALLS.store(keeps_calls, Relaxed);
    CALLS.clear();
    Repairs::new()
}

/// What came of the checkpoints that were called in the live speculation.
pub struct Repairs {
    /// Hints used when a checkpoint was last called, and how often nothing had come of one in a row.
    used: u64,
    futile: u32,
    /// The site whose value was waited for then, and what had come of making it up.
    candidate: Option<(u32, u64)>,
}

impl Repairs {
    pub const fn new() -> Self {
        Self { used: 0, futile: 0, candidate: None }
    }

    /// Hints used of those of the present generation, by those `used` since the original was last forked.
    pub const fn gained(&self, used: u64) -> u64 {
        used.saturating_sub(self.used)
    }

    /// The speculator that took over last, as this generation, is at its end as well: where more came of it before it made
    /// up a value there again, the value did matter.
    /// Whether that changed what the site predicts.
    pub fn penalize_earlier(&mut self, slot: &Slot, generation: u32, used: u64) -> bool {
        let gained = self.gained(used);
        if let Some((site, before)) = self.candidate.take()
            && gained.saturating_sub(reward(slot, generation, site, gained))
                > before.saturating_mul(4).saturating_add(REPAIR_WORTH_HINTS)
        {
            trace::tell(b"penalized: site, reward, gained since", &[site.into(), before, gained]);
            let reward = u32::try_from(before).unwrap_or(u32::MAX);
            return session::header().is_some_and(|header| site::outcome(&header.sites, site, reward));
        }
        false
    }
}

/// Calls that the original made while the log was empty: the speculator will yet log them, too late to be of use.
struct Awaited {
    signatures: [AtomicU64; AWAITED_MAX],
    /// Whether they stalled.
    have_stalled: [AtomicBool; AWAITED_MAX],
    first: AtomicUsize,
    len: AtomicUsize,
}

impl Awaited {
    const fn new() -> Self {
        Self {
            signatures: [const { AtomicU64::new(0) }; AWAITED_MAX],
            have_stalled: [const { AtomicBool::new(false) }; AWAITED_MAX],
            first: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
        }
    }

    fn clear(&self) {
        self.len.store(0, Relaxed);
    }

    fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// The first call, and whether it stalled.
    fn front(&self) -> Option<(u64, bool)> {
        let place = self.first.load(Relaxed) % AWAITED_MAX;
        let (signature, has_stalled) = (self.signatures.get(place)?, self.have_stalled.get(place)?);
        (!self.is_empty()).then(|| (signature.load(Relaxed), has_stalled.load(Relaxed)))
    }

    fn pop(&self) {
        self.first.store((self.first.load(Relaxed) + 1) % AWAITED_MAX, Relaxed);
        self.len.store(self.len.load(Relaxed).saturating_sub(1), Relaxed);
    }

    fn push(&self, signature: u64, has_stalled: bool) -> bool {
        let (first, len) = (self.first.load(Relaxed), self.len.load(Relaxed));
        if len >= AWAITED_MAX {
            return false;
        }
        if let Some(place) = self.signatures.get((first + len) % AWAITED_MAX) {
            place.store(signature, Relaxed);
        }
        self.len.store(len + 1, Relaxed);
        self.set_last(has_stalled);
        true
    }

    /// Whether the last call stalled.
    fn set_last(&self, has_stalled: bool) {
        let Some(last) = self.len.load(Relaxed).checked_sub(1) else { return };
        if let Some(place) = self.have_stalled.get((self.first.load(Relaxed) + last) % AWAITED_MAX) {
            place.store(has_stalled, Relaxed);
        }
    }
}

/// The last calls of the original that were compared, each with the entries consumed of the log when it was.
struct Calls {
    ring: [[AtomicU64; 2]; AWAITED_MAX],
    count: AtomicU64,
}

impl Calls {
    const fn new() -> Self {
        Self { ring: [const { [const { AtomicU64::new(0) }; 2] }; AWAITED_MAX], count: AtomicU64::new(0) }
    }

    fn clear(&self) {
        self.count.store(0, Relaxed);
    }

    fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    fn push(&self, signature: u64, consumed: u64) {
        let count = self.count();
        if let Some([call, position]) = self.ring.get(count as usize % AWAITED_MAX) {
            call.store(signature, Relaxed);
            position.store(consumed, Relaxed);
        }
        self.count.store(count + 1, Relaxed);
    }

    fn at(&self, number: u64) -> (u64, u64) {
        let place = self.ring.get(number as usize % AWAITED_MAX);
        place.map_or((0, 0), |[call, position]| (call.load(Relaxed), position.load(Relaxed)))
    }

    /// The number of the first call after `position` entries of the log were consumed; `None` where it is forgotten.
    fn after(&self, position: u64) -> Option<u64> {
        let count = self.count();
        if position == 0 {
            return (count <= AWAITED_MAX as u64).then_some(0);
        }
        let oldest = count.saturating_sub(AWAITED_MAX as u64);
        (oldest..count).find(|&number| self.at(number).1 >= position).map(|number| number + 1)
    }
}

/// A forked child has one thread.
pub fn begin_process() {
    IS_SHARED.store(false, Relaxed);
}

/// Whether the live speculator, if there is one, is a copy of the calling thread: the one that is *led*.
pub fn is_led() -> bool {
    OWNER.load(Relaxed) == thread_pointer()
}

/// Whether threads besides the led one make calls.
pub fn is_shared() -> bool {
    IS_SHARED.load(Relaxed)
}

/// Looks the signature up in the log of the live speculator.
///
/// The led thread's calls tell whether the speculator is on track. Another thread may have taken over some of the work that the
/// speculator went through; what it does besides says nothing.
pub fn compare(signature: u64) -> Match {
    let generation = LIVE.load(Relaxed);
    let Some(slot) = session::slot() else { return Match::NoSpeculator };
    let consumer = Consumer::new(slot, generation);
    if !is_led() {
        if !is_shared() {
            IS_SHARED.store(true, Relaxed);
            slot.takes_none.store(1, Relaxed);
        }
        return find(slot, &consumer, signature).unwrap_or(Match::NoSpeculator);
    }
    let matched = stand(slot, &consumer, signature);
    if KEEPS_CALLS.load(Relaxed) {
        CALLS.push(signature, consumer.position());
    }
    matched
}

fn consume(consumer: &Consumer<'_>, signature: u64) -> Consumed {
    consumer.consume(signature, if is_shared() { Readers::Several } else { Readers::One })
}

/// How a call of the led thread stands.
fn stand(slot: &Slot, consumer: &Consumer<'_>, signature: u64) -> Match {
    while let Some((passed, has_stalled)) = AWAITED.front() {
        match consume(consumer, passed) {
            Consumed::Absent { empty: true } => break,
            Consumed::Matched { mark, .. } if mark & mark::EARLIER != 0 && !has_stalled => used(0),
            _ => {}
        }
        AWAITED.pop();
    }
    trace::tell(b"original: signature, log", &[signature % 100_000, consumer.len()]);
    if AWAITED.is_empty() {
        match find(slot, consumer, signature) {
            Ok(matched) => return matched,
            Err(Absent { empty: false }) => return Match::Mismatch,
            Err(Absent { empty: true }) => {}
        }
    }
    if slot.speculator_pid.load(Relaxed) == 0 || !AWAITED.push(signature, false) {
        return Match::Mismatch;
    }
    Match::Pending
}

/// The log does not have a call, or has none at all.
struct Absent {
    empty: bool,
}

/// The call of the led thread that is [`Match::Pending`] has stalled.
pub fn pending_stalled() {
    AWAITED.set_last(true);
}

/// Finds a call in the log.
fn find(slot: &Slot, consumer: &Consumer<'_>, signature: u64) -> Result<Match, Absent> {
    match consume(consumer, signature) {
        Consumed::Matched { mark, skipped } => {
            slot.counters.hints_wrong.fetch_add(skipped.into(), Relaxed);
            HAS_MATCHED.store(true, Relaxed);
            let is_hinted = mark & mark::HINTED != 0;
            Ok(if is_hinted { Match::Hinted(stall_of(mark)) } else { Match::Predicted })
        }
        Consumed::Absent { empty } => Err(Absent { empty }),
    }
}

/// What a hint saves, by the mark of its log entry; 0 where that is unknown.
fn stall_of(mark: u64) -> u64 {
    let device = speculator::marked_device(mark);
    let entry = session::header().and_then(|header| header.devices.get(device?));
    let stall = entry.map_or(0, |entry| StallTime::load(&entry.stall).ticks());
    if mark & mark::SEQUENTIAL == 0 || stall == 0 {
        return stall;
    }
    // The kernel would have begun with this window while the original used the one before.
    let now = ticks();
    let used_for = now.saturating_sub(WINDOW_ENTERED.swap(now, Relaxed));
    stall.saturating_sub(used_for).max(1)
}

/// The live speculation is off track: calls its checkpoint, if there is one that can carry on. That takes the original no
/// more than a message; it does not wait.
///
/// Where it only `is_late`, no site is responsible. The led thread alone knows which of its calls the checkpoint is behind by.
pub fn repair(slot: &Slot, private: &mut Private, is_late: bool) -> bool {
    let generation = LIVE.load(Relaxed);
    let (checkpoint, repairs) = (&slot.checkpoint, &mut private.live.repairs);
    let number = checkpoint.number.load(Relaxed);
    let consumer = Consumer::new(slot, generation);
    if !KEEPS_CALLS.load(Relaxed)
        || !is_led()
        || generation == 0
        || number == 0
        || number >> 16 != generation & 0xffff
        || consumer.position() < checkpoint.needed.load(Relaxed)
    {
        return false;
    }
    let position = checkpoint.position.load(Relaxed);
    let futile = if private.live.used < repairs.used + REPAIR_WORTH_HINTS { repairs.futile + 1 } else { 0 };
    let Some(first) = CALLS.after(position).filter(|_| futile <= FUTILE_REPAIRS_MAX) else {
        return false;
    };
    if !spawn::supersede(slot) {
        return false;
    }
    trace::tell(
        b"repairs: used, misses, calls",
        &[private.live.used, private.live.track.misses().into(), CALLS.count() - first],
    );
    let _ = repairs.penalize_earlier(slot, generation, private.live.used);
    let wrong = consumer.abandon();
    slot.counters.hints_wrong.fetch_add(wrong, Relaxed);
    let gained = repairs.gained(private.live.used);
    let candidate = if is_late { None } else { responsible_site(slot, generation) };
    repairs.candidate = candidate.map(|site| (site, reward(slot, generation, site, gained)));
    repairs.futile = futile;
    repairs.used = private.live.used;
    private.live.misses = 0;
    private.live.track.forgive();
    AWAITED.clear();
    for number in first..CALLS.count() {
        let _ = AWAITED.push(CALLS.at(number).0, true);
    }
    CALLS.clear();
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
