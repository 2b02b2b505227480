//! How the bytes of a sample lie in its file, where they are not there as they are sent.
//!
//! ```text
//!   file      | header | own payload | header | of others | header | own payload |
//!                      ^-------------------- sample --------------------^
//!   unpacked  | own payload | own payload |
//! ```

use std::ops::Range;
use std::sync::Arc;

/// A packet of a transport stream (ISO/IEC 13818-1, 2.4.3).
pub(crate) const PACKET_BYTES: usize = 188;

/// What is to be done with the bytes of a sample when they have been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Nothing.
    #[default]
    Plain,
    /// Values have their lowest byte first, and are sent with the highest first.
    Reversed {
        /// The bytes of a value.
        bytes: u8,
    },
    /// Others come before it, for which as many bytes before it have been read.
    After {
        /// Such as parameter sets, as they are sent.
        first: Arc<[u8]>,
    },
    /// Text.
    Text {
        /// Whether its length comes first, in 16 bits, and other things after it (3GPP TS 26.245, section 5.17).
        has_length: bool,
    },
    /// None of it is sent.
    Nothing,
    /// Pieces in packets of a transport stream, with those of others between them.
    Packets {
        /// Which packets.
        pid: u16,
        /// From the beginning of one packet to that of the next.
        stride: u8,
        /// From the beginning of the sample to that of the next packet.
        first: u8,
    },
    /// Pieces in pages of Ogg, with headers and pages of others between them.
    Pages {
        /// Which pages.
        serial: u32,
        /// From the beginning of the sample to that of the next page.
        first: u32,
    },
}

impl Packing {
    /// Puts the bytes that are sent to the front, and returns how many those are.
    pub fn unpack(&self, bytes: &mut [u8]) -> usize {
        match *self {
            Self::Plain => bytes.len(),
            Self::Reversed { bytes: count } => {
                bytes.chunks_exact_mut(usize::from(count).max(1)).for_each(<[u8]>::reverse);
                bytes.len()
            }
            Self::After { ref first } => {
                let count = first.len().min(bytes.len());
                bytes[..count].copy_from_slice(&first[..count]);
                bytes.len()
            }
            Self::Text { has_length: false } => bytes.len(),
            Self::Text { has_length: true } => {
                let Some((length, text)) = bytes.split_first_chunk::<2>() else { return 0 };
                let count = usize::from(u16::from_be_bytes(*length)).min(text.len());
                bytes.copy_within(2..2 + count, 0);
                count
            }
            Self::Nothing => 0,
            Self::Packets { pid, stride, first } => gather(bytes, pid, stride.into(), first.into()),
            Self::Pages { serial, first } => join(bytes, serial, first as usize),
        }
    }
}

fn gather(bytes: &mut [u8], pid: u16, stride: usize, first: usize) -> usize {
    let stride = stride.max(PACKET_BYTES);
    let between = stride - PACKET_BYTES;
    let mut filled = first.saturating_sub(between).min(bytes.len());
    let mut reader = Payloads::default();
    for at in (first..bytes.len()).step_by(stride) {
        let packet = at..bytes.len().min(at + PACKET_BYTES);
        if let Some(payload) = reader.payload(&bytes[packet], pid) {
            let own = at + payload.range.start..at + payload.range.end;
            let count = own.len();
            bytes.copy_within(own, filled);
            filled += count;
        }
    }
    filled
}

/// A packet of Ogg that goes on in pages after the one that it begins in.
fn join(bytes: &mut [u8], serial: u32, first: usize) -> usize {
    let (mut filled, mut at) = (first.min(bytes.len()), first);
    while let Some(page) = bytes.get(at..).and_then(OggPage::parse) {
        let content = at + page.header_bytes();
        let end = content + page.content_bytes();
        if page.serial == serial {
            let (own, is_all) = page.first_packet();
            let own = content.min(bytes.len())..bytes.len().min(content + own);
            let count = own.len();
            bytes.copy_within(own, filled);
            filled += count;
            if is_all {
                break;
            }
        }
        at = end;
    }
    filled
}

/// The header of a page (RFC 3533, section 6).
pub(crate) struct OggPage {
    pub flags: u8,
    /// The time at its end, as its codec counts.
    pub granule: i64,
    pub serial: u32,
    pub number: u32,
    /// The lengths of segments; a packet ends with one of less than 255 bytes.
    lacing: [u8; 255],
    segments: u8,
}

