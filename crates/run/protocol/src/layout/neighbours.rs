//! What is read ahead of the folders in which a program opens one file after the other.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// What the program waited for, and figures of the files that are read ahead because it opened others beside them.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Neighbours {
    /// Waits of the program for files, long enough to tell.
    pub waits: AtomicU64,
    /// What they took, in ticks.
    pub wait_ticks: AtomicU64,
    /// Slot of the process that waited last.
    pub slot: AtomicU32,
    /// Files that were read ahead, and not in memory.
    pub files: AtomicU64,
    /// Those of them that the program opened later.
    pub files_used: AtomicU64,
    /// Bytes that devices were asked for.
    pub bytes: AtomicU64,
}
