//! Elements (RFC 8794): an ID, a length, content, with numbers whose first byte tells how long they are.

use crate::error::{Error, Result};
use crate::source::Source;

/// The elements that this crate looks at (RFC 9559, section 5.1).
pub(super) mod id {
    pub const EBML: u32 = 0x1A45_DFA3;
    pub const SEGMENT: u32 = 0x1853_8067;
    pub const INFO: u32 = 0x1549_A966;
    pub const TRACKS: u32 = 0x1654_AE6B;
    pub const CLUSTER: u32 = 0x1F43_B675;
    pub const TIMESTAMP: u32 = 0xE7;
    pub const SIMPLE_BLOCK: u32 = 0xA3;
    pub const BLOCK_GROUP: u32 = 0xA0;
    pub const BLOCK: u32 = 0xA1;
    pub const REFERENCE_BLOCK: u32 = 0xFB;
    pub const BLOCK_DURATION: u32 = 0x9B;
    pub const VOID: u32 = 0xEC;
    pub const CRC_32: u32 = 0xBF;
    /// What else there is in a cluster: a position, the length of the one before, and blocks that are encrypted.
    pub const OTHERS_OF_CLUSTER: [u32; 4] = [0xA7, 0xAB, 0xAF, 0x5854];
    /// What else there is below a segment: seek head, cues, attachments, chapters, tags.
    pub const OTHERS: [u32; 5] = [0x114D_9B74, 0x1C53_BB6B, 0x1941_A469, 0x1043_A770, 0x1254_C367];
}

/// A cluster without anything in it.
pub(super) const EMPTY_CLUSTER: [u8; 5] = [0x1F, 0x43, 0xB6, 0x75, 0x80];

/// How many elements in a row may be unknown.
const UNKNOWN_MAX: usize = 8;

/// ID and length together.
const HEADER_BYTES_MAX: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Known(u64),
    /// Until something comes that cannot be in it.
    Unknown,
}

/// An element in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub id: u32,
    pub start: u64,
    pub content: u64,
    pub size: Size,
}

impl Element {
    /// The element at `at`; `None` at the end of the file, or if there is none.
    pub fn read(source: &mut Source, at: u64) -> Result<Option<Self>> {
        let mut rest = source.up_to(at, HEADER_BYTES_MAX)?;
        let before = rest.len();
        let Some((id, _)) = number(&mut rest, 4) else { return Ok(None) };
        let Some((size, bits)) = number(&mut rest, 8) else { return Ok(None) };
        let content = at + (before - rest.len()) as u64;
        // All bits set means that the length is not known; the marker is not a part of it.
        let all = (1 << bits) - 1;
        let size = if size & all == all { Size::Unknown } else { Size::Known(size & all) };
        Ok(Some(Self { id: id as u32, start: at, content, size }))
    }

    /// Whether what follows it is what it should be, or nothing: then it may be passed over, whatever it is. Others like it may come
    /// between.
    pub fn is_followed(&self, source: &mut Source, end: u64, is_known: fn(u32) -> bool) -> Result<bool> {
        let mut last = *self;
        for _ in 0..UNKNOWN_MAX {
            let Size::Known(bytes) = last.size else { return Ok(false) };
            let next = last.content.saturating_add(bytes);
            if next == end.min(source.bytes()) {
                return Ok(true);
            }
            match Self::read(source, next)?.filter(|_| next < end) {
                Some(element) if is_known(element.id) => return Ok(true),
                Some(element) => last = element,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    pub fn end(&self, source: &Source) -> u64 {
        match self.size {
            Size::Known(bytes) => self.content.saturating_add(bytes),
            Size::Unknown => source.bytes(),
        }
    }

    /// All of it with its header.
    pub fn copy(&self, source: &mut Source, bytes_max: u64) -> Result<Vec<u8>> {
        let Size::Known(bytes) = self.size else {
            return Err(Error::Damaged("an element does not say how long it is"));
        };
        if bytes > bytes_max {
            return Err(Error::TooLarge { what: "a description of its tracks of more than 1 MiB" });
        }
        source.copy(self.start, self.content - self.start + bytes, "the description of its tracks")
    }

    /// Its content as a number of at most 8 bytes.
    pub fn unsigned(&self, source: &mut Source) -> Result<Option<u64>> {
        let Size::Known(bytes @ 0..=8) = self.size else { return Ok(None) };
        let content = source.up_to(self.content, bytes as usize)?;
        let is_whole = content.len() as u64 == bytes;
        Ok(is_whole.then(|| content.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))))
    }
}

/// A number with its marker, and how many bits it has without; `None` if it is longer than `bytes_max`, or not all there.
pub(super) fn number(from: &mut &[u8], bytes_max: usize) -> Option<(u64, u32)> {
    let bytes = from.first()?.leading_zeros() as usize + 1;
    if bytes > bytes_max || from.len() < bytes {
        return None;
    }
    let (number, rest) = from.split_at(bytes);
    *from = rest;
    let number = number.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some((number, 7 * bytes as u32))
}

/// The header of an element whose length has 8 bytes.
pub(super) fn write_header(id: u32, size: u64, to: &mut Vec<u8>) {
    to.extend(id.to_be_bytes());
    to.extend((size | 1 << 56).to_be_bytes());
}
