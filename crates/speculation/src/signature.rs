//! The signature of a tracked call: what must agree for the speculator to have predicted a call of the original.

/// Starts a signature.
#[derive(Clone, Copy, Debug)]
pub struct Signature(u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Signature {
    /// Signature of a call with this number and no arguments yet.
    #[must_use]
    #[inline]
    pub const fn call(number: u64) -> Self {
        Self((number + 1).wrapping_mul(MULTIPLIER))
    }

    /// Adds an argument.
    #[must_use]
    #[inline]
    pub const fn word(self, word: u64) -> Self {
        let mixed = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        Self(mixed ^ (mixed >> 29))
    }

    /// Adds the bytes of a path.
    #[must_use]
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut signature = self.word(bytes.len() as u64);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            signature = signature.word(u64::from_le_bytes(word));
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
        self.0 | 1
    }
}
