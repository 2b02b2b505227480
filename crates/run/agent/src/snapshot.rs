//! What a speculator must know of the original at the moment of the fork.

use forebay_policy::balance::Prices;
use forebay_policy::copies::Faults;
use forebay_sigsafe::general as n;

/// Which side of the fork this is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spawned {
    /// The process that was there before.
    Original,
    /// The copy.
    Speculator,
}

/// Descriptors whose offsets a speculator knows.
pub const DESCRIPTORS: usize = 1024;

/// What the speculator must know of the original at the moment of the fork.
pub struct Snapshot {
    pub original: Original,
    pub generation: u32,
    pub circumstances: Circumstances,
    /// Whether all other descriptors could be closed.
    pub left_outside: bool,
    /// Descriptors looked at.
    pub descriptors: usize,
    /// What is known of each.
    pub known: [Known; DESCRIPTORS],
}

/// Process id of the original, its thread and its parent.
#[derive(Clone, Copy)]
pub struct Original {
    pub process: u32,
    pub thread: u32,
    pub parent: u32,
}

/// What the original's policy has found out for it.
#[derive(Clone, Copy)]
pub struct Circumstances {
    /// Mean stall, in microseconds.
    pub stall_us: u64,
    /// What its first checkpoint is taken to cost, in ticks, where another fork of the original would be so dear that
    /// checkpoints are worth their while; see [`forebay_policy::checkpoint`].
    pub first_checkpoint: Option<u64>,
    /// What it pays for pages, and earns for hints.
    pub prices: Prices,
    /// Whether savings pay for speculations of this program.
    pub is_proven: bool,
    pub forked: Forked,
}

/// How things stood when the original was last forked.
#[derive(Clone, Copy)]
pub struct Forked {
    pub faults: Faults,
    /// Processor time of the process, in ticks.
    pub processor: u64,
    /// Hints for data.
    pub hinted: u64,
    /// Speculators that had ended because of what no predicted value is responsible for.
    pub excused_ends: u64,
    /// Files that had been mapped while there was a speculation.
    pub mapped: u64,
}

impl Forked {
    /// Never.
    pub const fn new() -> Self {
        let faults = Faults { minor: 0, written: 0, major: 0, pages: 0, ticks: 0 };
        Self { faults, processor: 0, hinted: 0, excused_ends: 0, mapped: 0 }
    }
}

/// What the speculator must know of a descriptor.
#[derive(Clone, Copy)]
pub struct Known {
    /// Offset, or `-errno` (`-ESPIPE`: no offset, `-EBADF`: not open).
    pub offset: i64,
    pub flags: u32,
    pub mode: u32,
    pub device: u64,
    pub inode: u64,
    pub size: u64,
}

pub const UNKNOWN: Known = Known { offset: 0, flags: 0, mode: 0, device: 0, inode: 0, size: 0 };

impl Known {
    /// Whether it is of a regular file or directory that can be read.
    pub fn readable(&self) -> bool {
        let can = self.flags & n::O_ACCMODE != n::O_WRONLY && self.flags & n::O_PATH == 0;
        can && matches!(self.mode & n::S_IFMT, n::S_IFREG | n::S_IFDIR)
    }

    /// Whether it can be written to.
    pub fn writable(&self) -> bool {
        self.flags & n::O_ACCMODE != n::O_RDONLY
    }
}
