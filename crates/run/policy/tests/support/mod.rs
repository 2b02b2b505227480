//! What the tests of this crate share: an empty table of call sites, and a source of repeatable chance.

#![allow(dead_code, reason = "each test uses a part")]

use std::sync::atomic::AtomicU64;

use forebay_protocol::layout::{CALL_SITES, CallSite};

/// An empty table of call sites.
pub fn sites() -> [CallSite; CALL_SITES] {
    [const { CallSite { key: AtomicU64::new(0), state: AtomicU64::new(0) } }; CALL_SITES]
}

/// A repeatable source of chance (splitmix64).
pub struct Chance(pub u64);

impl Chance {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to, not including, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 up to, not including, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }
}
