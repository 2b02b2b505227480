//! The geometry of a job's memory: pages, views, and the numbers of the minipages on them.

use std::ops::Range;

use forebay_coherence::Minipage;
use forebay_vm::PAGE_BYTES;

/// How large the memory of a job is, and in how many views it is used.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Pages that all hosts allocate together.
    pub pages: usize,
    /// Pages behind those, of which hosts allocate alone.
    pub alone: usize,
    /// In which many minipages are used that all hosts allocate together.
    pub views: usize,
    /// In which few are used, and those that hosts allocate alone.
    pub few: usize,
}

/// A page of which hosts allocate alone has a number of so many bits.
pub const PAGE_BITS: u32 = 28;

/// Views for few minipages, where views are as many as need be.
pub const FEW: usize = 16;

impl Extent {
    /// That of a memory of so many bytes.
    pub fn new(bytes: usize, views: usize) -> Self {
        Self::sparing(bytes, views, views)
    }

    /// The same, where few minipages are used in `few` views.
    pub fn sparing(bytes: usize, views: usize, few: usize) -> Self {
        let pages = bytes.div_ceil(PAGE_BYTES).max(1);
        let numbers = (u32::MAX as usize).saturating_sub(pages.saturating_mul(views));
        Self { pages, alone: pages.min(numbers / few).min((1 << PAGE_BITS) - 1), views, few }
    }

    /// Bytes of the pages that all hosts allocate together.
    pub const fn together_bytes(&self) -> usize {
        self.pages * PAGE_BYTES
    }

    /// Bytes of all pages.
    pub const fn bytes(&self) -> usize {
        (self.pages + self.alone) * PAGE_BYTES
    }

    /// How many minipages there can be: each has a page of a view for itself.
    pub const fn minipages_max(&self) -> usize {
        self.pages * self.views + self.alone * self.few
    }

    /// The numbers of minipages that hosts allocate alone.
    pub const fn alone_numbers(&self) -> Range<u32> {
        (self.pages * self.views) as u32..self.minipages_max() as u32
    }

    /// The number of the first minipage on a page of those, and which page a minipage is on.
    pub const fn first_on(&self, page: usize) -> usize {
        self.pages * self.views + page * self.few
    }

    pub fn page_with(&self, minipage: Minipage) -> Option<usize> {
        Some(minipage.index().checked_sub(self.first_on(0))? / self.few)
    }

    /// Which one of those on its page it is.
    pub const fn place_on(&self, minipage: Minipage) -> usize {
        (minipage.index() - self.first_on(0)) % self.few
    }
}
