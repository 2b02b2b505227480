//! Memory that the program keeps from its children (`MADV_DONTFORK`), as V8 does with its heap. A speculator needs it.
//!
//! The agent takes note of such memory, and lets the kernel copy it while a speculator is forked. What is mapped elsewhere, or
//! anew, is forgotten before the program can use it. A fork of the program waits for that of a speculator, and a speculator that
//! is forked beside one has none of the memory.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

use crate::call::Call;

/// Ranges that can be noted.
const RANGES: usize = 128;
const PAGE: usize = 4096;
/// `shmat` maps over what is there.
const SHM_REMAP: usize = 0o40000;
/// How often a fork of the program looks whether the memory is kept from it again.
const YIELDS_MAX: u32 = 100_000;

/// A range of addresses; empty where its place is free. A thread that changes one leaves it empty meanwhile.
struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// The memory that is kept. A forked child has none of it, and finds this empty: the kernel wipes the page there.
#[repr(C, align(4096))]
struct Kept {
    /// Whether there may be any.
    has_any: AtomicBool,
    /// Whether the kernel copies it just now.
    is_shared: AtomicBool,
    /// Forks of the program that are under way.
    forks: AtomicU32,
    ranges: [Range; RANGES],
}

const _: () = assert!(size_of::<Kept>() == PAGE);

static KEPT: Kept = Kept {
    has_any: AtomicBool::new(false),
    is_shared: AtomicBool::new(false),
    forks: AtomicU32::new(0),
    ranges: [const { Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; RANGES],
};

/// Whether all is seen that maps, moves and unmaps memory.
static IS_SEEN: AtomicBool = AtomicBool::new(false);

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
    if !KEPT.has_any.load(Relaxed) {
        return;
    }
    let [address, length, third, flags, fifth, _] = call.arguments;
    match call.number as u32 {
        n::__NR_munmap => forget(address, length),
        n::__NR_brk => forget_end_of_heap(address),
        // How long the segment is, is not known.
        n::__NR_shmdt => forget(address, usize::MAX - address),
        n::__NR_shmat if third & SHM_REMAP != 0 => forget(length & !(PAGE - 1), usize::MAX - length),
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
    if !KEPT.has_any.load(Relaxed) {
        // SAFETY: the page is a whole page of this library's memory, which has nothing but zeroes yet.
        let wiped = unsafe { sys!(n::__NR_madvise, &raw const KEPT, PAGE, n::MADV_WIPEONFORK) };
        if wiped != 0 {
            return;
        }
        KEPT.has_any.store(true, Relaxed);
    }
    if let Some(place) = KEPT.ranges.iter().find(|range| range.end.load(Relaxed) == 0) {
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
    for range in &KEPT.ranges {
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

/// Forgets what the heap loses when it ends at `end`.
#[cold]
#[inline(never)]
fn forget_end_of_heap(end: usize) {
    // SAFETY: the call only tells where the heap ends.
    let now = unsafe { sys!(n::__NR_brk, 0) as usize };
    if let Some(end) = end.checked_next_multiple_of(PAGE).filter(|end| (1..now).contains(end)) {
        forget(end, now - end);
    }
}

/// Lets the kernel copy all of it, unless the program is forking in another thread: its child shall have none.
pub fn share() {
    if KEPT.has_any.load(Relaxed) {
        KEPT.is_shared.store(true, SeqCst);
        if KEPT.forks.load(SeqCst) == 0 {
            advise_all(n::MADV_DOFORK);
        }
    }
}

/// Keeps all of it from children again.
pub fn keep_back() {
    if KEPT.is_shared.load(Relaxed) {
        advise_all(n::MADV_DONTFORK);
        KEPT.is_shared.store(false, SeqCst);
    }
}

fn advise_all(advice: u32) {
    KEPT.ranges.iter().for_each(|range| range.advise(advice));
}

/// The program is about to fork: waits until all of it is kept back. Whether [`end_fork`] must follow, in the parent.
#[inline(always)]
pub fn begin_fork() -> bool {
    let has_any = KEPT.has_any.load(Relaxed);
    if has_any {
        wait_until_kept();
    }
    has_any
}

#[cold]
#[inline(never)]
fn wait_until_kept() {
    for _ in 0..YIELDS_MAX {
        KEPT.forks.fetch_add(1, SeqCst);
        if !KEPT.is_shared.load(SeqCst) {
            return;
        }
        KEPT.forks.fetch_sub(1, SeqCst);
        // SAFETY: no arguments.
        let _ = unsafe { sys!(n::__NR_sched_yield) };
    }
    KEPT.forks.fetch_add(1, SeqCst);
}

/// The fork has been made.
pub fn end_fork() {
    KEPT.forks.fetch_sub(1, SeqCst);
}
