//! The memory of all buffers: lent to streams in parts, given back in parts, and never more than there is.

use std::collections::BTreeMap;

use crate::buffer::{Buffer, Part};

/// Free memory is kept for the next one as long as it is no more than one part of so many of what is lent, or than
/// this.
const KEPT_PART: u64 = 4;
const KEPT_BYTES: u64 = 1 << 20;

/// It.
#[derive(Debug)]
pub struct Pool {
    bytes_max: u64,
    lent_bytes: u64,
    kept_bytes: u64,
    /// Memory that is free, by its size.
    kept: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Pool {
    /// So many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, lent_bytes: 0, kept_bytes: 0, kept: BTreeMap::new() }
    }

    /// Has it be another sum. What is lent stays so.
    pub fn set_bytes(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
        self.forget_down_to(self.free_bytes());
    }

    /// What may be lent in all.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// What is lent.
    pub fn lent_bytes(&self) -> u64 {
        self.lent_bytes
    }

    /// What may be lent yet.
    pub fn free_bytes(&self) -> u64 {
        self.bytes_max.saturating_sub(self.lent_bytes)
    }

    /// What it takes of memory, lent or not.
    pub fn bytes(&self) -> u64 {
        self.lent_bytes + self.kept_bytes
    }

    /// Gives a buffer its memory; `false` if there is less than it needs.
    pub fn lend(&mut self, buffer: &mut Buffer) -> bool {
        if buffer.room() as u64 > self.free_bytes() {
            return false;
        }
        for part in buffer.parts_mut() {
            let found = self.kept.get_mut(&part.room()).and_then(Vec::pop);
            if found.is_some() {
                self.kept_bytes -= part.room() as u64;
            }
            self.lent_bytes += part.room() as u64;
            self.forget_down_to(self.free_bytes());
            part.furnish(found.unwrap_or_else(|| vec![0; part.room()]));
        }
        true
    }

    /// Takes back a part that is not needed.
    pub fn give_back(&mut self, part: Part) {
        let memory = part.into_memory();
        self.lent_bytes -= memory.len() as u64;
        self.kept_bytes += memory.len() as u64;
        self.kept.entry(memory.len()).or_default().push(memory);
        self.forget_down_to((self.lent_bytes / KEPT_PART).max(KEPT_BYTES).min(self.free_bytes()));
    }

    fn forget_down_to(&mut self, bytes: u64) {
        while self.kept_bytes > bytes
            && let Some(mut entry) = self.kept.last_entry()
        {
            match entry.get_mut().pop() {
                Some(memory) => self.kept_bytes -= memory.len() as u64,
                None => drop(entry.remove()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::buffer::Scratch;
    use crate::program::Planned;

    /// Of so many samples, with a part for each.
    fn buffer(samples: u64, bytes: u64) -> Buffer {
        let planned = |number| Planned {
            file: 0,
            sender: 0,
            at: number * bytes..(number + 1) * bytes,
            decode_ns: 0,
            ticks: 0,
            packing: Default::default(),
            is_sync: true,
            edges: Default::default(),
        };
        let mut program = (0..samples).map(planned).peekable();
        Buffer::gather(&mut program, usize::MAX, 1, &mut Scratch::default())
    }

    #[test]
    fn memory_that_is_short_is_lent_when_it_is_given_back() {
        let mut pool = Pool::new(1_000);
        let (mut first, mut second, mut third) = (buffer(4, 200), buffer(2, 200), buffer(2, 300));
        assert!(pool.lend(&mut first) && !pool.lend(&mut second));
        first.into_parts().into_iter().take(1).for_each(|part| pool.give_back(part));
        assert!(pool.lend(&mut second));
        assert_eq!((pool.free_bytes(), pool.bytes()), (0, 1_000));
        second.into_parts().into_iter().for_each(|part| pool.give_back(part));
        // Of other sizes, for which what is kept has to go.
        assert!(!pool.lend(&mut third));
        assert!(pool.lend(&mut buffer(1, 300)) && pool.bytes() <= 1_000);
    }

    #[test]
    fn little_is_kept_that_nobody_has() {
        let mut pool = Pool::new(1 << 30);
        let mut lent: Vec<_> = (0..100).map(|_| buffer(4, 1 << 18)).collect();
        assert!(lent.iter_mut().all(|buffer| pool.lend(buffer)));
        lent.into_iter().flat_map(Buffer::into_parts).for_each(|part| pool.give_back(part));
        assert!(pool.bytes() <= KEPT_BYTES, "{}", pool.bytes());
    }

    proptest! {
        #[test]
        fn there_is_never_more_than_there_may_be(
            bytes_max in 1_000..100_000_u64,
            turns in prop::collection::vec((1..8_u64, 1..20_000_u64, 0..8_usize), 1..200),
        ) {
            let mut pool = Pool::new(bytes_max);
            let mut lent: Vec<Part> = Vec::new();
            for (samples, bytes, given_back) in turns {
                let mut buffer = buffer(samples, bytes);
                let fits = buffer.room() as u64 <= pool.free_bytes();
                prop_assert_eq!(pool.lend(&mut buffer), fits);
                if fits {
                    lent.extend(buffer.into_parts());
                }
                let sum: usize = lent.iter().map(|part| part.bytes().len()).sum();
                prop_assert_eq!(sum as u64, pool.lent_bytes());
                prop_assert!(pool.bytes() <= bytes_max);
                lent.drain(..given_back.min(lent.len())).for_each(|part| pool.give_back(part));
            }
            lent.drain(..).for_each(|part| pool.give_back(part));
            prop_assert_eq!(pool.free_bytes(), bytes_max);
        }
    }
}
