//! AV1 (AV1 RTP payload format, sections 4.3 to 4.5): an OBU alone, or in parts, after an aggregation header.
//!
//! ```text
//!   0   1   2 3   4   5 6 7
//! +---+---+-----+---+-------+------------+---------------------
//! | Z | Y |  W  | N |   0   | OBU header | its content, or a part
//! +---+---+-----+---+-------+------------+---------------------
//! ```
//!
//! Z goes on with an OBU, Y does not end it, W counts OBUs, N begins a coded video sequence. An OBU's length is left out, since
//! the packet tells it. Temporal delimiters and tile lists are left out, too.

use std::ops::Range;

use super::{Packet, Packetiser, Sample, Unsendable, parts};

const GOES_ON: u8 = 0x80;
const IS_CONTINUED: u8 = 0x40;
const ONE_OBU: u8 = 0x10;
const BEGINS_SEQUENCE: u8 = 0x08;

/// Types of OBU (AV1 bitstream, 6.2.2).
const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const TILE_LIST: u8 = 8;

const HAS_EXTENSION: u8 = 0x04;
const HAS_SIZE: u8 = 0x02;

/// Of a packet: what is said before the content.
const HEADER_BYTES_MAX: usize = 3;

impl Packetiser {
    /// The marker ends a temporal unit.
    pub(super) fn av1(
        &mut self,
        buffer: &[u8],
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        for sample in samples {
            let before = packets.len();
            let mut obus = Obus { buffer, rest: sample.at.clone() };
            let result = loop {
                match obus.next_obu() {
                    Ok(Some(obu)) if matches!(obu.kind(), TEMPORAL_DELIMITER | TILE_LIST) => {}
                    Ok(Some(obu)) => self.obu(&obu, packets.len() == before, sample.timestamp, packets),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            if let Some(last) = packets[before..].last_mut() {
                last.mark();
            }
            result?;
        }
        Ok(())
    }

    fn obu(&mut self, obu: &Obu, begins_unit: bool, timestamp: u32, packets: &mut Vec<Packet>) {
        let begins_sequence = begins_unit && obu.kind() == SEQUENCE_HEADER;
        let content = obu.content.clone();
        let room = self.payload_bytes_max - HEADER_BYTES_MAX;
        let mut emit = |part: Range<usize>| {
            let (is_first, is_last) = (part.start == content.start, part.end == content.end);
            let mut aggregation = ONE_OBU;
            for (is_set, flag) in [
                (!is_first, GOES_ON),
                (!is_last, IS_CONTINUED),
                (is_first && begins_sequence, BEGINS_SEQUENCE),
            ] {
                aggregation |= if is_set { flag } else { 0 };
            }
            let mut packet = self.packet(timestamp);
            packet.say(&[aggregation]);
            if is_first {
                packet.say(&obu.header[..obu.header_bytes]);
            }
            packet.add(part);
            packets.push(packet);
        };
        if content.is_empty() {
            return emit(content.clone());
        }
        parts(content.clone(), room).for_each(&mut emit);
    }
}

/// An OBU without its length.
struct Obu {
    header: [u8; 2],
    header_bytes: usize,
    content: Range<usize>,
}

impl Obu {
    fn kind(&self) -> u8 {
        self.header[0] >> 3 & 0x0F
    }
}

/// The OBUs of a sample, in the low-overhead format (AV1 bitstream, 5.2).
struct Obus<'a> {
    buffer: &'a [u8],
    rest: Range<usize>,
}

impl Obus<'_> {
    fn next_obu(&mut self) -> Result<Option<Obu>, Unsendable> {
        let bytes = &self.buffer[self.rest.clone()];
        let Some(&first) = bytes.first() else { return Ok(None) };
        let out_of_sample = |unit_bytes| Unsendable::ObuOutOfSample { unit_bytes, left_bytes: bytes.len() };
        let header_bytes = if first & HAS_EXTENSION != 0 { 2 } else { 1 };
        let second = bytes.get(1).copied().filter(|_| header_bytes == 2);
        if second.is_none() && header_bytes == 2 {
            return Err(out_of_sample(2));
        }
        let after = &bytes[header_bytes..];
        let (size, size_bytes) = if first & HAS_SIZE != 0 {
            leb128(after).ok_or_else(|| out_of_sample(0))?
        } else {
            (after.len() as u64, 0)
        };
        if size > (after.len() - size_bytes) as u64 {
            return Err(out_of_sample(size));
        }
        let start = self.rest.start + header_bytes + size_bytes;
        self.rest.start = start + size as usize;
        let header = [first & !HAS_SIZE, second.unwrap_or_default()];
        Ok(Some(Obu { header, header_bytes, content: start..self.rest.start }))
    }
}

/// Seven bits a byte, the lowest first, in at most eight bytes; and how many those were (AV1 bitstream, 4.10.5).
fn leb128(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}
