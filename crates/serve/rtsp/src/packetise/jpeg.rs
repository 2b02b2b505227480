//! Motion JPEG (RFC 2435): the scan of a picture in parts, with what a receiver needs to make its headers again.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |       0       |                offset in the scan             |
//! +---------------+---------------+---------------+---------------+
//! |     type      |   Q = 255     |   width / 8   |   height / 8  |
//! +---------------+---------------+---------------+---------------+
//! |   restart interval, types 64  |             0xFFFF            |
//! +---------------+---------------+-------------------------------+
//! |       0       |   precision   |   bytes of tables, at offset 0|
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! The tables of quantisation come with each picture. Huffman tables are not sent: receivers have those of the standard
//! (ITU-T T.81, annex K.3), so a picture with others is refused.

use std::ops::Range;

use memchr::memmem;
use thiserror::Error;

use super::{Packet, Packetiser, Sample, Unsendable, parts};

/// Why a picture cannot be sent.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unfit {
    /// Its headers contradict themselves, or are not all there.
    #[error("its headers cannot be read: the file is damaged")]
    Damaged,
    /// It is progressive, lossless, or of more than 8 bits.
    #[error("it is not a baseline picture of 8 bits, which RFC 2435 asks for")]
    NotBaseline,
    /// Its colours are sampled otherwise.
    #[error("its colours are neither 4:2:0 nor 4:2:2 in the order of RFC 2435")]
    Sampling,
    /// Width and height are sent in eighths, in 8 bits.
    #[error("it is {width}x{height}, and RFC 2435 has room for 2040x2040")]
    TooLarge {
        /// In pixels.
        width: u16,
        /// In pixels.
        height: u16,
    },
    /// It brings Huffman tables of its own.
    #[error(
        "it has Huffman tables of its own, and RFC 2435 has the standard's: encode it with `-huffman default`"
    )]
    Huffman,
    /// It is one of two fields.
    #[error("it consists of two fields")]
    Fields,
}

/// Whether a picture can be sent.
pub fn check(picture: &[u8]) -> Result<(), Unfit> {
    Picture::read(picture).map(|_| ())
}

const TABLE_BYTES: usize = 64;
const MAIN_HEADER_BYTES: usize = 8;
const RESTART_HEADER_BYTES: usize = 4;
const TABLES_HEADER_BYTES: usize = 4;
/// Q for tables that come with each picture (section 3.1.8).
const OWN_TABLES: u8 = 255;
/// Added to the type where restart markers are in the scan (section 3.1.3).
const WITH_RESTARTS: u8 = 64;
/// Of packets that need not hold whole restart intervals (section 3.1.7).
const ANY_INTERVALS: [u8; 2] = [0xFF, 0xFF];
const SCAN_BYTES_MAX: usize = (1 << 24) - 1;

impl Packetiser {
    /// The marker ends a picture.
    pub(super) fn jpeg(
        &mut self,
        buffer: &[u8],
        samples: &[Sample],
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        for sample in samples {
            let picture = Picture::read(&buffer[sample.at.clone()]).map_err(Unsendable::Jpeg)?;
            let of_buffer = |range: &Range<usize>| sample.at.start + range.start..sample.at.start + range.end;
            let tables = picture.tables.each_ref().map(of_buffer);
            let scan = of_buffer(&picture.scan);
            let bytes = scan.len();
            if bytes > SCAN_BYTES_MAX {
                return Err(Unsendable::TooLong { bytes, bytes_max: SCAN_BYTES_MAX });
            }
            let later_room = self.payload_bytes_max - picture.header_bytes();
            let first_room = later_room - TABLES_HEADER_BYTES - 2 * TABLE_BYTES;
            let first = scan.start..scan.end.min(scan.start + first_room);
            let later = parts(first.end..scan.end, later_room);
            for part in [first].into_iter().chain(later) {
                let mut packet = self.packet(sample.timestamp);
                let offset = part.start - scan.start;
                picture.say(offset as u32, &mut packet);
                if offset == 0 {
                    packet.say(&[0, 0]);
                    packet.say(&(2 * TABLE_BYTES as u16).to_be_bytes());
                    tables.iter().for_each(|table| packet.add(table.clone()));
                }
                if part.end == scan.end {
                    packet.mark();
                }
                packet.add(part);
                packets.push(packet);
            }
        }
        Ok(())
    }
}

/// What of a picture is sent.
#[derive(Debug)]
struct Picture {
    kind: u8,
    width: u16,
    height: u16,
    restart_interval: u16,
    /// Those of luminance and of colours.
    tables: [Range<usize>; 2],
    scan: Range<usize>,
}

