//! The access log: what the processes of a run looked up and read, for the access profile of the next run.
//!
//! All processes append to one log. A record is a few words long and lies within one *block* of [`BLOCK_WORDS`] words:
//!
//! ```text
//!   word 0  kind (8 bits), words (16 bits), bytes of the path (16 bits); written last, and 0 until then
//!   word 1  time in units of 2^TIME_SHIFT ticks since the start of the run (low half), base or file (high half)
//!   path:   the bytes of the path, eight a word       range: first byte; byte behind the last, with the mark UNFINISHED
//!   file:   device; inode; bytes; time of modification
//! ```
//!
//! A record has a *place*, the index of its first word + 1. Records name each other by it: a relative path names the record of
//! the folder that it begins at, and a range that of its file. So a reader needs to know nothing of processes and descriptors.
//! Attributes of a regular file name its path, too. They are those of the time of use, and no reader asks a file system for them.
//!
//! Ordering: a writer reserves its words by a compare-and-swap of `head`, fills them, and releases word 0. A reader acquires
//! it. A writer that is killed in between leaves a hole, behind which the reader goes on at the next block. The range of a record
//! grows in place, by stores of its last word. The log never wraps: once it is full, nothing more is recorded.
//!
//! What is recorded stands in two tables by hashes, too, so that no process repeats what another one has recorded.
//!
//! The memory is not trusted. A record that cannot be one is a hole, and no word is used as an index unchecked.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Words in which a record lies as a whole.
pub const BLOCK_WORDS: usize = 512;
/// Blocks of a log.
pub const BLOCKS: usize = 2020;
/// Words for records.
pub const WORDS: usize = BLOCKS * BLOCK_WORDS;
/// The longest path of a record, in bytes. Longer ones are not recorded.
pub const PATH_BYTES_MAX: usize = 1024;
/// Times are in units of so many ticks: 2 to the power of this.
pub const TIME_SHIFT: u32 = 12;
/// Paths and ranges that are found again.
pub const PATHS: usize = 8192;
/// See [`PATHS`].
pub const RANGES: usize = 4096;
/// In the last word of a range: its file was still being read in sequence when its reader was last looked at.
pub const UNFINISHED: u64 = 1 << 63;

/// Words before the path or range of a record.
const HEAD_WORDS: usize = 2;
const RANGE_WORDS: usize = HEAD_WORDS + 2;
const FILE_WORDS: usize = HEAD_WORDS + 4;
/// How often a writer tries to reserve its words while others do.
const RESERVATIONS_MAX: u32 = 1000;

/// Bits of [`AccessLog::wanted`].
pub mod wanted {
    /// Look-ups and reads.
    pub const ACCESSES: u64 = 1 << 0;
    /// Which pages of mapped files a process has when it ends.
    pub const MAPPED: u64 = 1 << 1;
    /// Look-ups and reads of a process that has waited for a file: its needs may have neighbours.
    pub const AFTER_WAIT: u64 = 1 << 2;
}

/// The log of a run. Tests have shorter ones.
#[repr(C)]
pub struct AccessLog<W = [AtomicU64; WORDS]> {
    /// Bits of [`wanted`]. The supervisor sets them before it starts the program, and may clear them when it knows enough.
    pub wanted: AtomicU64,
    /// The time-stamp counter at the start of the run.
    pub since: AtomicU64,
    /// Words that are reserved.
    pub head: AtomicU64,
    /// Paths that are recorded.
    pub paths: [AtomicU64; PATHS],
    /// Ranges that are recorded.
    pub ranges: [AtomicU64; RANGES],
    /// Records.
    pub words: W,
}

/// What a record with a path says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Nothing: it is where other paths begin, or names a file that was open before.
    Named = 1,
    /// It was found.
    Found,
    /// It was not there.
    Missing,
    /// A symbolic link's contents were read.
    Link,
    /// It was executed, or was to be.
    Executed,
    /// It was not there, and was made.
    Made,
}

/// What a record with a range says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Use {
    /// It was read.
    Read = 16,
    /// It is mapped, and the process had it in memory.
    Mapped,
    /// The directory's entries were read; the range is empty.
    Listed,
}

/// Attributes of a regular file.
const FILE: u8 = 32;
/// Fills the rest of a block that the next record does not fit.
const FILLER: u8 = 255;

