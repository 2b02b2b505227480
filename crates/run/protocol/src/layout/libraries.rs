//! What is read ahead for dynamic loaders.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use super::hints::PATH_BYTES;

/// Programs that can be told of before the executor looks.
pub const PROGRAM_CELLS: usize = 8;

/// Programs whose libraries are read ahead, and figures of these.
#[repr(C)]
pub struct Libraries {
    /// Files that were examined, and not in memory.
    pub files: AtomicU64,
    /// Bytes that devices were asked for.
    pub bytes: AtomicU64,
    /// Programs that are about to be executed, and libraries that may be about to be loaded.
    pub programs: [ProgramCell; PROGRAM_CELLS],
}

/// A program that is about to be executed, and was not in memory; or a library that its process has looked up.
#[repr(C)]
pub struct ProgramCell {
    /// [`CELL_FREE`](super::CELL_FREE), [`CELL_WRITING`](super::CELL_WRITING) or [`CELL_READY`](super::CELL_READY).
    pub state: AtomicU32,
    /// The process whose root the path begins at.
    pub process: AtomicU32,
    /// Whether it is a library, by a number other than 0.
    pub is_library: AtomicU32,
    /// Length of the path in bytes.
    pub path_len: AtomicU32,
    /// Absolute path, not terminated.
    pub path: [AtomicU8; PATH_BYTES],
}
