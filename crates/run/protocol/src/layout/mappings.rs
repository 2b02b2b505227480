//! Where the original has mapped what its speculator has mapped before it.
//!
//! What comes of hints of pages is read from the original's page map, at the addresses that the original has them at. It
//! writes down each mapping of a file that it makes while there is a speculation, by the signature of the call, and the
//! speculator looks there for its own. Of several with one signature the newest counts. One that is torn, or forgotten
//! because there were many after it, makes for a wrong judgement at worst.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Mappings of files that the original has made which are remembered, a power of two.
pub const MAPPINGS: usize = 16;

const _: () = assert!(MAPPINGS.is_power_of_two());

/// Mappings of files, the last of them: the `n`th is `ring[n % MAPPINGS]`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Mappings {
    /// How many there were.
    pub count: AtomicU64,
    /// The last of them.
    pub ring: [Mapped; MAPPINGS],
}

/// A mapping of a file.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Mapped {
    /// [`crate::signature`] of the call; 0 once the original has found it.
    pub signature: AtomicU64,
    /// What it returned.
    pub address: AtomicU64,
}

impl Mappings {
    /// The original has made a mapping. One thread of it writes.
    pub fn tell(&self, signature: u64, address: u64) {
        let count = self.count.load(Relaxed);
        let place = &self.ring[count as usize % MAPPINGS];
        place.signature.store(signature, Relaxed);
        place.address.store(address, Relaxed);
        self.count.store(count.wrapping_add(1), Release);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// The address of the newest one with that signature, of those after the first `since`.
    #[must_use]
    pub fn find(&self, since: u64, signature: u64) -> Option<u64> {
        let count = self.count();
        let kept = count.wrapping_sub(since).min(MAPPINGS as u64);
        let mut newest_first =
            (1..=kept).map(|back| &self.ring[count.wrapping_sub(back) as usize % MAPPINGS]);
        let found = newest_first.find(|mapping| mapping.signature.load(Relaxed) == signature)?;
        Some(found.address.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_one_signature_is_found() {
        let mappings = Mappings::default();
        assert_eq!(mappings.find(0, 7), None);
        mappings.tell(7, 0x1000);
        mappings.tell(8, 0x2000);
        mappings.tell(7, 0x3000);
        assert_eq!((mappings.find(0, 7), mappings.find(0, 8)), (Some(0x3000), Some(0x2000)));
        assert_eq!(mappings.find(2, 8), None, "it was there before");
        assert_eq!(mappings.find(3, 7), None);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mappings = Mappings::default();
        for number in 0..=MAPPINGS as u64 {
            mappings.tell(number, number << 12);
        }
        assert_eq!((mappings.find(0, 0), mappings.find(0, 1)), (None, Some(1 << 12)));
        assert_eq!(mappings.find(u64::MAX, 1), Some(1 << 12), "whatever is in the channel");
    }
}
