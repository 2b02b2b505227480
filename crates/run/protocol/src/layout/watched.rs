//! Processes and threads whose page faults cause signals.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Processes whose page faults can be watched at once.
pub const WATCHED: usize = 128;
/// Threads of one process that can be told of their page faults at once. The supervisor picks those that fault most.
pub const WATCHED_THREADS: usize = 32;
/// No signal again: the program wants it for itself.
pub const WISH_NEVER: u32 = u32::MAX;

/// A process that handles the signal of a page fault.
#[repr(C)]
pub struct Watched {
    /// Process id; 0 for a free entry. The supervisor frees those of processes that have ended.
    pub pid: AtomicU32,
    /// Incremented by each image of the process.
    pub image: AtomicU32,
    /// One fault in so many shall cause a signal: by `forebay_policy::fault_signals`, or 0 before the process knows, or [`WISH_NEVER`].
    pub wish: AtomicU32,
    /// 1 while the supervisor may cause signals.
    pub open: AtomicU32,
}

/// A thread that has a stack for the signal of a page fault, and does not block that signal.
#[repr(C)]
pub struct WatchedThread {
    /// Thread id in the low 32 bits, and above it a number that no other thread had here; 0 while there is none.
    pub ready: AtomicU64,
    /// The same while the supervisor may cause signals.
    pub open: AtomicU64,
}
