//! Memory that the program keeps from its children (`MADV_DONTFORK`), as V8 does with its heap. A speculator needs it.
//!
//! The agent takes note of such memory, and lets the kernel copy it while a speculator is forked. What is mapped elsewhere, or
//! anew, is forgotten before the program can use it.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

use crate::call::Call;

/// Ranges that can be noted.
const RANGES: usize = 128;
const PAGE: usize = 4096;

/// A range of addresses; empty where its place is free. A thread that changes one leaves it empty meanwhile.
struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
}

static KEPT: [Range; RANGES] =
    [const { Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; RANGES];
/// Whether all is seen that maps, moves and unmaps memory.
static IS_SEEN: AtomicBool = AtomicBool::new(false);
/// Whether there may be any.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

impl Range {
    fn get(&self) -> (usize, usize) {
        (self.start.load(Relaxed), self.end.load(Relaxed))
    }

    fn set(&self, start: usize, end: usize) {
        self.end.store(0, Relaxed);
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
    }

    fn advise(&self, advice: u32) {
        let (start, end) = self.get();
        if start < end {
            // SAFETY: the program's own memory, whose contents the advice leaves as they are.
            let _ = unsafe { sys!(n::__NR_madvise, start, end - start, advice) };
        }
    }
}

/// Everything is seen that maps, moves and unmaps memory of the program.
pub fn begin() {
    IS_SEEN.store(true, Relaxed);
}

/// Takes note of a call on memory that is about to be made.
#[inline(always)]
pub fn before(call: &Call) {
    if !HAS_ANY.load(Relaxed) {
        return;
    }
    let [address, length, third, flags, fifth, _] = call.arguments;
    match call.number as u32 {
        n::__NR_munmap => forget(address, length),
        n::__NR_madvise if matches!(third as u32, n::MADV_DOFORK | n::MADV_DONTFORK) => {
            forget(address, length)
        }
        n::__NR_mmap if flags as u32 & n::MAP_FIXED != 0 => forget(address, length),
        n::__NR_mremap => {
            forget(address, length);
            if flags as u32 & n::MREMAP_FIXED != 0 {
                forget(fifth, third);
            }
        }
        _ => {}
    }
}

/// Takes note of a call on memory that was made.
#[inline(always)]
pub fn after(call: &Call, result: isize) {
    let [address, length, advice, ..] = call.arguments;
    let keeps = call.number as u32 == n::__NR_madvise && advice as u32 == n::MADV_DONTFORK;
    if keeps && result == 0 && IS_SEEN.load(Relaxed) {
        keep(address, end_of(address, length));
    }
}

#[cold]
#[inline(never)]
fn keep(start: usize, end: usize) {
    HAS_ANY.store(true, Relaxed);
    if let Some(place) = KEPT.iter().find(|range| range.end.load(Relaxed) == 0) {
        place.set(start, end);
    }
}

/// The end of what a call on memory is about, which is whole pages.
fn end_of(address: usize, length: usize) -> usize {
    address.saturating_add(length.checked_next_multiple_of(PAGE).unwrap_or(length))
}

/// Forgets what of the ranges is in `length` bytes from an address.
#[cold]
#[inline(never)]
fn forget(from: usize, length: usize) {
    let to = end_of(from, length);
    for range in &KEPT {
        let (start, end) = range.get();
        if start >= end || end <= from || to <= start {
            continue;
        }
        range.set(0, 0);
        if start < from {
            keep(start, from);
        }
        if to < end {
            keep(to, end);
        }
    }
}

/// Lets the kernel copy all of it.
pub fn share() {
    advise_all(n::MADV_DOFORK);
}

/// Keeps all of it from children again.
pub fn keep_back() {
    advise_all(n::MADV_DONTFORK);
}

fn advise_all(advice: u32) {
    if HAS_ANY.load(Relaxed) {
        KEPT.iter().for_each(|range| range.advise(advice));
    }
}
