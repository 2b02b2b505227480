//! How much is shared, and how.

/// How much is shared, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of the shared memory.
    pub bytes: usize,
    /// Minipages that can share a page.
    pub views: usize,
    /// Where it is mapped: at the same address on all hosts, if pointers into it are shared.
    pub at: Option<usize>,
    /// What is shared at a time.
    pub granularity: Granularity,
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
        Self { bytes: 64 << 20, views: 16, at: None, granularity: Granularity::Fine }
    }
}
