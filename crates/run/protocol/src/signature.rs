//! The signature of a tracked call: what must agree for the speculator to have predicted a call of the
//! original.
//!
//! A signature is a 64-bit hash of the call's number and then of each argument in turn. Adding a word is invertible, so
//! calls that differ in one word have different signatures. Others collide with a chance of about 2^-64, and then an unused
//! hint is counted as used. The hash is no defence against a program that wants to collide: such a program only misleads its
//! own prefetching.

/// Starts a signature.
#[derive(Clone, Copy, Debug)]
pub struct Signature(u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Signature {
    /// Signature of a call with this number and no arguments yet.
    #[must_use]
    #[inline]
    pub const fn call(number: u64) -> Self {
        Self(number.wrapping_add(1).wrapping_mul(MULTIPLIER))
    }

    /// Adds an argument.
    #[must_use]
    #[inline]
    pub const fn word(self, word: u64) -> Self {
        let mixed = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        Self(mixed ^ (mixed >> 29))
    }

    /// Adds the bytes of a path, with their number, so that where one ends and the next begins counts.
    #[must_use]
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut signature = self.word(bytes.len() as u64);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            signature = signature.word(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let mut last = 0;
        for &byte in chunks.remainder() {
            last = last << 8 | u64::from(byte);
        }
        signature.word(last)
    }

    /// The finished value; never 0.
    #[must_use]
    #[inline]
    pub const fn value(self) -> u64 {
        if self.0 == 0 { 1 } else { self.0 }
    }
}
