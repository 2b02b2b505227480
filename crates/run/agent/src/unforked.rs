//! Memory that the program keeps from its children (`MADV_DONTFORK`), as V8 does with its heap. A speculator needs it.
//!
//! The agent takes note of such memory, and lets the kernel copy it while a speculator is forked. What is mapped elsewhere, or
//! anew, is forgotten before the program can use it. A fork of the program waits for that of a speculator, and a speculator that
//! is forked beside one has none of the memory.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

use crate::call::Call;
use crate::kept::Kept;
use crate::role;

const PAGE: usize = 4096;
/// `shmat` maps over what is there.
const SHM_REMAP: usize = 0o40000;
/// How often a fork of the program looks whether the memory is kept from it again.
const YIELDS_MAX: u32 = 100_000;

fn kept() -> &'static Kept {
    &role::PAGE.kept
}

/// Whether all is seen that maps, moves and unmaps memory.
static IS_SEEN: AtomicBool = AtomicBool::new(false);

/// Everything is seen that maps, moves and unmaps memory of the program.
pub fn begin() {
    IS_SEEN.store(true, Relaxed);
}

/// Takes note of a call on memory that is about to be made.
#[inline(always)]
pub fn before(call: &Call) {
    if !kept().has_any() {
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
    kept().has_any.store(true, Relaxed);
    if let Some(place) = kept().ranges.iter().find(|range| range.end.load(Relaxed) == 0) {
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
    for range in &kept().ranges {
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
    if kept().has_any() {
        kept().is_shared.store(true, SeqCst);
        if kept().forks.load(SeqCst) == 0 {
            advise_all(n::MADV_DOFORK);
        }
    }
}

/// Keeps all of it from children again.
pub fn keep_back() {
    if kept().is_shared.load(Relaxed) {
        advise_all(n::MADV_DONTFORK);
        kept().is_shared.store(false, SeqCst);
    }
}

fn advise_all(advice: u32) {
    kept().ranges.iter().for_each(|range| range.advise(advice));
}

/// The program is about to fork: waits until all of it is kept back. Whether [`end_fork`] must follow, in the parent.
#[inline(always)]
pub fn begin_fork() -> bool {
    let has_any = kept().has_any();
    if has_any {
        wait_until_kept();
    }
    has_any
}

#[cold]
#[inline(never)]
fn wait_until_kept() {
    for _ in 0..YIELDS_MAX {
        kept().forks.fetch_add(1, SeqCst);
        if !kept().is_shared.load(SeqCst) {
            return;
        }
        kept().forks.fetch_sub(1, SeqCst);
        // SAFETY: no arguments.
        let _ = unsafe { sys!(n::__NR_sched_yield) };
    }
    kept().forks.fetch_add(1, SeqCst);
}

/// The fork has been made.
pub fn end_fork() {
    kept().forks.fetch_sub(1, SeqCst);
}
