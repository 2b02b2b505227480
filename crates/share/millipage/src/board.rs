//! The board of a machine: what its hosts share besides the memory itself. Locks, the barrier and signs of life are words on
//! it, and a thread that waits sleeps on a futex there. No message is sent, and no host serves another one.
//!
//! A host that is lost may leave any word as it is. So each sleep ends after a while, and the thread looks for a loss.

use std::{
    hint::spin_loop,
    slice,
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_coherence::{BarrierWord, HostId, LockWord};
use forebay_vm::Mapping;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::{
    Error,
    engine::Ended,
    transport::liveness::{ENDED, SILENT},
};

/// Different locks that a job can use.
pub const LOCKS: usize = 1 << 20;
/// How long a thread looks at a word before it sleeps.
const SPIN: Duration = Duration::from_micros(30);
/// How long a thread sleeps before it looks for a loss.
const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A line of the processor's cache: words that different hosts write are apart.
const LINE_BYTES: usize = 64;

/// The board as one host sees it.
pub struct Board {
    me: HostId,
    common: &'static Common,
    /// By rank.
    places: &'static [Place],
    locks: &'static [Slot],
    /// A thread of this host is at the barrier.
    is_at_barrier: AtomicBool,
    /// How long a thread spins for a lock, and at the barrier.
    lock_spin: Duration,
    barrier_spin: Duration,
}

/// What all hosts write. All of it is 0 at first.
#[repr(C, align(64))]
struct Common {
    barrier: AtomicU32,
    /// Threads that may sleep there, or until all leave.
    sleepers: AtomicU32,
    arrived: Line<AtomicU32>,
    /// Hosts that leave.
    leaving: AtomicU32,
    /// The first loss that was noticed: one more than the host, and the reason above; 0 for none.
    loss: AtomicU32,
}

#[repr(C, align(64))]
struct Line<T>(T);

/// What one host writes, and the others read.
#[repr(C, align(64))]
struct Place {
    /// What it calls at the barrier.
    call: AtomicU64,
    /// Changes while the host is alive.
    beat: AtomicU32,
    /// 1 when it has said that it leaves.
    has_left: AtomicU32,
}

/// A lock.
#[repr(C)]
struct Slot {
    /// [`NAMED`] and its number; 0 for none yet.
    name: AtomicU64,
    word: AtomicU32,
    unused: u32,
}

const NAMED: u64 = 1 << 32;
const REASON_SHIFT: u32 = 17;
const REASONS: [&str; 2] = [ENDED, SILENT];

const _: () = assert!(size_of::<Common>().is_multiple_of(LINE_BYTES) && size_of::<Place>() == LINE_BYTES);

impl Board {
    /// What a board for so many hosts takes.
    pub const fn bytes(hosts: u16) -> usize {
        size_of::<Common>() + hosts as usize * size_of::<Place>() + LOCKS * size_of::<Slot>()
    }

    /// The board that this memory, zeros at first, is for all `hosts`.
    pub fn new(memory: Mapping, me: HostId, hosts: u16) -> Self {
        assert!(memory.bytes() >= Self::bytes(hosts) && me.0 < hosts, "a board for {hosts} hosts");
        let places = memory.address() + size_of::<Common>();
        let locks = places + usize::from(hosts) * size_of::<Place>();
        // SAFETY: the mapping stays for as long as the process lives, begins at a page, and has room for all of these, one
        // behind the other. They are atomic words, of which any bytes are values.
        let (common, places, locks) = unsafe {
            (
                &*(memory.address() as *const Common),
                slice::from_raw_parts(places as *const Place, hosts.into()),
                slice::from_raw_parts(locks as *const Slot, LOCKS),
            )
        };
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let spin = |wanted: usize| if processors >= wanted { SPIN } else { Duration::ZERO };
        Self {
            me,
            common,
            places,
            locks,
            is_at_barrier: AtomicBool::new(false),
            lock_spin: spin(2),
            barrier_spin: spin(hosts.into()),
        }
    }

    /// Waits until no thread of any host has the lock, and takes it. A lock of a host that has left is free.
    ///
    /// # Errors
    /// The job has used too many different locks.
    pub fn lock(&self, lock: u32) -> Result<Ended, Error> {
        let word = self.slot(lock, true).ok_or(Error::TooManyLocks { limit: LOCKS })?;
        let mut has_slept = false;
        let mut spin_until = None;
        loop {
            let now = LockWord(word.load(SeqCst));
            if now.holder().is_none_or(|host| self.has_left(host)) {
                // Others may sleep yet where this thread slept.
                let mine = LockWord::held(self.me, has_slept || now.is_awaited());
                if word.compare_exchange(now.0, mine.0, SeqCst, SeqCst).is_ok() {
                    return Ok(Ended::Well);
                }
            } else if self.loss().is_some() {
                return Ok(Ended::Lost);
            } else if Instant::now() < *spin_until.get_or_insert_with(|| Instant::now() + self.lock_spin) {
                spin_loop();
            } else {
                let awaited = now.awaited();
                if now == awaited || word.compare_exchange(now.0, awaited.0, SeqCst, SeqCst).is_ok() {
                    sleep(word, awaited.0);
                    (has_slept, spin_until) = (true, None);
                }
            }
        }
    }

    /// Gives a lock up; `false` if no thread of this host has it.
    pub fn unlock(&self, lock: u32) -> bool {
        let Some(word) = self.slot(lock, false) else { return false };
        let freed = word.fetch_update(SeqCst, SeqCst, |word| {
            (LockWord(word).holder() == Some(self.me)).then_some(LockWord::FREE.0)
        });
        if freed.is_ok_and(|word| LockWord(word).is_awaited()) {
            wake(word, 1);
        }
        freed.is_ok()
    }

    /// Waits until all hosts have arrived, each with one thread, and whether all called the same; `None` if another thread of
    /// this host is there.
    pub fn arrive(&self, call: u64) -> Option<Ended> {
        if self.is_at_barrier.swap(true, SeqCst) {
            return None;
        }
        let ended = self.pass(call);
        self.is_at_barrier.store(false, SeqCst);
        Some(ended)
    }

    fn pass(&self, call: u64) -> Ended {
        let Common { barrier, arrived: Line(arrived), .. } = self.common;
        // It stays so until this host has arrived, or until one leaves, which no round ends after.
        let before = BarrierWord(barrier.load(SeqCst));
        if before.ended(before).is_some() {
            return Ended::Disagreed;
        }
        self.mine().call.store(call, SeqCst);
        if arrived.fetch_add(1, SeqCst) + 1 == self.places.len() as u32 {
            let agreed = self.places.iter().all(|place| place.call.load(SeqCst) == call);
            arrived.store(0, SeqCst);
            change(barrier, |word| word.passed(agreed));
            self.wake_sleepers(barrier);
        }
        self.wait(barrier, self.barrier_spin, |word| {
            let agreed = BarrierWord(word).ended(before)?;
            Some(if agreed { Ended::Well } else { Ended::Disagreed })
        })
    }

    /// Waits until all hosts leave. The locks that this host has are free from then on.
    pub fn leave(&self) -> Ended {
        let Common { barrier, leaving, .. } = self.common;
        // A host that goes because of a loss does not say so: others would take it for one that disagrees.
        if self.loss().is_none() {
            self.mine().has_left.store(1, SeqCst);
            change(barrier, BarrierWord::left);
            leaving.fetch_add(1, SeqCst);
            self.wake_sleepers(barrier);
            self.wake_sleepers(leaving);
        }
        let hosts = self.places.len() as u32;
        let ended = self.wait(leaving, Duration::ZERO, |leaving| (leaving >= hosts).then_some(Ended::Well));
        // A host ends when all have said that they leave, so a host that has said so may be gone.
        let is_gone = |(host, _)| self.has_left(host) && self.has_left(self.me);
        if self.loss().is_some_and(is_gone) { Ended::Well } else { ended }
    }

    /// Whether a host has said that it leaves.
    pub fn has_left(&self, host: HostId) -> bool {
        self.places.get(host.index()).is_some_and(|place| place.has_left.load(SeqCst) != 0)
    }

    /// Shows the others that this host is alive.
    pub fn beat(&self) {
        self.mine().beat.fetch_add(1, Relaxed);
    }

    /// What each host has shown of that so far, by rank.
    pub fn beats(&self) -> Vec<u32> {
        self.places.iter().map(|place| place.beat.load(Relaxed)).collect()
    }

    /// A host is lost; where another loss was noticed earlier, that one counts for all.
    pub fn lose(&self, host: HostId, reason: &'static str) {
        let reason = REASONS.iter().position(|known| *known == reason).unwrap_or(0) as u32;
        let loss = reason << REASON_SHIFT | (u32::from(host.0) + 1);
        let _ = self.common.loss.compare_exchange(0, loss, SeqCst, SeqCst);
        self.wake_sleepers(&self.common.barrier);
        self.wake_sleepers(&self.common.leaving);
    }

    /// The host that is lost, and why.
    pub fn loss(&self) -> Option<(HostId, &'static str)> {
        let loss = self.common.loss.load(SeqCst);
        let host = (loss & ((1 << REASON_SHIFT) - 1)).checked_sub(1)?;
        Some((HostId(host as u16), REASONS.get((loss >> REASON_SHIFT) as usize)?))
    }

    fn mine(&self) -> &Place {
        &self.places[self.me.index()]
    }

    /// The word of a lock. A name that is on the board stays, so all hosts find a name at the same place.
    fn slot(&self, lock: u32, insert: bool) -> Option<&'static AtomicU32> {
        let name = NAMED | u64::from(lock);
        // Neighbouring numbers are neighbours: few pages are used.
        let first = lock as usize + (lock as usize / LOCKS) * 40_503;
        let around = (0..LOCKS).map(|step| &self.locks[(first + step) % LOCKS]);
        for slot in around {
            let mut found = slot.name.load(SeqCst);
            if found == 0 && insert {
                found =
                    slot.name.compare_exchange(0, name, SeqCst, SeqCst).map_or_else(|other| other, |_| name);
            }
            if found == name {
                return Some(&slot.word);
            }
            if found == 0 {
                return None;
            }
        }
        None
    }

    /// Waits for the end that a word tells, or for a loss.
    fn wait(&self, word: &AtomicU32, spin: Duration, ended: impl Fn(u32) -> Option<Ended>) -> Ended {
        let spin_until = Instant::now() + spin;
        loop {
            let now = word.load(SeqCst);
            if let Some(ended) = ended(now) {
                return ended;
            }
            if self.loss().is_some() {
                return Ended::Lost;
            }
            if Instant::now() < spin_until {
                spin_loop();
                continue;
            }
            self.common.sleepers.fetch_add(1, SeqCst);
            sleep(word, now);
            self.common.sleepers.fetch_sub(1, SeqCst);
        }
    }

    fn wake_sleepers(&self, word: &AtomicU32) {
        if self.common.sleepers.load(SeqCst) > 0 {
            wake(word, i32::MAX as u32);
        }
    }
}

fn change(barrier: &AtomicU32, next: impl Fn(BarrierWord) -> BarrierWord) {
    let _ = barrier.fetch_update(SeqCst, SeqCst, |word| Some(next(BarrierWord(word)).0));
}

/// Sleeps while the word is `value`, for some time at most.
fn sleep(word: &AtomicU32, value: u32) {
    // However it ends, the word is looked at again.
    let _ = futex::wait(word, Flags::empty(), value, Some(&SLEEP));
}

fn wake(word: &AtomicU32, threads: u32) {
    let _ = futex::wake(word, Flags::empty(), threads);
}
