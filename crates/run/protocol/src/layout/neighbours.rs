//! What is read ahead of the folders and files in which a program needs one thing after the other.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

/// A process that has no agent, and so no slot.
pub const NO_SLOT: u32 = u32::MAX;

/// States of [`Neighbours::opens`].
pub mod told {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// The kernel tells the executor of opens, and not all of them are in the access log yet.
    pub const SOME: u32 = 1;
    /// The program is over: the supervisor waits for them.
    pub const WANTED: u32 = 2;
}

/// What the program waited for, and figures of the files, folders and blocks that are read ahead because it needed others beside them.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Neighbours {
    /// Waits of the program for files.
    pub waits: AtomicU64,
    /// What they took, in ticks.
    pub wait_ticks: AtomicU64,
    /// From so many of these on, the executor is to look again.
    pub look_at: AtomicU64,
    /// Slot of the process that waited last, or [`NO_SLOT`].
    pub slot: AtomicU32,
    /// What the executor has to say of the needs of programs without an agent; see [`told`].
    pub opens: AtomicU32,
    /// Files, folders and blocks that were read ahead, and not in memory.
    pub reads: AtomicU64,
    /// Those of them that the program needed later.
    pub used: AtomicU64,
    /// Bytes that devices were asked for.
    pub bytes: AtomicU64,
}

impl Neighbours {
    /// The program waited for files so often, and so many ticks in all. How many ticks it has waited until now.
    pub fn on_waits(&self, waits: u64, ticks: u64) -> u64 {
        let before = self.wait_ticks.fetch_add(ticks, Relaxed);
        self.waits.fetch_add(waits, Release);
        before.wrapping_add(ticks)
    }

    /// How many ticks a wait took on average; 0 before the first one.
    pub fn mean_wait(&self) -> u64 {
        self.wait_ticks.load(Relaxed).checked_div(self.waits.load(Relaxed)).unwrap_or(0)
    }
}
