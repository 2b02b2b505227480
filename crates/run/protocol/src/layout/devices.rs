//! What a run has learnt of block devices and their file systems.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Block devices whose in-flight limit is remembered in one run.
pub const DEVICES: usize = 16;

/// What is known of one block device (or other backing of a file system).
#[repr(C)]
pub struct Device {
    /// `st_dev` + 1; 0 for a free entry.
    pub id: AtomicU64,
    /// State of `forebay_policy::inflight::InflightLimit`, packed by it.
    pub limit: [AtomicU64; 4],
    /// State of `forebay_policy::estimate::StallTime`, packed by it.
    pub stall: AtomicU64,
    /// Reads that the executor has under way.
    pub executing: AtomicU32,
    /// Bits of [`file_system`].
    pub file_system: AtomicU32,
}

/// What is known of the file system on a device.
pub mod file_system {
    /// It was looked up; without the bit the others may still come.
    pub const KNOWN: u32 = 1 << 0;
    /// Look-ups, opens and listings are requests to another process or machine.
    pub const REMOTE: u32 = 1 << 1;
    /// It refuses reads that do not wait.
    pub const REFUSES_NOWAIT: u32 = 1 << 2;
    /// It waits for the data when it is told that they will be needed.
    pub const ADVICE_WAITS: u32 = 1 << 3;
    /// It did so the last time.
    pub const ADVICE_WAITED: u32 = 1 << 5;
    /// The executor asks it for nothing any more: a request did not return in time, or hints do not pay.
    pub const CLOSED: u32 = 1 << 4;
    /// It empties a file's cache when the file is opened again: data that is read ahead of an open is lost.
    pub const FORGETS_DATA: u32 = 1 << 6;
    /// It keeps that data.
    pub const KEEPS_DATA: u32 = 1 << 7;
    /// The kernel reads far ahead there, of files that are read in sequence and around page faults.
    pub const READS_FAR_AHEAD: u32 = 1 << 8;
    /// It is served by a process, through FUSE.
    pub const FUSE: u32 = 1 << 9;
}