/// What tells a regular file from another one, and from what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Device of the file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of the data, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A path.
    Path {
        /// What came of it.
        outcome: Outcome,
        /// When, as by [`AccessLog::time`].
        at: u32,
        /// Place of the record that a relative path begins at; 0 for none.
        base: u32,
        /// The path, not terminated.
        path: &'a [u8],
    },
    /// A range of a file.
    Range {
        /// How it was used.
        used: Use,
        /// When it was first.
        at: u32,
        /// Place of the record that names the file.
        file: u32,
        /// The first byte.
        start: u64,
        /// The byte behind the last.
        end: u64,
        /// See [`UNFINISHED`].
        is_unfinished: bool,
    },
    /// Attributes of a regular file as it was used.
    File {
        /// When it was opened; 0 where it was used in another way.
        opened: u32,
        /// Place of the record that names the file.
        file: u32,
        /// The attributes.
        attributes: Attributes,
    },
}

impl<W: AsRef<[AtomicU64]>> AccessLog<W> {
    /// The time that records have of this moment of the time-stamp counter.
    #[must_use]
    #[inline]
    pub fn time(&self, ticks: u64) -> u32 {
        let units = ticks.saturating_sub(self.since.load(Relaxed)) >> TIME_SHIFT;
        if units > u32::MAX as u64 { u32::MAX } else { units as u32 }
    }

    /// Appends a path, and returns the record's place; `None` where there is no room, or the path is too long.
    #[inline]
    pub fn append_path(&self, outcome: Outcome, at: u32, base: u32, path: &[u8]) -> Option<u32> {
        if path.len() > PATH_BYTES_MAX {
            return None;
        }
        let count = HEAD_WORDS + path.len().div_ceil(8);
        let start = self.reserve(count)?;
        let words = self.words.as_ref().get(start..start.checked_add(count)?)?;
        let (head, body) = words.split_at_checked(HEAD_WORDS)?;
        let mut chunks = path.chunks_exact(8);
        for (word, chunk) in body.iter().zip(&mut chunks) {
            word.store(u64::from_le_bytes(chunk.try_into().unwrap_or_default()), Relaxed);
        }
        if let (false, Some(last)) = (chunks.remainder().is_empty(), body.last()) {
            let bytes = chunks.remainder().iter().rev();
            last.store(bytes.fold(0, |word, byte| word << 8 | u64::from(*byte)), Relaxed);
        }
        publish(head, outcome as u8, count, path.len(), at, base);
        Some(start as u32 + 1)
    }

    /// Appends a range, and returns the record's place; `None` where there is no room.
    #[inline]
    pub fn append_range(&self, used: Use, at: u32, file: u32, start: u64, end: u64) -> Option<u32> {
        let place = self.reserve(RANGE_WORDS)?;
        let [head @ .., first, last] = self.words.as_ref().get(place..place.checked_add(RANGE_WORDS)?)?
        else {
            return None;
        };
        first.store(start, Relaxed);
        last.store(end & !UNFINISHED, Relaxed);
        publish(head, used as u8, RANGE_WORDS, 0, at, file);
        Some(place as u32 + 1)
    }

    /// Appends attributes of the file that the record at `file` names. `opened` is when it was opened, or 0. Without room they are
    /// left out.
    #[inline]
    pub fn append_attributes(&self, opened: u32, file: u32, attributes: &Attributes) {
        let Attributes { dev, ino, size, mtime_ns } = *attributes;
        let Some(place) = self.reserve(FILE_WORDS) else { return };
        let words = self.words.as_ref().get(place..).and_then(|words| words.split_at_checked(FILE_WORDS));
        if let Some((head, body)) = words.and_then(|(words, _)| words.split_at_checked(HEAD_WORDS)) {
            for (word, value) in body.iter().zip([dev, ino, size, mtime_ns.cast_unsigned()]) {
                word.store(value, Relaxed);
            }
            publish(head, FILE, FILE_WORDS, 0, opened, file);
        }
    }

    /// The range of the record at `place` goes up to `end`, at least. Threads that extend it at once may lose one extension.
    #[inline]
    pub fn extend(&self, place: u32, end: u64) {
        if let Some(last) = self.word(place, RANGE_WORDS - 1) {
            let before = last.load(Relaxed);
            if end > before & !UNFINISHED {
                last.store(end & !UNFINISHED | before & UNFINISHED, Relaxed);
            }
        }
    }