impl OggPage {
    pub const HEADER_BYTES_MAX: usize = 27 + 255;
    pub const CONTINUES: u8 = 1;
    pub const BEGINS: u8 = 2;
    pub const ENDS: u8 = 4;

    /// `None` if it is none, or is cut off.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[b'O', b'g', b'g', b'S', 0, flags, ref rest @ ..] = bytes else { return None };
        let (granule, rest) = rest.split_first_chunk::<8>()?;
        let (serial, rest) = rest.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let (&segments, rest) = rest.get(4..)?.split_first()?;
        let mut lacing = [0; 255];
        lacing[..segments.into()].copy_from_slice(rest.get(..segments.into())?);
        Some(Self {
            flags,
            granule: i64::from_le_bytes(*granule),
            serial: u32::from_le_bytes(*serial),
            number: u32::from_le_bytes(*number),
            lacing,
            segments,
        })
    }

    pub fn header_bytes(&self) -> usize {
        27 + usize::from(self.segments)
    }

    pub fn content_bytes(&self) -> usize {
        self.lacing().iter().map(|bytes| usize::from(*bytes)).sum()
    }

    pub fn lacing(&self) -> &[u8] {
        &self.lacing[..self.segments.into()]
    }

    /// How much of the content is of the first packet, and whether that ends there.
    fn first_packet(&self) -> (usize, bool) {
        let last = self.lacing().iter().position(|bytes| *bytes < 255);
        let segments = last.map_or(self.lacing(), |last| &self.lacing()[..=last]);
        (segments.iter().map(|bytes| usize::from(*bytes)).sum(), last.is_some())
    }
}

/// What of the packets of one stream is its own.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    /// How much of a header is still to come.
    header_left: usize,
}

/// Where the payload in a packet lies, and the PES header before it, if one begins there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub range: Range<usize>,
    pub header: Option<usize>,
}

impl Payloads {
    /// Of a packet, which may be cut off; `None` if it has none, or is of another stream.
    pub fn payload(&mut self, packet: &[u8], pid: u16) -> Option<Payload> {
        let &[0x47, high, low, control, ..] = packet else { return None };
        const HAS_PAYLOAD: u8 = 0x10;
        const HAS_ADAPTATION: u8 = 0x20;
        const BEGINS_UNIT: u8 = 0x40;
        if u16::from_be_bytes([high & 0x1F, low]) != pid || control & HAS_PAYLOAD == 0 {
            return None;
        }
        let adaptation = if control & HAS_ADAPTATION != 0 { 1 + usize::from(*packet.get(4)?) } else { 0 };
        let begin = 4 + adaptation;
        let begins_unit = high & BEGINS_UNIT != 0;
        if begins_unit {
            self.header_left = pes_header_bytes(packet.get(begin..)?)?;
        }
        let skipped = self.header_left.min(packet.len().checked_sub(begin)?);
        self.header_left -= skipped;
        Some(Payload { range: begin + skipped..packet.len(), header: begins_unit.then_some(begin) })
    }
}

