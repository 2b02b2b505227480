//! What is known of the memory that the program keeps from its children.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

/// Ranges that can be noted.
const RANGES: usize = 128;

/// A range of addresses; empty where its place is free. A thread that changes one leaves it empty meanwhile.
pub struct Range {
    start: AtomicUsize,
    pub end: AtomicUsize,
}

/// The memory that is kept. A forked child has none of it, and finds this empty: it is on the [page](crate::role::PAGE) that the kernel wipes.
pub struct Kept {
    /// Whether there may be any.
    pub has_any: AtomicBool,
    /// Whether the kernel copies it just now.
    pub is_shared: AtomicBool,
    /// Forks of the program that are under way.
    pub forks: AtomicU32,
    pub ranges: [Range; RANGES],
}

impl Kept {
    /// None.
    pub const fn new() -> Self {
        Self {
            has_any: AtomicBool::new(false),
            is_shared: AtomicBool::new(false),
            forks: AtomicU32::new(0),
            ranges: [const { Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; RANGES],
        }
    }

    /// Whether there may be any.
    pub fn has_any(&self) -> bool {
        self.has_any.load(Relaxed)
    }
}

impl Range {
    /// Its start and its end.
    pub fn get(&self) -> (usize, usize) {
        (self.start.load(Relaxed), self.end.load(Relaxed))
    }

    /// It has these from now on.
    pub fn set(&self, start: usize, end: usize) {
        self.end.store(0, Relaxed);
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
    }

    /// Gives the kernel advice on it.
    pub fn advise(&self, advice: u32) {
        let (start, end) = self.get();
        if start < end {
            // SAFETY: the program's own memory, whose contents the advice leaves as they are.
            let _ = unsafe { sys!(n::__NR_madvise, start, end - start, advice) };
        }
    }
}
