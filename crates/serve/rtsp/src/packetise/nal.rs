//! H.264 (RFC 6184, packetization-mode 1) and H.265 (RFC 7798): NAL units alone, small ones together, large ones in parts.
//!
//! ```text
//!  alone       | NAL unit                                              |
//!  together    | header | size | NAL unit | size | NAL unit | ...      |   STAP-A, AP; sizes of 16 bits
//!  in parts    | header | start, end, type | part of a NAL unit        |   FU-A, FU; without the unit's own header
//! ```
//!
//! The size before a unit is what the sample has there anyway, where lengths have 2 or 4 bytes.

use std::ops::Range;

use memchr::memmem;

use super::{PIECES_MAX, Packet, Packetiser, Sample, Unsendable, parts};

/// What stands between NAL units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Framing {
    /// The length of each before it, in 1, 2 or 4 bytes (ISO/IEC 14496-15).
    Lengths(u8),
    /// 0, 0, 1 before each, and zeros after it (ITU-T H.264, annex B).
    StartCodes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    H264,
    H265,
}

impl Packetiser {
    /// The marker ends an access unit.
    pub(super) fn nal_units(
        &mut self,
        codec: Codec,
        framing: Framing,
        buffer: &[u8],
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        for sample in samples {
            let before = packets.len();
            let mut small = Small::default();
            let mut units = Units { buffer, framing, rest: sample.at.clone() };
            let result = loop {
                let unit = match units.next_unit() {
                    Ok(Some(unit)) => unit,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                };
                if !codec.is_sendable(&buffer[unit.clone()]) {
                    continue;
                }
                if !small.has_room(&unit, codec, framing, self.payload_bytes_max) {
                    self.flush(codec, buffer, sample.timestamp, &mut small, packets);
                }
                if unit.len() > self.payload_bytes_max {
                    self.in_parts(codec, buffer, unit, sample.timestamp, packets);
                } else {
                    small.push(unit);
                }
            };
            self.flush(codec, buffer, sample.timestamp, &mut small, packets);
            if let Some(last) = packets[before..].last_mut() {
                last.mark();
            }
            result?;
        }
        Ok(())
    }

    /// Those that are waiting, in one packet.
    fn flush(
        &mut self,
        codec: Codec,
        buffer: &[u8],
        timestamp: u32,
        small: &mut Small,
        packets: &mut Vec<Packet>,
    ) {
        let units = &small.units[..small.count];
        if !units.is_empty() {
            let mut packet = self.packet(timestamp);
            if let [unit] = units {
                packet.add(unit.clone());
            } else {
                codec.say_together(units.iter().map(|unit| &buffer[unit.clone()]), &mut packet);
                units.iter().for_each(|unit| packet.add(unit.start - SIZE_BYTES..unit.end));
            }
            packets.push(packet);
        }
        *small = Small::default();
    }

    fn in_parts(
        &mut self,
        codec: Codec,
        buffer: &[u8],
        unit: Range<usize>,
        timestamp: u32,
        packets: &mut Vec<Packet>,
    ) {
        let header = &buffer[unit.start..unit.start + codec.header_bytes()];
        let content = unit.start + codec.header_bytes()..unit.end;
        for part in parts(content.clone(), self.payload_bytes_max - codec.header_bytes() - 1) {
            let mut packet = self.packet(timestamp);
            codec.say_part(header, part.start == content.start, part.end == content.end, &mut packet);
            packet.add(part);
            packets.push(packet);
        }
    }
}

/// Whether a picture is one that no other picture needs: its slices say so (ITU-T H.264, section 7.4.1: `nal_ref_idc` of 0; H.265,
/// table 7-1: types of even numbers below 16).
pub(super) fn is_disposable(codec: Codec, framing: Framing, buffer: &[u8], at: Range<usize>) -> bool {
    let mut units = Units { buffer, framing, rest: at };
    while let Ok(Some(unit)) = units.next_unit() {
        match (codec, &buffer[unit]) {
            (Codec::H264, [header, ..]) if (1..=5).contains(&(header & 0x1F)) => return header & 0x60 == 0,
            (Codec::H265, [header, ..]) if header >> 1 & 0x3F < 32 => {
                let number = header >> 1 & 0x3F;
                return number < 16 && number.is_multiple_of(2);
            }
            _ => {}
        }
    }
    false
}

const SIZE_BYTES: usize = 2;

/// Units that may share a packet.
#[derive(Default)]
struct Small {
    units: [Range<usize>; PIECES_MAX],
    count: usize,
    bytes: usize,
}

