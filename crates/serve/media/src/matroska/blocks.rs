//! Blocks (RFC 9559, section 10): frames of one track at one time.
//!
//! ```text
//!   +--------+------------+-------+-----------------+--------
//!   | track  | time since | flags | lengths, if it  | frames
//!   |        | cluster's  |       | has several     |
//!   +--------+------------+-------+-----------------+--------
//!    1-8 bytes   16 bits    8 bits
//! ```

use super::Movie;
use super::ebml::{self, Element, Size, id};
use super::lacing::Laced;
use crate::error::{Error, Result};
use crate::index::Entry;
use crate::source::Source;

/// As many frames as a block can have.
const FRAMES_MAX: usize = 256;

/// Of a block's header and the lengths of its frames.
const HEADER_BYTES_MAX: usize = 12 + FRAMES_MAX * 256;

const IS_KEY_FRAME: u8 = 0x80;

/// A cluster that is being read: where it ends, if it knows, and its time.
pub(super) struct Cluster {
    size: Size,
    content: u64,
    time: i64,
}

/// What a cluster has taken of an element.
pub(super) enum Taken {
    /// All; there the next one begins.
    All(u64),
    /// Nothing, as not all of it is there.
    Nothing,
    /// Nothing, as the cluster ends there or before.
    ItsEnd(u64),
}

impl Cluster {
    pub fn new(element: &Element) -> Self {
        Self { size: element.size, content: element.content, time: 0 }
    }

    /// Puts the frames of an element into their indices.
    pub fn take(
        &mut self,
        source: &mut Source,
        element: &Element,
        movie: Option<&mut Movie>,
    ) -> Result<Taken> {
        let end = match self.size {
            Size::Known(bytes) => Some(self.content.saturating_add(bytes)),
            Size::Unknown => None,
        };
        let (Size::Known(bytes), Some(movie)) = (element.size, movie) else {
            return Ok(Taken::ItsEnd(end.unwrap_or(element.start)));
        };
        let next = element.content.saturating_add(bytes);
        if end.is_some_and(|end| element.start >= end) || is_above(element.id) {
            return Ok(Taken::ItsEnd(end.unwrap_or(element.start)));
        }
        let cluster_end = end.unwrap_or(source.bytes());
        if !is_of_cluster(element.id) && !element.is_followed(source, cluster_end, is_of_cluster)? {
            return Ok(Taken::ItsEnd(end.unwrap_or(element.start)));
        }
        if next > source.bytes() {
            // A file that has all of the cluster is damaged; one that has not may go on.
            let is_damaged = |end: &u64| *end <= source.bytes();
            return Ok(end.filter(is_damaged).map_or(Taken::Nothing, Taken::ItsEnd));
        }
        match element.id {
            id::TIMESTAMP => {
                // Clusters come in the order of their times, other than pictures, of which only presentation is told.
                let told = element.unsigned(source)?.unwrap_or_default().min(1 << 60) as i64;
                self.time = movie.times.go_on(told, movie.cluster_time);
                movie.cluster_time = Some(self.time);
            }
            id::SIMPLE_BLOCK => {
                if let Some(block) = Block::read(source, element)? {
                    let is_key = block.flags & IS_KEY_FRAME != 0;
                    block.add(source, self.time, (is_key, None), movie)?;
                }
            }
            id::BLOCK_GROUP => group(source, element, self.time, movie)?,
            _ => {}
        }
        Ok(Taken::All(next))
    }
}

/// Whether an element may be in a cluster.
fn is_of_cluster(id: u32) -> bool {
    [id::TIMESTAMP, id::SIMPLE_BLOCK, id::BLOCK_GROUP, id::VOID, id::CRC_32].contains(&id)
        || id::OTHERS_OF_CLUSTER.contains(&id)
}

/// Whether an element cannot be in a cluster.
fn is_above(id: u32) -> bool {
    [id::SEGMENT, id::INFO, id::TRACKS, id::CLUSTER].contains(&id) || id::OTHERS.contains(&id)
}

/// A block with more about it. It is a key frame if it refers to no other.
fn group(source: &mut Source, group: &Element, cluster_time: i64, movie: &mut Movie) -> Result<()> {
    let end = group.end(source);
    let (mut block, mut is_key, mut lasts) = (None, true, None);
    let mut at = group.content;
    while let Some(element) = Element::read(source, at)?.filter(|element| element.start < end) {
        let Size::Known(bytes) = element.size else { break };
        match element.id {
            id::BLOCK => block = Block::read(source, &element)?,
            id::REFERENCE_BLOCK => is_key = false,
            id::BLOCK_DURATION => lasts = element.unsigned(source)?.map(|ticks| ticks.min(1 << 60) as i64),
            _ => {}
        }
        at = element.content.saturating_add(bytes);
    }
    block.map_or(Ok(()), |block| block.add(source, cluster_time, (is_key, lasts), movie))
}

struct Block {
    track: u64,
    time: i16,
    flags: u8,
    /// Where what follows the flags begins, and where it ends.
    at: u64,
    end: u64,
}