impl Picture {
    fn header_bytes(&self) -> usize {
        MAIN_HEADER_BYTES + if self.restart_interval > 0 { RESTART_HEADER_BYTES } else { 0 }
    }

    fn say(&self, offset: u32, packet: &mut Packet) {
        packet.say(&offset.to_be_bytes());
        let has_restarts = self.restart_interval > 0;
        let kind = self.kind + if has_restarts { WITH_RESTARTS } else { 0 };
        packet.say(&[kind, OWN_TABLES, self.width.div_ceil(8) as u8, self.height.div_ceil(8) as u8]);
        if has_restarts {
            packet.say(&self.restart_interval.to_be_bytes());
            packet.say(&ANY_INTERVALS);
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, Unfit> {
        let mut headers = Headers::default();
        let mut segments = Segments { bytes, at: 2 };
        if !bytes.starts_with(&[0xFF, START_OF_IMAGE]) {
            return Err(Unfit::Damaged);
        }
        loop {
            let (marker, at) = segments.next_segment().ok_or(Unfit::Damaged)?;
            let content = &bytes[at.clone()];
            match marker {
                QUANTISATION => headers.quantisation(at.start, content)?,
                HUFFMAN => headers.huffman(content)?,
                RESTARTS => headers.restart_interval = number(content, 0).ok_or(Unfit::Damaged)?,
                BASELINE => headers.frame(content)?,
                // Of the other frames: all but the marks of tables, of extensions and of arithmetic conditioning.
                0xC1..=0xCF if !matches!(marker, 0xC8 | 0xCC) => return Err(Unfit::NotBaseline),
                START_OF_SCAN => return headers.picture(content, at.end, bytes),
                _ => {}
            }
        }
    }
}

/// Markers (ITU-T T.81, table B.1).
const BASELINE: u8 = 0xC0;
const HUFFMAN: u8 = 0xC4;
const START_OF_IMAGE: u8 = 0xD8;
const END_OF_IMAGE: &[u8] = &[0xFF, 0xD9];
const START_OF_SCAN: u8 = 0xDA;
const QUANTISATION: u8 = 0xDB;
const RESTARTS: u8 = 0xDD;

/// The segments before a scan: markers, each with a length.
struct Segments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Segments<'_> {
    /// A marker, and where what belongs to it lies.
    fn next_segment(&mut self) -> Option<(u8, Range<usize>)> {
        // Any number of 0xFF may fill up.
        let rest = self.bytes.get(self.at..)?;
        let fill = rest.iter().take_while(|byte| **byte == 0xFF).count();
        let marker = *rest.get(fill).filter(|_| fill > 0)?;
        let at = self.at + fill + 1;
        let length = usize::from(number(self.bytes, at)?);
        let end = at + length;
        if length < 2 || end > self.bytes.len() {
            return None;
        }
        self.at = end;
        Some((marker, at + 2..end))
    }
}

/// What the segments have told.
#[derive(Default)]
struct Headers {
    tables: [Option<Range<usize>>; 4],
    restart_interval: u16,
    frame: Option<Frame>,
}

struct Frame {
    kind: u8,
    width: u16,
    height: u16,
    /// The identifiers of luminance and both colours, and their tables of quantisation.
    components: [(u8, u8); 3],
}

impl Headers {
    fn quantisation(&mut self, start: usize, content: &[u8]) -> Result<(), Unfit> {
        let tables = content.chunks_exact(1 + TABLE_BYTES);
        if !tables.remainder().is_empty() {
            return Err(Unfit::NotBaseline);
        }
        for (number, table) in tables.enumerate() {
            // The upper half tells of values of 16 bits, which baseline pictures do not have.
            let slot = self.tables.get_mut(usize::from(table[0])).ok_or(Unfit::NotBaseline)?;
            let at = start + number * (1 + TABLE_BYTES) + 1;
            *slot = Some(at..at + TABLE_BYTES);
        }
        Ok(())
    }

    fn huffman(&mut self, mut content: &[u8]) -> Result<(), Unfit> {
        while let Some((&which, rest)) = content.split_first() {
            let counts = rest.get(..16).ok_or(Unfit::Damaged)?;
            let bytes = 16 + counts.iter().map(|count| usize::from(*count)).sum::<usize>();
            let table = rest.get(..bytes).ok_or(Unfit::Damaged)?;
            let is_standard = standard(which)
                .is_some_and(|(counts, values)| table[..16] == counts[..] && table[16..] == values[..]);
            if !is_standard {
                return Err(Unfit::Huffman);
            }
            content = &rest[bytes..];
        }
        Ok(())
    }

