//! Hint logs, and the hints that the executor carries out.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Hint logs of a slot; generation `g` of the speculator writes log `g % LOGS`.
pub const LOGS: usize = 4;
/// Entries of one hint log (a power of two).
pub const LOG_ENTRIES: usize = 4096;
/// Path hints that can wait for the executor in one slot.
pub const PATH_CELLS: usize = 128;
/// Longest path in a hint, in bytes.
pub const PATH_BYTES: usize = 488;

const _: () = assert!(LOG_ENTRIES.is_power_of_two());

/// One tracked call of the speculator.
#[repr(C)]
pub struct LogEntry {
    /// [`crate::signature`] of the call; 0 once the original has found it.
    pub signature: AtomicU64,
    /// Bits of [`mark`], and the byte count of the hint from bit 8 up.
    pub mark: AtomicU64,
}

/// Bits of [`LogEntry::mark`].
pub mod mark {
    /// The call caused a prefetch.
    pub const HINTED: u64 = 1;
    /// The call's result was predicted.
    pub const PREDICTED: u64 = 2;
    /// The prefetch is of a window in a file that is read in sequence: the kernel's readahead would have begun it early, too.
    pub const SEQUENTIAL: u64 = 1 << 7;
    /// The prefetch began with an earlier call: where the original was ahead and did not stall, that was why.
    pub const EARLIER: u64 = 1 << 47;
}

/// A hint that the executor carries out because it may block.
#[repr(C)]
pub struct PathCell {
    /// [`CELL_FREE`], [`CELL_WRITING`], [`CELL_READY`] or [`CELL_TAKEN`].
    pub state: AtomicU32,
    /// A [`PathHint`].
    pub kind: AtomicU32,
    /// First byte wanted, for [`PathHint::Data`].
    pub offset: AtomicU64,
    /// Bytes wanted, for [`PathHint::Data`].
    pub length: AtomicU32,
    /// Length of the path in bytes.
    pub path_len: AtomicU32,
    /// Of an open that may be made ahead of the program: its [`super::open_key`]; else 0.
    pub open_key: AtomicU64,
    /// Its [`super::shown_flags`].
    pub open_flags: AtomicU32,
    /// Absolute path in the program's root directory, not terminated.
    pub path: [AtomicU8; PATH_BYTES],
}

/// The cell can be written.
pub const CELL_FREE: u32 = 0;
/// A speculator is writing it.
pub const CELL_WRITING: u32 = 1;
/// The executor may take it.
pub const CELL_READY: u32 = 2;
/// An executor thread is reading it.
pub const CELL_TAKEN: u32 = 3;

/// What a path hint asks for. Nothing but regular files and directories is ever opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PathHint {
    /// Look the path up, following links, so that a later open or stat finds it cached.
    Lookup = 0,
    /// Look the path up without following a last link.
    LookupNoFollow = 1,
    /// Read a directory's entries.
    Directory = 2,
    /// Read a range of a regular file.
    Data = 3,
}

impl PathHint {
    /// The variant with this number.
    #[must_use]
    pub const fn from_u32(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Lookup),
            1 => Some(Self::LookupNoFollow),
            2 => Some(Self::Directory),
            3 => Some(Self::Data),
            _ => None,
        }
    }
}
