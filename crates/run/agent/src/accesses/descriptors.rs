//! What descriptors are of, and the ranges that are read through them.
//!
//! A descriptor has the place of the record that names its file. Forked children inherit that. Two descriptors of one open file,
//! or calls that are not seen, can make a wrong range. That costs a useless prefetch at most, because the supervisor cuts ranges at
//! the file's end.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use forebay_protocol::access_log::{AccessLog, Entry, PATH_BYTES_MAX, Use};
use forebay_sigsafe::general as n;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::sys;

use super::text::mix;
use super::{ATTENTION_CALLS, READER, TEXT, identify, kept, name, now};
use crate::timing;

/// Ranges of one process that prolong the window, at most. Behind them, only reads that leave the processor are new.
const ATTENDED_RANGES_MAX: u32 = 1 << 14;
/// A sequence of so many reads that goes on in the last calls of a window goes on behind it, too.
const SEQUENCE_MIN: u32 = 32;
const LAST_CALLS: u32 = 16;
/// Descriptors below this are followed.
const DESCRIPTORS_MAX: usize = 1024;

/// A descriptor.
struct Descriptor {
    /// Place of the record that names its file; 0 for unknown, or [`NO_FILE`].
    name: AtomicU32,
    /// Place of the range that its last read is in; 0 for none.
    range: AtomicU32,
    /// Where that read ended.
    end: AtomicU64,
    /// Where the next read at the file's own offset begins.
    position: AtomicU64,
    /// The window in which that was known; 0 for unknown.
    window: AtomicU32,
    /// Reads in a row that began where the one before ended.
    sequence: AtomicU32,
}

const NO_FILE: u32 = u32::MAX;

static DESCRIPTORS: [Descriptor; DESCRIPTORS_MAX] = [const {
    Descriptor {
        name: AtomicU32::new(0),
        range: AtomicU32::new(0),
        end: AtomicU64::new(0),
        position: AtomicU64::new(0),
        window: AtomicU32::new(0),
        sequence: AtomicU32::new(0),
    }
}; DESCRIPTORS_MAX];

/// Ranges that have prolonged the window.
static ATTENDED_RANGES: AtomicU32 = AtomicU32::new(0);
/// Where sequences of reads were left for others.
static LEFT: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// A descriptor is of a file that was opened just now, and that a record names, if there is one.
pub fn opened(descriptor: usize, place: Option<u32>) {
    if let Some(descriptor) = DESCRIPTORS.get(descriptor) {
        descriptor.name.store(place.unwrap_or(0), Relaxed);
        descriptor.range.store(0, Relaxed);
        descriptor.is_at(0);
    }
}

/// The offset of a descriptor is this.
#[inline]
pub fn moved(descriptor: usize, position: u64) {
    if let Some(descriptor) = DESCRIPTORS.get(descriptor) {
        descriptor.is_at(position);
    }
}

/// A descriptor is of the same open file as another one.
pub fn duplicated(from: usize, to: usize) {
    if let (Some(from), Some(to)) = (DESCRIPTORS.get(from), DESCRIPTORS.get(to)) {
        to.name.store(from.name.load(Relaxed), Relaxed);
        to.range.store(0, Relaxed);
        to.window.store(0, Relaxed);
    }
}

/// A descriptor is of something that has no path, or of which nothing can be brought into memory.
pub fn opened_other(descriptor: usize) {
    if let Some(descriptor) = DESCRIPTORS.get(descriptor) {
        descriptor.name.store(NO_FILE, Relaxed);
    }
}

/// The entries of a directory were read.
pub fn note_listing(log: &AccessLog, descriptor: usize) {
    let Some(file) = file_of(log, descriptor) else { return };
    let _ = place_of_range(log, Use::Listed, now(log), file, 0, 0);
}

