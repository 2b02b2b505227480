//! Reads a whole object through its views, part by part, to measure what views cost.

use std::ptr;

use crate::{PAGE_BYTES, Views};

/// What is read at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// 1 byte.
    Byte,
    /// 8 bytes.
    Word,
}

impl Element {
    /// Its size.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Byte => size_of::<u8>(),
            Self::Word => size_of::<u64>(),
        }
    }
}

/// The views that parts of a page are read through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Through {
    /// Each part through a view of its own.
    AllViews,
    /// All through the first.
    OneView,
}

impl Views {
    /// The sum of all elements of the object, each read once, from the first to the last. A page is read in as many equal
    /// parts as there are views; by the same instructions, whatever the parts are read `through`. Wraps around.
    ///
    /// # Panics
    /// The parts do not hold whole elements.
    #[must_use]
    pub fn sum(&self, element: Element, through: Through) -> u64 {
        let part_bytes = PAGE_BYTES / self.count();
        assert!(
            part_bytes * self.count() == PAGE_BYTES && part_bytes.is_multiple_of(element.bytes()),
            "a page has no {} equal parts of whole elements",
            self.count()
        );
        // From one part to the next.
        let step = match through {
            Through::AllViews => self.bytes() + part_bytes,
            Through::OneView => part_bytes,
        };
        match element {
            Element::Byte => self.sum_parts::<u8>(part_bytes, step),
            Element::Word => self.sum_parts::<u64>(part_bytes, step),
        }
    }

    /// Never inlined, so that its callers cannot make two loops of it.
    #[inline(never)]
    fn sum_parts<T: Into<u64>>(&self, part_bytes: usize, step: usize) -> u64 {
        let mut sum = 0u64;
        for page in (self.base()..self.base() + self.bytes()).step_by(PAGE_BYTES) {
            for part in 0..self.count() {
                let first = (page + part * step) as *const T;
                for index in 0..part_bytes / size_of::<T>() {
                    // SAFETY: within a view, since a part is within a page; any bytes are a value, and others may change
                    // them at any time, as volatile accesses allow.
                    sum = sum.wrapping_add(unsafe { ptr::read_volatile(first.add(index)) }.into());
                }
            }
        }
        sum
    }
}