    /// Where the range of the record at `place` ends, as far as it has come.
    #[must_use]
    pub fn end_of(&self, place: u32) -> Option<u64> {
        self.word(place, RANGE_WORDS - 1).map(|last| last.load(Relaxed) & !UNFINISHED)
    }

    /// Sets or removes the mark [`UNFINISHED`] of the record at `place`.
    #[inline]
    pub fn mark(&self, place: u32, is_unfinished: bool) {
        if let Some(last) = self.word(place, RANGE_WORDS - 1) {
            let end = last.load(Relaxed) & !UNFINISHED;
            last.store(if is_unfinished { end | UNFINISHED } else { end }, Relaxed);
        }
    }

    #[inline]
    fn word(&self, place: u32, index: usize) -> Option<&AtomicU64> {
        self.words.as_ref().get((place as usize).checked_sub(1)?.checked_add(index)?)
    }

    /// Reserves so many words in one block.
    #[inline]
    fn reserve(&self, count: usize) -> Option<usize> {
        let words = self.words.as_ref();
        let mut head = self.head.load(Relaxed);
        for _ in 0..RESERVATIONS_MAX {
            let at = usize::try_from(head).ok().filter(|at| *at < words.len())?;
            let left = BLOCK_WORDS - at % BLOCK_WORDS;
            let start = if count > left { at + left } else { at };
            let end = start + count;
            if count > BLOCK_WORDS || end > words.len() {
                return None;
            }
            match self.head.compare_exchange_weak(head, end as u64, Relaxed, Relaxed) {
                Ok(_) => {
                    if start > at
                        && let Some(first) = words.get(at)
                    {
                        first.store(head_word(FILLER, left, 0), Release);
                    }
                    return Some(start);
                }
                Err(now) => head = now,
            }
        }
        None
    }
}

/// Where a table has what has this hash: half of the hash, and the place of the record, in one of two words.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    words: [&'a AtomicU64; 2],
    hash: u64,
}

impl<'a> Entry<'a> {
    /// Of those with one place in the table, the last two are found.
    #[inline]
    pub fn new<const COUNT: usize>(table: &'a [AtomicU64; COUNT], hash: u64) -> Self {
        const { assert!(COUNT.is_power_of_two() && COUNT > 1) };
        let index = hash as usize % COUNT;
        Self { words: [index, index ^ 1].map(|index| table.get(index).unwrap_or(&table[0])), hash }
    }

    /// Place of the record, if there is one.
    #[must_use]
    #[inline]
    pub fn place(&self) -> Option<u32> {
        self.found().map(|place| place & !OPENED)
    }

    #[inline]
    fn found(&self) -> Option<u32> {
        let [first, second] = self.words.map(|word| word.load(Relaxed));
        let is_own = |word: u64| word >> 32 == self.hash >> 32 && word as u32 & !OPENED != 0;
        if is_own(first) { Some(first as u32) } else { is_own(second).then_some(second as u32) }
    }

    /// Keeps the place of the record.
    #[inline]
    pub fn keep(&self, place: u32) {
        let [first, second] = self.words;
        let before = first.load(Relaxed);
        if before >> 32 != self.hash >> 32 {
            second.store(before, Relaxed);
        }
        first.store(self.hash >> 32 << 32 | u64::from(place), Relaxed);
    }

    /// Whether it is the first time that the path of the record at `place` is opened.
    #[must_use]
    #[inline]
    pub fn opens(&self, place: u32) -> bool {
        let is_first = self.found().is_none_or(|found| found & OPENED == 0);
        if is_first {
            self.keep(place | OPENED);
        }
        is_first
    }
}

/// In an entry: the path was opened.
const OPENED: u32 = 1 << 31;

#[inline]
fn publish(head: &[AtomicU64], kind: u8, words: usize, path_bytes: usize, at: u32, of: u32) {
    if let [first, second] = head {
        second.store(u64::from(of) << 32 | u64::from(at), Relaxed);
        first.store(head_word(kind, words, path_bytes), Release);
    }
}

const fn head_word(kind: u8, words: usize, path_bytes: usize) -> u64 {
    kind as u64 | (words as u64) << 8 | (path_bytes as u64) << 24
}

impl Outcome {
    const ALL: [Self; 6] = [Self::Named, Self::Found, Self::Missing, Self::Link, Self::Executed, Self::Made];
}