/// How long the header of a PES packet is (2.4.3.6); `None` if it is none.
fn pes_header_bytes(bytes: &[u8]) -> Option<usize> {
    /// Streams without the fields that others have: maps, padding, second private ones, and control messages.
    const WITHOUT_FIELDS: [u8; 8] = [0xBC, 0xBE, 0xBF, 0xF0, 0xF1, 0xF2, 0xF8, 0xFF];
    let &[0, 0, 1, id, ..] = bytes else { return None };
    if WITHOUT_FIELDS.contains(&id) {
        return Some(6);
    }
    Some(9 + usize::from(*bytes.get(8)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_turned_round() {
        let mut bytes = [1, 2, 3, 4, 5, 6, 7];
        assert_eq!(Packing::Reversed { bytes: 3 }.unpack(&mut bytes), 7);
        assert_eq!(bytes, [3, 2, 1, 6, 5, 4, 7]);
        assert_eq!(Packing::Plain.unpack(&mut bytes), 7);
    }

    /// A page with one segment after the other.
    fn page(serial: u32, segments: &[&[u8]]) -> Vec<u8> {
        let mut page = [&b"OggS\0\0"[..], &[0; 8], &serial.to_le_bytes(), &[0; 8]].concat();
        page.push(segments.len() as u8);
        page.extend(segments.iter().map(|segment| segment.len() as u8));
        page.extend(segments.concat());
        page
    }

    #[test]
    fn a_packet_of_ogg_is_joined_out_of_its_pages() {
        let part = |byte: u8| vec![byte; 255];
        // Its beginning, a page that is all of it, a page of another stream, and its end with another packet after it.
        let file = [
            part(1),
            page(7, &[&part(2), &part(3)]),
            page(8, &[&[9; 40]]),
            page(7, &[&part(4), &[5; 10], &[6; 10]]),
        ];
        let end = file.concat().len() - 10;
        let mut sample = file.concat()[..end].to_vec();
        let expected = [part(1), part(2), part(3), part(4), vec![5; 10]].concat();
        let count = Packing::Pages { serial: 7, first: 255 }.unpack(&mut sample);
        assert_eq!(sample[..count], expected);
        assert_eq!(Packing::Pages { serial: 7, first: 9 }.unpack(&mut [1; 5]), 5);
    }

    /// A packet with this payload, which an adaptation field makes as long as it has to be.
    fn packet(pid: u16, begins_unit: bool, payload: &[u8]) -> Vec<u8> {
        let mut packet =
            (0x4700_0010 | u32::from(begins_unit) << 22 | u32::from(pid) << 8).to_be_bytes().to_vec();
        let left = PACKET_BYTES - 4 - payload.len();
        if left > 0 {
            packet[3] |= 0x20;
            packet.push(left as u8 - 1);
            packet.resize(4 + left, 0xFF);
        }
        packet.extend(payload);
        packet
    }

    proptest! {
        #[test]
        fn what_lies_in_packets_comes_out_as_it_was(
            pieces in prop::collection::vec((1..=184usize, 0..3usize, any::<bool>()), 1..20),
            skipped in 0..184usize,
            cut in 0..184usize,
            between in prop::sample::select(vec![0usize, 4, 16]),
        ) {
            let (mut file, mut expected, mut begin, mut end) = (vec![], Vec::<u8>::new(), 0, 0);
            let last = pieces.len() - 1;
            for (number, (bytes, others, begins_unit)) in pieces.into_iter().enumerate() {
                let header = [0, 0, 1, 0xE0, 0, 0, 0x80, 0, 3, 9, 9, 9];
                let begins_unit = begins_unit && number > 0 && bytes > header.len();
                let mut payload: Vec<u8> = (0..bytes).map(|at| (number + at) as u8).collect();
                if begins_unit {
                    payload[..header.len()].copy_from_slice(&header);
                }
                file.extend(packet(100, begins_unit, &payload));
                let own = if begins_unit { header.len() } else { 0 };
                let skipped = if number == 0 { skipped.min(bytes - 1) } else { own };
                if number == 0 {
                    begin = PACKET_BYTES - bytes + skipped;
                }
                let cut = if number == last { cut.min(bytes - skipped - 1) } else { 0 };
                expected.extend_from_slice(&payload[skipped..bytes - cut]);
                end = file.len() - cut;
                file.extend(vec![0xEE; between]);
                for _ in 0..others {
                    file.extend(packet(101, true, &[7; 100]));
                    file.extend(vec![0xEE; between]);
                }
            }
            let stride = PACKET_BYTES + between;
            let packing = Packing::Packets { pid: 100, stride: stride as u8, first: (stride - begin) as u8 };
            let sample = &mut file[begin..end];
            let count = packing.unpack(sample);
            prop_assert_eq!(&sample[..count], expected);
        }

        #[test]
        fn no_bytes_make_it_panic(
            mut bytes in prop::collection::vec(prop_oneof![Just(0x47u8), Just(0u8), any::<u8>()], 0..800),
            pid in 0..0x2000u16,
            stride in any::<u8>(),
            first in any::<u8>(),
        ) {
            let length = bytes.len();
            let (packets, reversed) = (Packing::Packets { pid, stride, first }, Packing::Reversed { bytes: stride });
            prop_assert!(packets.unpack(&mut bytes) <= length);
            prop_assert!(reversed.unpack(&mut bytes) == length);
            let pages = Packing::Pages { serial: u32::from(pid), first: u32::from(first) };
            prop_assert!(pages.unpack(&mut bytes) <= length);
        }
    }
}
