//! The set of addresses at which control may arrive.

use std::ops::Range;

/// A set of addresses inside one range, one bit each.
#[derive(Clone)]
pub struct Arrivals {
    range: Range<u64>,
    bits: Vec<u64>,
}

impl Arrivals {
    /// An empty set for addresses in `range`.
    pub fn new(range: Range<u64>) -> Self {
        let len = range.end.saturating_sub(range.start) as usize;
        Self { range, bits: vec![0; len.div_ceil(64)] }
    }

    /// Adds an address; one outside of the range is ignored.
    pub fn add(&mut self, address: u64) {
        if self.range.contains(&address) {
            let index = (address - self.range.start) as usize;
            self.bits[index / 64] |= 1 << (index % 64);
        }
    }

    /// Whether the address was added.
    pub fn has(&self, address: u64) -> bool {
        self.range.contains(&address) && {
            let index = (address - self.range.start) as usize;
            self.bits[index / 64] >> (index % 64) & 1 == 1
        }
    }

    /// Whether any address in `range` was added. Meant for ranges of a few bytes.
    pub fn any_in(&self, mut range: Range<u64>) -> bool {
        range.any(|address| self.has(address))
    }
}
