//! The hint log: the tracked calls that a speculator has made, in order, for the original to tick off.
//!
//! Log `g % LOGS` belongs to the speculator of generation `g`. It is a ring of [`LOG_ENTRIES`] entries with two
//! positions that only ever grow. `head` counts the entries written so far; the speculator alone moves it. `tail` counts
//! the entries that the original is done with; the original alone moves it. Entries `tail..head` are *unread*. Position
//! `p` is entry `p % LOG_ENTRIES`.
//!
//! ```text
//!   original is done with these │ unread: the speculator is this far ahead │ free, at least one entry
//!                             tail                                       head
//!                               ├──── WINDOW ────┤
//! ```
//!
//! A speculator predicts well but not perfectly: it may make a few calls that the original leaves out. So the
//! original looks for its call among the first [`WINDOW`] unread entries and drops what it passes over. A call
//! that is not there is off track (or was never tracked by the speculator); the log stays as it is, so that a
//! later call can still match.
//!
//! A speculator goes through the work of several threads in an order of its own, so each of them finds its calls amid those of the
//! others. There the last [`KEPT`] entries before a match stay unread. The original *ticks off* each entry that it finds, by
//! the signature `TICKED_OFF`, and `tail` passes those at the front.
//!
//! Ordering: the speculator writes an entry, then releases `head`; the original acquires `head`, reads, then
//! releases `tail`, which the speculator acquires before it writes over an entry. Neither side waits or locks. Threads of the
//! original consume at once: one of them reads an entry and ticks it off, and `tail` never falls back. What they passed over may
//! be counted twice.
//!
//! The memory is not trusted. Positions are masked where they select an entry. An impossible distance between them reads as
//! an empty log to the original, and as a full one to the speculator.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::{LOG_ENTRIES, LOGS, LogEntry, Slot, mark};

/// How many unread entries the original searches for its call.
pub const WINDOW: u64 = 32;

const _: () = assert!(LOGS.is_power_of_two() && LOG_ENTRIES.is_power_of_two());
/// How many entries before a match stay unread where several threads consume: what the others do meanwhile.
pub const KEPT: u64 = 256;
/// The signature of an entry that the original has found.
const TICKED_OFF: u64 = 0;

const _: () = assert!(((WINDOW + KEPT) as usize) < LOG_ENTRIES);

/// The log has no room: the speculator is as far ahead as it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The threads of the original that consume a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// One: what it passes over, it does not come back to.
    One,
    /// Several, each of which finds its calls among those of the others.
    Several,
}

impl Readers {
    const fn kept(self) -> u64 {
        match self {
            Self::One => 0,
            Self::Several => KEPT,
        }
    }
}

/// What became of the original's search for its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumed {
    /// The speculator has made this call.
    Matched {
        /// [`LogEntry::mark`] of the call.
        mark: u64,
        /// Hinted entries that were passed over to get to it: wrong hints.
        skipped: u32,
    },
    /// The speculator has not made this call, or not near here.
    Absent {
        /// The speculator is not ahead at all: see [`Consumer::is_empty`].
        empty: bool,
    },
}

#[derive(Clone, Copy)]
struct Log<'a> {
    head: &'a AtomicU64,
    tail: &'a AtomicU64,
    entries: &'a [LogEntry; LOG_ENTRIES],
}

impl<'a> Log<'a> {
    fn of(slot: &'a Slot, generation: u32) -> Self {
        let index = generation as usize & (LOGS - 1);
        Self { head: &slot.heads[index], tail: &slot.tails[index], entries: &slot.logs[index] }
    }

    #[inline]
    fn entry(&self, position: u64) -> &'a LogEntry {
        &self.entries[position as usize & (LOG_ENTRIES - 1)]
    }

    #[inline]
    fn is_ticked_off(&self, tail: u64, ahead: u64) -> bool {
        self.entry(tail.wrapping_add(ahead)).signature.load(Acquire) == TICKED_OFF
    }
}

/// Unread entries between two positions; `None` when no honest pair of processes could have left them so.
#[inline]
fn unread(head: u64, tail: u64) -> Option<u64> {
    let distance = head.wrapping_sub(tail);
    (distance <= LOG_ENTRIES as u64).then_some(distance)
}

/// Empties the log of `generation`, before its speculator is started.
pub fn reset(slot: &Slot, generation: u32) {
    let log = Log::of(slot, generation);
    log.head.store(0, Relaxed);
    if let Some(last) = slot.last_predicted.get(generation as usize % LOGS) {
        last.store(0, Relaxed);
    }
    log.tail.store(0, Release);
}

/// The speculator's end of a log.
#[derive(Clone, Copy)]
pub struct Producer<'a>(Log<'a>);

impl<'a> Producer<'a> {
    /// The end that the speculator of `generation` writes.
    #[must_use]
    pub fn new(slot: &'a Slot, generation: u32) -> Self {
        Self(Log::of(slot, generation))
    }

