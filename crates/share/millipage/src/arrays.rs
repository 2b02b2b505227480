//! The arrays that have been allocated. They are only added to, and found without a lock: in a signal handler too.

use std::sync::{
    OnceLock,
    atomic::{
        AtomicUsize,
        Ordering::{Acquire, Release},
    },
};

use forebay_vm::layout::{Array, Place};

/// Arrays in the first part. Each next part has room for twice as many as the one before.
const FIRST: usize = 64;
const PARTS: usize = 26;

/// In the order of their minipages.
pub struct Arrays {
    count: AtomicUsize,
    parts: [OnceLock<Box<[OnceLock<Array>]>>; PARTS],
}

impl Arrays {
    pub const fn new() -> Self {
        Self { count: AtomicUsize::new(0), parts: [const { OnceLock::new() }; PARTS] }
    }

    /// Adds one whose minipages follow those of all others. By one thread at a time.
    pub fn add(&self, array: Array) {
        let index = self.count.load(Acquire);
        let (part, inside) = place(index);
        let part = self.parts[part].get_or_init(|| (0..FIRST << part).map(|_| OnceLock::new()).collect());
        if part[inside].set(array).is_ok() {
            self.count.store(index + 1, Release);
        }
    }

    /// Where a minipage is.
    pub fn place(&self, minipage: u32) -> Option<Place> {
        // The first array whose minipages are all behind this one.
        let (mut first, mut behind) = (0, self.count.load(Acquire));
        while first < behind {
            let middle = first.midpoint(behind);
            if self.get(middle)?.first <= minipage { first = middle + 1 } else { behind = middle }
        }
        let array = self.get(first.checked_sub(1)?)?;
        let index = (minipage - array.first) as usize;
        (index < array.minipages).then(|| array.minipage(index))
    }

    fn get(&self, index: usize) -> Option<&Array> {
        let (part, inside) = place(index);
        self.parts.get(part)?.get()?.get(inside)?.get()
    }
}

/// The part that an array is in, and where.
const fn place(index: usize) -> (usize, usize) {
    let part = (index / FIRST + 1).ilog2() as usize;
    (part, index - FIRST * ((1 << part) - 1))
}

#[cfg(test)]
mod tests {
    use forebay_vm::{
        PAGE_BYTES,
        layout::{Grain, Layout},
    };

    use super::*;

    #[test]
    fn each_minipage_is_where_the_layout_says() {
        let (mut layout, arrays) = (Layout::new(10_000, 8), Arrays::new());
        assert_eq!(arrays.place(0), None);
        for number in 0..1_000 {
            let (count, bytes) = (1 + number % 5, [8, 100, PAGE_BYTES, 2 * PAGE_BYTES + 1][number % 4]);
            arrays.add(layout.allocate_array(count, bytes, Grain::Parts(1 + number % 2)).unwrap());
        }
        assert!((0..layout.len() + 2).all(|minipage| arrays.place(minipage) == layout.place(minipage)));
    }
}