impl Use {
    const ALL: [Self; 3] = [Self::Read, Self::Mapped, Self::Listed];
}

/// Goes through a log, once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    at: usize,
    holes: u64,
}

impl Cursor {
    /// Blocks of which a part was passed over: a writer was killed, or the memory is damaged.
    #[must_use]
    pub const fn holes(&self) -> u64 {
        self.holes
    }

    /// The next record and its place, with the bytes of its path in `path`. `None` behind the last.
    pub fn next<'a, W: AsRef<[AtomicU64]>>(
        &mut self,
        log: &AccessLog<W>,
        path: &'a mut [u8; PATH_BYTES_MAX],
    ) -> Option<(u32, Record<'a>)> {
        let all = log.words.as_ref();
        let end = usize::try_from(log.head.load(Acquire)).unwrap_or(usize::MAX).min(all.len());
        while self.at < end {
            let left = BLOCK_WORDS - self.at % BLOCK_WORDS;
            let head = all.get(self.at)?.load(Acquire);
            let (kind, count, bytes) = (head as u8, (head >> 8 & 0xffff) as usize, (head >> 24) as usize);
            let is_whole = (1..=left.min(end - self.at)).contains(&count);
            if is_whole && kind == FILLER {
                self.at += count;
                continue;
            }
            let words = if is_whole { all.get(self.at..self.at + count)? } else { &[] };
            let Some(found) = Parts::of(kind, bytes, words) else {
                self.at += left;
                self.holes += 1;
                continue;
            };
            let place = self.at as u32 + 1;
            self.at += count;
            return Some((place, found.record(path)));
        }
        None
    }
}

/// A record that can be one.
enum Parts<'a> {
    Path { outcome: Outcome, second: u64, bytes: usize, body: &'a [AtomicU64] },
    Range { used: Use, second: u64, start: u64, end: u64 },
    File { second: u64, attributes: Attributes },
}

impl<'a> Parts<'a> {
    fn of(kind: u8, bytes: usize, words: &'a [AtomicU64]) -> Option<Self> {
        let (head, body) = words.split_at_checked(HEAD_WORDS)?;
        let second = head.get(1)?.load(Relaxed);
        if let Some(used) = Use::ALL.into_iter().find(|used| *used as u8 == kind) {
            let [start, end] = body else { return None };
            let (start, end) = (start.load(Relaxed), end.load(Relaxed));
            return (start <= end & !UNFINISHED).then_some(Self::Range { used, second, start, end });
        }
        if kind == FILE {
            let [dev, ino, size, mtime_ns] = body else { return None };
            let [dev, ino, size, mtime_ns] = [dev, ino, size, mtime_ns].map(|word| word.load(Relaxed));
            let attributes = Attributes { dev, ino, size, mtime_ns: mtime_ns.cast_signed() };
            return Some(Self::File { second, attributes });
        }
        let outcome = Outcome::ALL.into_iter().find(|outcome| *outcome as u8 == kind)?;
        let fits = bytes <= PATH_BYTES_MAX && bytes.div_ceil(8) == body.len();
        fits.then_some(Self::Path { outcome, second, bytes, body })
    }

    fn record<'b>(&self, path: &'b mut [u8; PATH_BYTES_MAX]) -> Record<'b> {
        match *self {
            Self::Range { used, second, start, end } => Record::Range {
                used,
                at: second as u32,
                file: (second >> 32) as u32,
                start,
                end: end & !UNFINISHED,
                is_unfinished: end & UNFINISHED != 0,
            },
            Self::File { second, attributes } => {
                Record::File { opened: second as u32, file: (second >> 32) as u32, attributes }
            }
            Self::Path { outcome, second, bytes, body } => {
                for (chunk, word) in path.chunks_exact_mut(8).zip(body) {
                    chunk.copy_from_slice(&word.load(Relaxed).to_le_bytes());
                }
                let path = path.get(..bytes).unwrap_or_default();
                Record::Path { outcome, at: second as u32, base: (second >> 32) as u32, path }
            }
        }
    }
}

const _: () = assert!(PATH_BYTES_MAX / 8 + HEAD_WORDS <= BLOCK_WORDS && PATH_BYTES_MAX.is_multiple_of(8));
const _: () = assert!(WORDS < OPENED as usize);