/// So many bytes were read, at an offset or at the file's own.
pub fn note_range(log: &AccessLog, descriptor: usize, offset: Option<u64>, length: u64) {
    let Some(state) = DESCRIPTORS.get(descriptor) else { return };
    let range = state.range.load(Relaxed);
    if length == 0 {
        // The end of the file. Where it follows reads that were not seen, the range goes on to it.
        let end = state.end.load(Relaxed);
        if offset.map_or_else(|| state.known_position() == Some(end), |offset| offset == end) {
            log.mark(range, false);
        }
        return;
    }
    let Some(file) = file_of(log, descriptor) else { return };
    let Some(start) = offset.or_else(|| state.start(descriptor, length)) else {
        state.name.store(NO_FILE, Relaxed);
        return;
    };
    let end = start.saturating_add(length);
    if offset.is_none() {
        state.is_at(end);
    }
    let before = state.end.swap(end, Relaxed);
    if range != 0 && before == start {
        log.extend(range, end);
        let sequence = state.sequence.load(Relaxed).saturating_add(1);
        state.sequence.store(sequence, Relaxed);
        if sequence >= SEQUENCE_MIN && timing::is_about_to_lapse(LAST_CALLS) {
            log.mark(range, true);
        }
        return;
    }
    // One of several sequences in a file goes on where it was left.
    let left = |at: u64| Entry::new(&LEFT, mix(mix(0, file.into()), at));
    if range != 0 {
        left(before).keep(range);
    }
    let place = left(start).place().or_else(|| {
        let (place, is_new) = place_of_range(log, Use::Read, now(log), file, start, end)?;
        if is_new {
            attend_to_ranges();
        }
        Some(place)
    });
    state.sequence.store(0, Relaxed);
    state.range.store(place.unwrap_or(0), Relaxed);
    log.extend(place.unwrap_or(0), end);
}

/// A range was new.
fn attend_to_ranges() {
    let count = ATTENDED_RANGES.load(Relaxed);
    if count < ATTENDED_RANGES_MAX {
        ATTENDED_RANGES.store(count + 1, Relaxed);
        timing::attend(ATTENTION_CALLS);
    }
}

/// Where the range that begins at `start` is recorded, and whether it was not before.
fn place_of_range(
    log: &AccessLog,
    used: Use,
    at: u32,
    file: u32,
    start: u64,
    end: u64,
) -> Option<(u32, bool)> {
    let entry = Entry::new(&log.ranges, mix(mix(used as u64, file.into()), start));
    if let Some(place) = entry.place() {
        return Some((place, false));
    }
    let place = kept(entry, log.append_range(used, at, file, start, end))?;
    Some((place, true))
}

/// Records that a range is used, in this image of the process. Whether there may be room for more.
pub fn record_range(log: &AccessLog, used: Use, at: u32, file: u32, start: u64, end: u64) -> bool {
    let recorded = place_of_range(log, used, at, file, start, end);
    if let Some((place, _)) = recorded {
        log.extend(place, end);
    }
    recorded.is_some()
}

impl Descriptor {
    /// Its file's own offset is this.
    #[inline]
    fn is_at(&self, position: u64) {
        self.position.store(position, Relaxed);
        self.window.store(timing::window().unwrap_or(0), Relaxed);
    }

    /// Its file's own offset, if no call has gone by unseen since it was known.
    #[inline]
    fn known_position(&self) -> Option<u64> {
        let is_known = timing::window().is_some_and(|window| window == self.window.load(Relaxed));
        is_known.then(|| self.position.load(Relaxed))
    }

    /// Where a read of so many bytes at the file's own offset began. `None` where it has none.
    fn start(&self, descriptor: usize, length: u64) -> Option<u64> {
        if let Some(position) = self.known_position() {
            return Some(position);
        }
        // SAFETY: the call takes numbers.
        let end = unsafe { sys!(n::__NR_lseek, descriptor, 0, n::SEEK_CUR) };
        u64::try_from(end).ok().map(|end| end.saturating_sub(length))
    }
}

/// Place of the record that names the file of a descriptor.
#[inline]
pub fn file_of(log: &AccessLog, descriptor: usize) -> Option<u32> {
    let state = DESCRIPTORS.get(descriptor)?;
    match state.name.load(Relaxed) {
        NO_FILE => None,
        0 => {
            let place = name_of(log, descriptor);
            state.name.store(place.unwrap_or(NO_FILE), Relaxed);
            state.window.store(0, Relaxed);
            place
        }
        place => Some(place),
    }
}

/// Records the path of an open file that this process did not open, or not by a call that was seen.
#[cold]
#[inline(never)]
fn name_of(log: &AccessLog, descriptor: usize) -> Option<u32> {
    let mut link = PathBuffer::<32>::new();
    if !(link.push(b"/proc/self/fd/") && link.push_number(descriptor as u64)) {
        return None;
    }
    let mut text = TEXT.enter(READER)?;
    // SAFETY: a terminated path, and a buffer as large as the call is told.
    let length = unsafe { sys!(n::__NR_readlink, link.as_ptr(), text.as_mut_ptr(), PATH_BYTES_MAX) };
    let named = name(log, text.get(..usize::try_from(length).ok()?)?)?;
    if named.is_first() {
        identify(log, 0, named.place, descriptor as isize);
    }
    Some(named.place)
}