    fn frame(&mut self, content: &[u8]) -> Result<(), Unfit> {
        let [bits, _, _, _, _, count, components @ ..] = content else { return Err(Unfit::Damaged) };
        let [height, width] = [1, 3].map(|at| number(content, at).unwrap_or_default());
        let (3, [a, sampling, b, c, d, e, f, g, h]) = (*count, components) else {
            return Err(if *bits == 8 { Unfit::Sampling } else { Unfit::NotBaseline });
        };
        let kind = match (*sampling, *d, *g) {
            _ if *bits != 8 => return Err(Unfit::NotBaseline),
            (0x21, 0x11, 0x11) if e == h => 0,
            (0x22, 0x11, 0x11) if e == h => 1,
            _ => return Err(Unfit::Sampling),
        };
        if width == 0 || height == 0 {
            return Err(Unfit::Damaged);
        }
        if width > 2040 || height > 2040 {
            return Err(Unfit::TooLarge { width, height });
        }
        self.frame = Some(Frame { kind, width, height, components: [(*a, *b), (*c, *e), (*f, *h)] });
        Ok(())
    }

    /// The picture, whose scan has this header and begins at `start`.
    fn picture(self, scan: &[u8], start: usize, bytes: &[u8]) -> Result<Picture, Unfit> {
        let frame = self.frame.ok_or(Unfit::Damaged)?;
        let ids = frame.components.map(|(id, _)| id);
        // Luminance has the first tables, colours have the second.
        let expected = [3, ids[0], 0x00, ids[1], 0x11, ids[2], 0x11];
        if scan.get(..expected.len()) != Some(&expected[..]) {
            return Err(Unfit::Huffman);
        }
        let table = |component: usize| {
            let slot = self.tables.get(usize::from(frame.components[component].1));
            slot.and_then(Clone::clone).ok_or(Unfit::Damaged)
        };
        let end = memmem::find(&bytes[start..], END_OF_IMAGE).map_or(bytes.len(), |at| start + at);
        let after = bytes.get(end + END_OF_IMAGE.len()..).unwrap_or_default();
        if memmem::find(after, &[0xFF, START_OF_IMAGE, 0xFF]).is_some() {
            return Err(Unfit::Fields);
        }
        Ok(Picture {
            kind: frame.kind,
            width: frame.width,
            height: frame.height,
            restart_interval: self.restart_interval,
            tables: [table(0)?, table(1)?],
            scan: start..end,
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// How many codes there are of each length, and what they mean.
type Huffman = (&'static [u8; 16], &'static [u8]);

/// The tables of ITU-T T.81, K.3, by their class and number.
fn standard(which: u8) -> Option<Huffman> {
    match which {
        0x00 => Some((&[0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &DIFFERENCES)),
        0x01 => Some((&[0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &DIFFERENCES)),
        0x10 => Some((&[0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7D], &LUMINANCE)),
        0x11 => Some((&[0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77], &COLOURS)),
        _ => None,
    }
}

const DIFFERENCES: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

#[rustfmt::skip]
const LUMINANCE: [u8; 162] = [
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71,
    0x14, 0x32, 0x81, 0x91, 0xA1, 0x08, 0x23, 0x42, 0xB1, 0xC1, 0x15, 0x52, 0xD1, 0xF0, 0x24, 0x33, 0x62, 0x72,
    0x82, 0x09, 0x0A, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A, 0x34, 0x35, 0x36, 0x37,
    0x38, 0x39, 0x3A, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
    0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6A, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A, 0x83,
    0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0xA2, 0xA3,
    0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA, 0xC2, 0xC3,
    0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xE1, 0xE2,
    0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA,
];

#[rustfmt::skip]
const COLOURS: [u8; 162] = [
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22,
    0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xA1, 0xB1, 0xC1, 0x09, 0x23, 0x33, 0x52, 0xF0, 0x15, 0x62, 0x72, 0xD1,
    0x0A, 0x16, 0x24, 0x34, 0xE1, 0x25, 0xF1, 0x17, 0x18, 0x19, 0x1A, 0x26, 0x27, 0x28, 0x29, 0x2A, 0x35, 0x36,
    0x37, 0x38, 0x39, 0x3A, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
    0x59, 0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6A, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A,
    0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A,
    0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA,
    0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA,
    0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_tables_have_as_many_values_as_codes() {
        for which in [0x00, 0x01, 0x10, 0x11] {
            let (counts, values) = standard(which).expect("a table");
            assert_eq!(counts.iter().map(|count| usize::from(*count)).sum::<usize>(), values.len());
            let mut distinct = values.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), values.len());
        }
    }
}