impl Small {
    fn has_room(
        &self,
        unit: &Range<usize>,
        codec: Codec,
        framing: Framing,
        payload_bytes_max: usize,
    ) -> bool {
        let has_sizes = matches!(framing, Framing::Lengths(2..));
        let bytes = codec.header_bytes() + self.bytes + SIZE_BYTES + unit.len();
        self.count == 0 || (has_sizes && self.count < PIECES_MAX && bytes <= payload_bytes_max)
    }

    fn push(&mut self, unit: Range<usize>) {
        self.bytes += SIZE_BYTES + unit.len();
        self.units[self.count] = unit;
        self.count += 1;
    }
}

impl Codec {
    fn header_bytes(self) -> usize {
        match self {
            Self::H264 => 1,
            Self::H265 => 2,
        }
    }

    /// Empty units say nothing, and types that the payload format has taken for itself would be misread.
    fn is_sendable(self, unit: &[u8]) -> bool {
        match (self, unit) {
            (Self::H264, [header, ..]) => (1..=23).contains(&(header & 0x1F)),
            (Self::H265, [header, _, ..]) => header >> 1 & 0x3F < 48,
            _ => false,
        }
    }

    /// The header of a packet of several units (RFC 6184, section 5.7.1; RFC 7798, section 4.4.2).
    fn say_together<'a>(self, units: impl Iterator<Item = &'a [u8]> + Clone, packet: &mut Packet) {
        let forbidden = units.clone().fold(0, |bits, unit| bits | unit[0] & 0x80);
        match self {
            Self::H264 => {
                let importance = units.map(|unit| unit[0] & 0x60).max().unwrap_or_default();
                packet.say(&[forbidden | importance | 24]);
            }
            Self::H265 => {
                let both = |unit: &[u8]| u16::from_be_bytes([unit[0], unit[1]]);
                let layer = units.clone().map(|unit| both(unit) & 0x01F8).min().unwrap_or_default();
                let temporal = units.map(|unit| both(unit) & 0x07).min().unwrap_or_default();
                packet.say(&(u16::from(forbidden) << 8 | 48 << 9 | layer | temporal).to_be_bytes());
            }
        }
    }

    /// The headers of a packet with a part of a unit (RFC 6184, section 5.8; RFC 7798, section 4.4.3).
    fn say_part(self, header: &[u8], is_first: bool, is_last: bool, packet: &mut Packet) {
        let ends = u8::from(is_first) << 7 | u8::from(is_last) << 6;
        match self {
            Self::H264 => packet.say(&[header[0] & 0xE0 | 28, ends | header[0] & 0x1F]),
            Self::H265 => packet.say(&[header[0] & 0x81 | 49 << 1, header[1], ends | header[0] >> 1 & 0x3F]),
        }
    }
}

/// The NAL units of a sample.
struct Units<'a> {
    buffer: &'a [u8],
    framing: Framing,
    rest: Range<usize>,
}

impl Units<'_> {
    fn next_unit(&mut self) -> Result<Option<Range<usize>>, Unsendable> {
        match self.framing {
            Framing::Lengths(bytes) => self.after_length(bytes.clamp(1, 4).into()),
            Framing::StartCodes => Ok(self.after_start_code()),
        }
    }

    fn after_length(&mut self, length_bytes: usize) -> Result<Option<Range<usize>>, Unsendable> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let left_bytes = self.rest.len();
        let length = &self.buffer[self.rest.clone()][..length_bytes.min(left_bytes)];
        let unit_bytes = length.iter().fold(0, |value, byte| value << 8 | usize::from(*byte));
        let start = self.rest.start + length_bytes;
        if left_bytes < length_bytes || self.rest.end - start < unit_bytes {
            return Err(Unsendable::NalOutOfSample { unit_bytes, left_bytes });
        }
        self.rest.start = start + unit_bytes;
        Ok(Some(start..self.rest.start))
    }

    fn after_start_code(&mut self) -> Option<Range<usize>> {
        let start =
            self.rest.start + memmem::find(&self.buffer[self.rest.clone()], START_CODE)? + START_CODE.len();
        let end = memmem::find(&self.buffer[start..self.rest.end], START_CODE)
            .map_or(self.rest.end, |at| start + at);
        self.rest.start = end;
        let zeros = self.buffer[start..end].iter().rev().take_while(|byte| **byte == 0).count();
        Some(start..end - zeros)
    }
}

const START_CODE: &[u8] = &[0, 0, 1];
