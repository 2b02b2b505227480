//! The mapped file that is read ahead of page faults.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Areas of a file that is read ahead, at most.
pub const STREAM_AREAS: usize = 64;
/// Longest path of such a file, in bytes.
pub const STREAM_PATH_BYTES: usize = 4096;

/// A mapped file that is being read ahead of a program that faults through it.
#[repr(C)]
pub struct Stream {
    /// Changes with the file; 0 for none.
    pub number: AtomicU32,
    /// The process whose root the path begins at.
    pub process: AtomicU32,
    /// Inode of the file.
    pub inode: AtomicU64,
    /// Bytes of an area.
    pub area_bytes: AtomicU64,
    /// The areas, in the order in which they are read.
    pub order: [AtomicU8; STREAM_AREAS],
    /// Bytes that were handed out, in that order.
    pub position: AtomicU64,
    /// Up to where they may be.
    pub granted: AtomicU64,
    /// Bytes that the device read.
    pub bytes: AtomicU64,
    /// Its `st_dev` + 1; 0 before it is known.
    pub device: AtomicU64,
    /// Length of the path in bytes.
    pub path_len: AtomicU32,
    /// Absolute path in the root directory of the process, not terminated.
    pub path: [AtomicU8; STREAM_PATH_BYTES],
}