    /// Appends a call.
    ///
    /// # Errors
    /// [`Full`] when `LOG_ENTRIES - 1` entries are unread; nothing is written.
    #[inline]
    pub fn push(&self, signature: u64, mark: u64) -> Result<(), Full> {
        let head = self.0.head.load(Relaxed);
        let tail = self.0.tail.load(Acquire);
        match unread(head, tail) {
            Some(count) if count < LOG_ENTRIES as u64 - 1 => {}
            _ => return Err(Full),
        }
        let entry = self.0.entry(head);
        entry.signature.store(signature, Relaxed);
        entry.mark.store(mark, Relaxed);
        self.0.head.store(head.wrapping_add(1), Release);
        Ok(())
    }

    /// Unread entries: how far the speculator is ahead, in calls. At most `LOG_ENTRIES`.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u64 {
        unread(self.0.head.load(Relaxed), self.0.tail.load(Acquire)).unwrap_or(LOG_ENTRIES as u64)
    }

    /// Whether the original has caught up.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Marks of the unread entries that the original has found behind others, which stay for other threads.
    pub fn found(&self) -> impl Iterator<Item = u64> {
        let log = self.0;
        let tail = log.tail.load(Acquire);
        let count = unread(log.head.load(Relaxed), tail).unwrap_or(0).min(WINDOW + KEPT);
        (0..count).filter(move |&ahead| log.is_ticked_off(tail, ahead)).map(move |ahead| {
            let entry = log.entry(tail.wrapping_add(ahead));
            entry.mark.load(Relaxed)
        })
    }

    /// Entries written so far: the position of the next one.
    #[must_use]
    #[inline]
    pub fn position(&self) -> u64 {
        self.0.head.load(Relaxed)
    }
}

/// The original's end of a log.
#[derive(Clone, Copy)]
pub struct Consumer<'a>(Log<'a>);

impl<'a> Consumer<'a> {
    /// The end that the original reads while the speculator of `generation` is its newest.
    #[must_use]
    pub fn new(slot: &'a Slot, generation: u32) -> Self {
        Self(Log::of(slot, generation))
    }

    /// Ticks off the original's call. On a match everything up to it is done with, but for what `readers` may come back to.
    #[must_use]
    #[inline]
    pub fn consume(&self, signature: u64, readers: Readers) -> Consumed {
        let tail = self.0.tail.load(Relaxed);
        let count = unread(self.0.head.load(Acquire), tail).unwrap_or(0);
        let found = (0..count.min(WINDOW + readers.kept())).find_map(|ahead| {
            let entry = self.0.entry(tail.wrapping_add(ahead));
            if signature == TICKED_OFF || entry.signature.load(Relaxed) != signature {
                return None;
            }
            // Once it is ticked off another thread may pass it, and the speculator write over it.
            let mark = entry.mark.load(Relaxed);
            let ticked_off = entry.signature.compare_exchange(signature, TICKED_OFF, Release, Relaxed);
            ticked_off.is_ok().then_some((ahead, mark))
        });
        let Some((ahead, mark)) = found else {
            return Consumed::Absent { empty: count == 0 || self.0.is_ticked_off(tail, count - 1) };
        };
        let mut done = ahead.saturating_sub(readers.kept());
        let skipped = if done == 0 { 0 } else { self.hinted(tail, done) };
        while done < count && self.0.is_ticked_off(tail, done) {
            done += 1;
        }
        let _ = self.0.tail.fetch_max(tail.wrapping_add(done), Release);
        Consumed::Matched { mark, skipped: skipped as u32 }
    }

    /// Gives the log up: returns the hinted entries still unread (wrong hints, at most `LOG_ENTRIES`) and marks
    /// them as done with, so that they are counted once.
    #[must_use]
    pub fn abandon(&self) -> u64 {
        let tail = self.0.tail.load(Relaxed);
        let head = self.0.head.load(Acquire);
        let wrong = self.hinted(tail, unread(head, tail).unwrap_or(0));
        self.0.tail.store(head, Release);
        wrong
    }

    /// Unread entries. At most `LOG_ENTRIES`.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u64 {
        unread(self.0.head.load(Acquire), self.0.tail.load(Relaxed)).unwrap_or(0)
    }

    /// Whether the speculator is not ahead: the original has found its last call.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        let tail = self.0.tail.load(Relaxed);
        let count = unread(self.0.head.load(Acquire), tail).unwrap_or(0);
        count == 0 || self.0.is_ticked_off(tail, count - 1)
    }

    /// Entries that the original is done with.
    #[must_use]
    #[inline]
    pub fn position(&self) -> u64 {
        self.0.tail.load(Relaxed)
    }

    fn hinted(&self, from: u64, count: u64) -> u64 {
        let mut hinted = 0;
        for ahead in 0..count {
            if !self.0.is_ticked_off(from, ahead) {
                hinted += self.0.entry(from.wrapping_add(ahead)).mark.load(Relaxed) & mark::HINTED;
            }
        }
        hinted
    }
}
