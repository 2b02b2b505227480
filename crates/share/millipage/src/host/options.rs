//! How much is shared, and how.

use crate::extent::FEW;

/// How much is shared, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of the shared memory. 0 is as large as need be: half of what is free on each machine when hosts join, of which no more is
    /// taken than hosts allocate. 64 MiB for hosts in one process.
    pub bytes: usize,
    /// Minipages that can share a page. 0 is as many as need be: 16, and between machines up to 256 where an array has many small ones.
    pub views: usize,
    /// Where it is mapped: at the same address on all hosts, if pointers into it are shared.
    pub at: Option<usize>,
    /// What is shared at a time.
    pub granularity: Granularity,
}

/// Size of a memory by need at least, and of one of hosts in one process.
pub const BYTES_MIN: usize = 64 << 20;

impl Options {
    /// The size of the memory of hosts in one process.
    pub(crate) fn bytes_here(&self) -> usize {
        if self.bytes == 0 { BYTES_MIN } else { self.bytes }
    }

    /// The views there.
    pub(crate) fn views_here(&self) -> usize {
        self.granularity.views(if self.views == 0 { FEW } else { self.views })
    }
}

/// What is shared at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// What the program says: a row, or a chunk of rows.
    #[default]
    Fine,
    /// A page, whatever is on it, in one view: as without MultiView, to see what that is good for.
    Page,
}

impl Granularity {
    /// Views that are mapped where so many are wanted.
    pub(crate) fn views(self, wanted: usize) -> usize {
        match self {
            Self::Fine => wanted.max(1),
            Self::Page => 1,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { bytes: 0, views: 0, at: None, granularity: Granularity::Fine }
    }
}