impl Block {
    /// `None` if it is not all there.
    fn read(source: &mut Source, element: &Element) -> Result<Option<Self>> {
        let end = element.end(source);
        let mut rest = source.up_to(element.content, 12)?;
        let before = rest.len();
        let Some((track, bits)) = ebml::number(&mut rest, 8) else { return Ok(None) };
        let [high, low, flags, ..] = *rest else { return Ok(None) };
        let at = element.content + (before - rest.len() + 3) as u64;
        let track = track & ((1 << bits) - 1);
        let time = i16::from_be_bytes([high, low]);
        Ok((at <= end && end <= source.bytes()).then_some(Self { track, time, flags, at, end }))
    }

    /// Puts its frames into the index of their track. `told` is whether they are key frames, and how long they last together.
    fn add(
        &self,
        source: &mut Source,
        cluster_time: i64,
        told: (bool, Option<i64>),
        movie: &mut Movie,
    ) -> Result<()> {
        let Some(draft) = movie.drafts.iter_mut().find(|draft| draft.number == self.track) else {
            return Ok(());
        };
        let lengths =
            self.lengths(source)?.ok_or(Error::Damaged("the frames of a block do not fit into it"))?;
        let ((is_key, lasts), count) = (told, lengths.len() as i64);
        // Frames of sound refer to no others, whatever writers say of them.
        let is_sync = is_key || !draft.codec.is_pictures();
        let mut at = self.end - lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        let presentation = cluster_time.saturating_add(self.time.into());
        movie.times.reach(presentation);
        let frames = lengths.into_iter().map(|bytes| {
            let entry = Entry { at, bytes, decode: 0, presentation, is_sync };
            at += u64::from(bytes);
            entry
        });
        let laced = Laced {
            frames: frames.collect(),
            lasts: draft.frame.map(|frame| frame.saturating_mul(count)).or(lasts),
        };
        draft.add(laced, &mut movie.samples_left)
    }

    /// The lengths of its frames, which end with it (section 10.3); `None` if they cannot be.
    fn lengths(&self, source: &mut Source) -> Result<Option<Vec<u32>>> {
        let Ok(bytes) = u32::try_from(self.end - self.at) else { return Ok(None) };
        let lacing = self.flags >> 1 & 3;
        if lacing == 0 {
            return Ok(Some(vec![bytes]));
        }
        let head = source.up_to(self.at, HEADER_BYTES_MAX.min(bytes as usize))?;
        let Some((&more, mut rest)) = head.split_first() else { return Ok(None) };
        let mut lengths = Vec::new();
        match lacing {
            1 => {
                for _ in 0..more {
                    let Some(length) = xiph(&mut rest) else { return Ok(None) };
                    lengths.push(length);
                }
            }
            3 => {
                for number in 0..more {
                    let Some((length, bits)) = ebml::number(&mut rest, 4) else { return Ok(None) };
                    let value = (length & ((1 << bits) - 1)) as i64;
                    // The first is a length, the others differ from the one before by this.
                    let before = lengths.last().map_or(0, |length| i64::from(*length));
                    let middle = if number == 0 { 0 } else { (1 << (bits - 1)) - 1 };
                    let Ok(length) = u32::try_from(before + value - middle) else { return Ok(None) };
                    lengths.push(length);
                }
            }
            _ => {
                let frames = u32::from(more) + 1;
                let each = (bytes - 1) / frames;
                return Ok(((bytes - 1) % frames == 0).then(|| vec![each; frames as usize]));
            }
        }
        let header = (head.len() - rest.len()) as u64;
        let sum: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        let Some(last) = u64::from(bytes).checked_sub(header + sum) else { return Ok(None) };
        lengths.push(last as u32);
        Ok(Some(lengths))
    }
}

/// Bytes that are added up, to the first that is not 255.
fn xiph(from: &mut &[u8]) -> Option<u32> {
    let mut length = 0_u32;
    loop {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        length += u32::from(byte);
        if byte < 255 {
            return Some(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of frames in a block whose content after the flags is `content`.
    fn lengths(lacing: u8, content: &[u8]) -> Option<Vec<u32>> {
        let content = content.to_vec();
        let mut source = Source::new(&content).expect("a source");
        let block = Block { track: 1, time: 0, flags: lacing << 1, at: 0, end: content.len() as u64 };
        block.lengths(&mut source).expect("readable")
    }

    #[test]
    fn frames_share_blocks_in_three_ways() {
        assert_eq!(lengths(0, &[0; 5]), Some(vec![5]));
        assert_eq!(lengths(1, &[&[2, 255, 1, 2][..], &[0; 300]].concat()), Some(vec![256, 2, 42]));
        assert_eq!(lengths(2, &[&[2][..], &[0; 12]].concat()), Some(vec![4, 4, 4]));
        // 800, then 300 less (two bytes, 8191 in the middle), then the rest.
        let content = [&[2, 0x43, 0x20, 0x5E, 0xD3][..], &[0; 1400]].concat();
        assert_eq!(lengths(3, &content), Some(vec![800, 500, 100]));
    }

    #[test]
    fn frames_that_lead_out_of_their_block_are_refused() {
        assert_eq!(lengths(1, &[1, 10, 0, 0]), None);
        assert_eq!(lengths(1, &[1, 255]), None);
        assert_eq!(lengths(2, &[1, 0, 0, 0]), None);
        assert_eq!(lengths(3, &[1, 0x81 + 9]), None);
        assert_eq!(lengths(3, &[]), None);
    }
}
