//! Frames: a text, sealed, behind its length.

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

/// The longest text.
pub const TEXT_BYTES_MAX: usize = (64 << 10) + 64;
const LENGTH_BYTES: usize = 4;
/// Where the text of a frame begins.
pub const TEXT_START: usize = LENGTH_BYTES;
const TAG_BYTES: usize = 16;
/// What a frame has more than its text.
pub const FRAME_EXTRA_BYTES: usize = LENGTH_BYTES + TAG_BYTES;

/// What arrived was not sent by the other end, or not in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what arrived was changed on its way, or was not sent by a host of this job")]
pub struct NotOurs;

/// One end of a connection.
pub struct Channel {
    /// For what is sent.
    pub sealer: Sealer,
    /// For what arrives.
    pub opener: Opener,
}

/// Seals texts, one after the other.
pub struct Sealer(Numbered);

/// Opens frames, in the order in which they were sealed.
pub struct Opener(Numbered);

/// A key, and the number of the next frame.
struct Numbered {
    key: LessSafeKey,
    next: u64,
}

impl Numbered {
    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.next.to_le_bytes());
        // Years of frames do not reach the end.
        self.next += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Sealer {
    pub(crate) const fn new(key: LessSafeKey) -> Self {
        Self(Numbered { key, next: 0 })
    }

    /// Adds a frame to `frames`, with the text that `write` adds there.
    ///
    /// # Panics
    /// The text is longer than [`TEXT_BYTES_MAX`].
    pub fn seal(&mut self, frames: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = frames.len();
        frames.extend([0; LENGTH_BYTES]);
        write(frames);
        let bytes = frames.len() - start - LENGTH_BYTES;
        assert!(bytes <= TEXT_BYTES_MAX, "a text of {bytes} bytes");
        let length = (bytes as u32).to_le_bytes();
        frames[start..start + LENGTH_BYTES].copy_from_slice(&length);
        let text = &mut frames[start + LENGTH_BYTES..];
        let nonce = self.0.nonce();
        let tag = self.0.key.seal_in_place_separate_tag(nonce, Aad::from(length), text);
        // It fails for texts of 64 GiB.
        frames.extend(tag.expect("a text is short").as_ref());
    }
}

impl Opener {
    pub(crate) const fn new(key: LessSafeKey) -> Self {
        Self(Numbered { key, next: 0 })
    }

    /// Whether the first frame in `frames` is whole, or is none.
    #[must_use]
    pub fn has_frame(frames: &[u8]) -> bool {
        frames.split_first_chunk().is_some_and(|(length, sealed)| {
            let bytes = u32::from_le_bytes(*length) as usize;
            bytes > TEXT_BYTES_MAX || sealed.len() >= bytes + TAG_BYTES
        })
    }

    /// The text of the first frame in `frames`, and how many bytes the frame takes there; `None` if a part is still to come.
    ///
    /// # Errors
    /// The other end did not seal this one next. What follows does not open either.
    pub fn open<'a>(&mut self, frames: &'a mut [u8]) -> Result<Option<(&'a [u8], usize)>, NotOurs> {
        let Some((length, sealed)) = frames.split_first_chunk_mut::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = u32::from_le_bytes(*length) as usize;
        if bytes > TEXT_BYTES_MAX {
            return Err(NotOurs);
        }
        let Some(sealed) = sealed.get_mut(..bytes + TAG_BYTES) else { return Ok(None) };
        let nonce = self.0.nonce();
        let opened = self.0.key.open_in_place(nonce, Aad::from(*length), sealed);
        let text = opened.map_err(|_| NotOurs)?;
        Ok(Some((text, bytes + FRAME_EXTRA_BYTES)))
    }
}
