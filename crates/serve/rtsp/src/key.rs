//! Texts that only this server can have made: session identifiers and nonces.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// What they are made with: random, and this server's only.
#[derive(Clone)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// 64 hexadecimal digits that cannot be guessed, for what is `said` for this purpose.
    pub(crate) fn sign(&self, purpose: &str, said: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length will do");
        mac.update(purpose.as_bytes());
        mac.update(b" ");
        mac.update(said.as_bytes());
        format!("{:x}", mac.finalize().into_bytes())
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Key")
    }
}
