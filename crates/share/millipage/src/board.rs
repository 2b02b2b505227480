//! The board of a machine: what its hosts share besides the memory itself. Locks, the barrier and signs of life are words on
//! it, and a thread that waits sleeps on a futex there. No message is sent.
//!
//! Where a job has several machines, the last host to arrive at the barrier meets the other machines for all.
//!
//! A host that is lost may leave any word as it is. So each sleep ends after a while, and the thread looks for a loss.

use std::{
    hint::spin_loop,
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_coherence::{BarrierWord, HostId, LockWord, Other};
use rustix::thread::futex::{self, Flags, Timespec};

use crate::{
    Error,
    bells::Bells,
    engine::Ended,
    interrupt::{is_interrupted, sleep_ns},
    parts::{Parts, Words},
    transport::liveness::{ENDED, FAILED, SILENT},
};

/// Different locks that a job can use.
pub const LOCKS: usize = 1 << 20;
/// How long a thread looks at a word before it sleeps.
const SPIN: Duration = Duration::from_micros(30);
/// How long a thread sleeps before it looks for a loss.
const SLEEP_NS: i64 = 100_000_000;
/// A line of the processor's cache: words that different hosts write are apart.
const LINE_BYTES: usize = 64;

/// Bytes of a text on the board.
const TEXT_BYTES: usize = 120;

/// The board as one host sees it.
pub struct Board {
    /// The place of this host.
    me: usize,
    /// The hosts of the machine, each at its place.
    hosts: Vec<HostId>,
    common: &'static Common,
    places: &'static [Place],
    texts: &'static [Texts],
    locks: &'static [Slot],
    bells: Bells,
    /// A thread of this host is at the barrier.
    is_at_barrier: AtomicBool,
    /// How many leave in the end: all hosts, and the other machines as one more.
    departures: u32,
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
    /// Hosts that leave, and one more where all other machines leave too.
    leaving: AtomicU32,
    /// The first loss that was noticed: one more than the host, and the reason above; 0 for none.
    loss: AtomicU32,
    /// The thread that serves the machine sleeps.
    asleep: AtomicU32,
    /// A host of another machine that did something else at the last barrier, and what it said.
    other_host: AtomicU32,
    other_word: AtomicU64,
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
    /// What another host has told it to do, and how often.
    order: AtomicU64,
    ordered: AtomicU32,
    /// How often it has done so.
    obeyed: AtomicU32,
    /// 1 when none of its threads will use the memory any more.
    has_ended: AtomicU32,
}

/// What a host calls at the barrier, in words: for an even round, and for an odd one. A host that has gone on to the next
/// round leaves what it called in this one.
#[repr(C)]
struct Texts([Text; 2]);

#[repr(C)]
struct Text {
    bytes: AtomicU64,
    words: [AtomicU64; TEXT_BYTES / 8],
}

impl Text {
    /// Writes as much of a text as there is room for.
    fn write(&self, text: &str) {
        let mut ends = (0..=text.len().min(TEXT_BYTES)).rev();
        let bytes = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        for (word, part) in self.words.iter().zip(text.as_bytes()[..bytes].chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            word.store(u64::from_le_bytes(whole), Relaxed);
        }
        self.bytes.store(bytes as u64, SeqCst);
    }

    fn read(&self) -> String {
        let bytes = (self.bytes.load(SeqCst) as usize).min(TEXT_BYTES);
        let all: Vec<u8> = self.words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        String::from_utf8_lossy(&all[..bytes]).into_owned()
    }
}

/// A lock.
#[repr(C)]
struct Slot {
    /// [`NAMED`] and its number; 0 for none yet.
    name: AtomicU64,
    word: AtomicU32,
    unused: u32,
}

// SAFETY: atomic words, and space between them.
unsafe impl Words for Common {}
// SAFETY: as above.
unsafe impl Words for Place {}
// SAFETY: as above.
unsafe impl Words for Texts {}
// SAFETY: as above; the rest of a lock is never looked at.
unsafe impl Words for Slot {}

const NAMED: u64 = 1 << 63;
const REASON_SHIFT: u32 = 17;
/// Why the hosts of a machine are lost where the reason is not one of these.
pub const CUT_OFF: &str = "its machine has lost the others";
const REASONS: [&str; 4] = [ENDED, SILENT, FAILED, CUT_OFF];

const _: () = assert!(size_of::<Common>().is_multiple_of(LINE_BYTES) && size_of::<Place>() == LINE_BYTES);

/// What hosts of a machine say to other machines whose own hosts have said different things. No host says it.
pub const DIFFERENT: u64 = 0;

impl Board {
    /// What a board for so many hosts takes.
    pub const fn bytes(hosts: usize) -> usize {
        Parts::bytes::<Common>(1)
            + Parts::bytes::<Place>(hosts)
            + Parts::bytes::<Texts>(hosts)
            + Parts::bytes::<Slot>(LOCKS)
            + Bells::bytes()
    }

    /// The board that this memory, zeros at first, is for these hosts, of which `me` is one. There may be other machines.
    pub fn new(memory: &mut Parts, me: HostId, hosts: &[HostId], has_others: bool) -> Self {
        let place = hosts.iter().position(|host| *host == me);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let spin = |wanted: usize| if processors >= wanted { SPIN } else { Duration::ZERO };
        Self {
            me: place.unwrap_or_else(|| panic!("host {} is not on its machine", me.0)),
            hosts: hosts.to_vec(),
            common: &memory.take(1)[0],
            places: memory.take(hosts.len()),
            texts: memory.take(hosts.len()),
            locks: memory.take(LOCKS),
            bells: Bells::new(memory),
            is_at_barrier: AtomicBool::new(false),
            departures: hosts.len() as u32 + u32::from(has_others),
            lock_spin: spin(2),
            barrier_spin: spin(hosts.len()),
        }
    }

    /// The hosts of the machine, each at its place.
    pub fn hosts(&self) -> &[HostId] {
        &self.hosts
    }

    /// The place of this host.
    pub const fn place(&self) -> usize {
        self.me
    }

    /// 1 while the thread that serves the machine sleeps.
    pub const fn asleep(&self) -> &'static AtomicU32 {
        &self.common.asleep
    }

    /// How long a thread looks at a word before it sleeps.
    pub const fn spin(&self) -> Duration {
        self.lock_spin
    }

    /// Where threads sleep that wait for words of shared memory.
    pub const fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Waits until no thread of any host has the lock, and takes it. A lock of a host that has left is free.
    ///
    /// # Errors
    /// The job has used too many different locks, or the call is interrupted.
    pub fn lock(&self, lock: u64) -> Result<Ended, Error> {
        let word = self.slot(lock, true).ok_or(Error::TooManyLocks { limit: LOCKS })?;
        let mut has_slept = false;
        let mut spin_until = None;
        loop {
            let now = LockWord(word.load(SeqCst));
            if now.holder().is_none_or(|place| self.has_left(place.index())) {
                // Others may sleep yet where this thread slept.
                let mine = LockWord::held(self.my_word(), has_slept || now.is_awaited());
                if word.compare_exchange(now.0, mine.0, SeqCst, SeqCst).is_ok() {
                    return Ok(Ended::Well);
                }
            } else if self.loss().is_some() {
                return Ok(Ended::Lost);
            } else if has_slept && is_interrupted() {
                return Err(Error::Interrupted);
            } else if Instant::now() < *spin_until.get_or_insert_with(|| Instant::now() + self.lock_spin) {
                spin_loop();
            } else {
                let awaited = now.awaited();
                if now == awaited || word.compare_exchange(now.0, awaited.0, SeqCst, SeqCst).is_ok() {
                    sleep_for(word, awaited.0, sleep_ns(SLEEP_NS));
                    (has_slept, spin_until) = (true, None);
                }
            }
        }
    }

    /// Takes the lock if no thread of any host has it. Whether it is taken.
    ///
    /// # Errors
    /// The job has used too many different locks.
    pub fn try_lock(&self, lock: u64) -> Result<bool, Error> {
        let word = self.slot(lock, true).ok_or(Error::TooManyLocks { limit: LOCKS })?;
        let taken = word.fetch_update(SeqCst, SeqCst, |word| {
            let now = LockWord(word);
            let is_free = now.holder().is_none_or(|place| self.has_left(place.index()));
            is_free.then(|| LockWord::held(self.my_word(), now.is_awaited()).0)
        });
        Ok(taken.is_ok())
    }

    /// Whether a thread of this host has a lock.
    pub fn has(&self, lock: u64) -> bool {
        let word = self.slot(lock, false).map(|word| LockWord(word.load(SeqCst)));
        word.and_then(LockWord::holder) == Some(self.my_word())
    }

    /// Gives a lock up; `false` if no thread of this host has it.
    pub fn unlock(&self, lock: u64) -> bool {
        let Some(word) = self.slot(lock, false) else { return false };
        let freed = word.fetch_update(SeqCst, SeqCst, |word| {
            (LockWord(word).holder() == Some(self.my_word())).then_some(LockWord::FREE.0)
        });
        if freed.is_ok_and(|word| LockWord(word).is_awaited()) {
            wake(word, 1);
        }
        freed.is_ok()
    }

    /// Waits until all hosts have arrived, each with one thread, and whether all called the same; `None` if another thread of
    /// this host is there. With a call that differs, a host of the machine and what that one called in words, if there is one. The
    /// last host to arrive calls `meet` with what all have called. A wait that `is_in_vain` ends as if a host was lost.
    pub fn arrive(
        &self,
        call: u64,
        text: &str,
        is_in_vain: &dyn Fn() -> bool,
        meet: impl FnOnce(u64) -> Ended,
    ) -> Option<(Ended, Option<(HostId, String)>)> {
        if self.is_at_barrier.swap(true, SeqCst) {
            return None;
        }
        let round = BarrierWord(self.common.barrier.load(SeqCst)).parity();
        let ended = self.pass(call, text, round, is_in_vain, meet);
        let other = if ended == Ended::Disagreed { self.other(round) } else { None };
        self.is_at_barrier.store(false, SeqCst);
        Some((ended, other))
    }

    /// A host of another machine did something else at the barrier than this machine.
    pub fn differ(&self, Other { host, word }: Other) {
        self.common.other_word.store(word, SeqCst);
        self.common.other_host.store(u32::from(host.0) + 1, SeqCst);
    }

    /// That host, and what it said.
    pub fn differed(&self) -> Option<Other> {
        let host = self.common.other_host.load(SeqCst).checked_sub(1)?;
        Some(Other { host: HostId(host as u16), word: self.common.other_word.load(SeqCst) })
    }

    /// A host that called something else in this round than this one, or has left.
    fn other(&self, round: usize) -> Option<(HostId, String)> {
        let mut places = (0..self.places.len()).filter(|place| *place != self.me);
        if BarrierWord(self.common.barrier.load(SeqCst)).parity() == round {
            // Not all have come, and texts may be those of the round before the last.
            let gone = places.find(|place| self.has_left(*place));
            return gone.map(|place| (self.hosts[place], "leave()".to_owned()));
        }
        let read = |place: usize| (self.hosts[place], self.texts[place].0[round].read());
        let (_, mine) = read(self.me);
        places.map(read).find(|(_, other)| *other != mine)
    }

    fn pass(
        &self,
        call: u64,
        text: &str,
        round: usize,
        is_in_vain: &dyn Fn() -> bool,
        meet: impl FnOnce(u64) -> Ended,
    ) -> Ended {
        let Common { barrier, arrived: Line(arrived), .. } = self.common;
        // A round that a loss ended is never complete: those that came to it still count as arrived.
        if self.loss().is_some() {
            return Ended::Lost;
        }
        // It stays so until this host has arrived, or until one leaves, which no round ends after.
        let before = BarrierWord(barrier.load(SeqCst));
        if before.ended(before).is_some() {
            return Ended::Disagreed;
        }
        self.texts[self.me].0[round].write(text);
        self.mine().call.store(call, SeqCst);
        if arrived.fetch_add(1, SeqCst) + 1 == self.places.len() as u32 {
            let is_same = self.places.iter().all(|place| place.call.load(SeqCst) == call);
            let met = meet(if is_same { call } else { DIFFERENT });
            if met == Ended::Lost {
                return met;
            }
            arrived.store(0, SeqCst);
            change(barrier, |word| word.passed(is_same && met == Ended::Well));
            self.wake_sleepers(barrier);
        }
        self.wait(barrier, self.barrier_spin, is_in_vain, |word| {
            let agreed = BarrierWord(word).ended(before)?;
            Some(if agreed { Ended::Well } else { Ended::Disagreed })
        })
    }

    /// Waits until all hosts leave, and all other machines. The locks that this host has are free from then on. Calls `tell` when
    /// it has said so.
    pub fn leave(&self, tell: impl FnOnce()) -> Ended {
        let Common { barrier, leaving, .. } = self.common;
        // A host that goes because of a loss does not say so: others would take it for one that disagrees.
        if self.loss().is_none() {
            self.mine().has_left.store(1, SeqCst);
            change(barrier, BarrierWord::left);
            leaving.fetch_add(1, SeqCst);
            self.wake_sleepers(barrier);
            self.wake_sleepers(leaving);
            tell();
        }
        self.wait(leaving, Duration::ZERO, &|| false, |leaving| {
            (leaving >= self.departures).then_some(Ended::Well)
        })
    }

    /// Whether any host of the machine leaves, and whether all do.
    pub fn leaving(&self) -> (bool, bool) {
        let leaving = self.common.leaving.load(SeqCst);
        (leaving > 0, leaving >= self.places.len() as u32)
    }

    /// All other machines leave too.
    pub fn others_leave(&self) {
        self.common.leaving.fetch_add(1, SeqCst);
        self.wake_sleepers(&self.common.leaving);
    }

    /// Whether hosts may end: all of the job leave.
    pub fn is_over(&self) -> bool {
        self.common.leaving.load(SeqCst) >= self.departures
    }

    /// Whether the host at a place has said that it leaves.
    fn has_left(&self, place: usize) -> bool {
        self.places.get(place).is_some_and(|place| place.has_left.load(SeqCst) != 0)
    }

    /// No thread of this host uses the memory any more.
    pub fn end(&self) {
        self.mine().has_ended.store(1, SeqCst);
        wake(&self.mine().obeyed, i32::MAX as u32);
        wake(&self.mine().ordered, i32::MAX as u32);
    }

    /// Tells the host at a place to do something. One thread of the machine gives orders, and waits for each.
    pub fn order(&self, place: usize, order: u64) {
        let place = &self.places[place];
        place.order.store(order, SeqCst);
        place.ordered.fetch_add(1, SeqCst);
        wake(&place.ordered, 1);
    }

    /// Waits until the host at a place has done what it was told; `false` if it will not. Calls `meanwhile` now and then.
    pub fn await_obeyed(&self, place: usize, mut meanwhile: impl FnMut()) -> bool {
        let place = &self.places[place];
        loop {
            let obeyed = place.obeyed.load(SeqCst);
            if obeyed == place.ordered.load(SeqCst) || place.has_ended.load(SeqCst) != 0 {
                return true;
            }
            if self.loss().is_some() {
                return false;
            }
            sleep(&place.obeyed, obeyed);
            meanwhile();
        }
    }

    /// What this host was told to do and has not done. Sleeps for some time, unless there is something or `is_over`.
    pub fn next_order(&self, is_over: impl Fn() -> bool) -> Option<u64> {
        let mine = self.mine();
        let obeyed = mine.obeyed.load(SeqCst);
        if mine.ordered.load(SeqCst) == obeyed && !is_over() {
            sleep(&mine.ordered, obeyed);
        }
        (mine.ordered.load(SeqCst) != obeyed).then(|| mine.order.load(SeqCst))
    }

    /// This host has done what it was told.
    pub fn obeyed(&self) {
        self.mine().obeyed.fetch_add(1, SeqCst);
        wake(&self.mine().obeyed, 1);
    }

    /// Shows the others that this host is alive.
    pub fn beat(&self) {
        self.mine().beat.fetch_add(1, Relaxed);
    }

    /// What each host has shown of that so far, by place.
    pub fn beats(&self) -> Vec<u32> {
        self.places.iter().map(|place| place.beat.load(Relaxed)).collect()
    }

    /// A host is lost; where another loss was noticed earlier, that one counts for all.
    pub fn lose(&self, host: HostId, reason: &str) {
        let reason = REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len() - 1) as u32;
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
        &self.places[self.me]
    }

    /// As the holder of a lock: the place is the number there.
    const fn my_word(&self) -> HostId {
        HostId(self.me as u16)
    }

    /// The word of a lock. A name that is on the board stays, so all hosts find a name at the same place.
    fn slot(&self, lock: u64, insert: bool) -> Option<&'static AtomicU32> {
        let name = NAMED | lock;
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

    /// Waits for the end that a word tells, or for a loss, as long as it is not in vain.
    fn wait(
        &self,
        word: &AtomicU32,
        spin: Duration,
        is_in_vain: &dyn Fn() -> bool,
        ended: impl Fn(u32) -> Option<Ended>,
    ) -> Ended {
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
            if is_in_vain() {
                return Ended::Lost;
            }
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
pub fn sleep(word: &AtomicU32, value: u32) {
    sleep_for(word, value, SLEEP_NS);
}

/// The same for so long at most, which is less than a second.
pub fn sleep_for(word: &AtomicU32, value: u32, longest_ns: i64) {
    // However it ends, the word is looked at again.
    let _ = futex::wait(word, Flags::empty(), value, Some(&Timespec { tv_sec: 0, tv_nsec: longest_ns }));
}

/// Wakes so many threads that sleep on the word.
pub fn wake(word: &AtomicU32, threads: u32) {
    let _ = futex::wake(word, Flags::empty(), threads);
}
