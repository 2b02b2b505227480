//! The key of a job, and those of a connection.

use ring::aead::{AES_128_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};

/// What a host contributes to the key of a job, and to that of a connection.
pub const RANDOM_BYTES: usize = 32;

const OF_A_JOB: &[u8] = b"forebay share: the key of a job";
const FROM_DIALER: &[u8] = b"forebay share: from the dialer";
const FROM_LISTENER: &[u8] = b"forebay share: from the listener";

/// The kernel has no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel gives no random bytes; a seccomp filter may forbid getrandom(2)")]
pub struct NoRandomness;

/// Bytes that no process can guess.
///
/// # Errors
/// The kernel gives none.
pub fn random() -> Result<[u8; RANDOM_BYTES], NoRandomness> {
    let mut bytes = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// What the hosts of one job know, and no other process.
#[derive(Clone)]
pub struct JobKey(Prk);

impl JobKey {
    /// The key that follows from what each host has contributed, by rank.
    #[must_use]
    pub fn of(contributions: &[[u8; RANDOM_BYTES]]) -> Self {
        Self(Salt::new(HKDF_SHA256, OF_A_JOB).extract(contributions.as_flattened()))
    }

    /// The keys of one connection: from the dialer, and from the listener.
    pub(crate) fn connection(&self, dialer: &[u8], listener: &[u8]) -> [LessSafeKey; 2] {
        [FROM_DIALER, FROM_LISTENER].map(|direction| {
            let info = [direction, dialer, listener];
            // SHA-256 expands to thousands of bytes, and a key has 16.
            let key = self.0.expand(&info, &AES_128_GCM).expect("a key is short");
            LessSafeKey::new(UnboundKey::from(key))
        })
    }
}
