//! Opus in transport streams (OpusTS, of Xiph and Open Broadcast Systems): a control header before each packet.
//!
//! ```text
//!   11 bits  1       1     1      3   8 bits each         16, if     16, if   8 and as many bytes, if
//!   +------+-------+-----+------+---+-----+-----+------+-----------+--------+------------------------+--------
//!   | 3FF  | start | end | more | 0 | 255 | 255 | rest | start     | end    | length of more, more   | packet
//!   |      | trim  | trim|      |   | length of packet | trim      | trim   |                        |
//!   +------+-------+-----+------+---+-----+-----+------+-----------+--------+------------------------+--------
//! ```

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::{Codec, OpusStreams};

use crate::ogg::opus_ticks;
use crate::sound;

/// Samples per second, in which packets tell how long they last.
pub(super) const RATE: u32 = 48_000;

/// Of a length; a packet of 120 ms in each of eight channels has less.
const LENGTH_BYTES_MAX: usize = 8;

/// What a control header says, with the two bytes after it that tell how long the packet lasts.
pub(super) struct Header {
    /// How long it is.
    pub skipped: usize,
    /// With the packet.
    pub bytes: usize,
    pub samples: u32,
}

/// The flags, and how long the packet and its header are.
struct Lengths {
    header: usize,
    packet: usize,
}

impl Lengths {
    /// `None` if more bytes are needed.
    fn of(begin: &[u8]) -> Option<Self> {
        let &[_, flags, ref rest @ ..] = begin else { return None };
        let full = rest.iter().take(LENGTH_BYTES_MAX).take_while(|byte| **byte == 0xFF).count();
        let packet = 255 * full + usize::from(*rest.get(full)?);
        let trims = usize::from(flags >> 4 & 1) + usize::from(flags >> 3 & 1);
        let mut header = 3 + full + 2 * trims;
        if flags & 4 != 0 {
            header += 1 + usize::from(*begin.get(header)?);
        }
        Some(Self { header, packet })
    }
}

/// How many bytes a header has that begins so, with those of the packet that are looked at; one more than there are, if that is
/// not told yet.
pub(super) fn header_bytes(begin: &[u8]) -> usize {
    Lengths::of(begin).map_or(begin.len() + 1, |Lengths { header, packet }| header + packet.min(2))
}

impl Header {
    /// `None` if bytes do not begin with one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let is_header = bytes.first() == Some(&0x7F) && bytes.get(1)? & 0xE0 == 0xE0;
        let Lengths { header, packet } = Lengths::of(bytes).filter(|_| is_header)?;
        let samples = u32::try_from(opus_ticks(bytes.get(header..)?)).ok()?;
        (samples > 0).then_some(Self { skipped: header, bytes: header + packet, samples })
    }
}

/// How so many channels lie in streams (RFC 7845, section 5.1.1.2, the order of Vorbis).
pub(super) fn codec(channels: u8) -> Option<(Codec, Format)> {
    let (coupled, mapping): (u8, &[u8]) = match channels {
        1 | 2 => return sound::opus(channels, None),
        3 => (1, &[0, 2, 1]),
        4 => (2, &[0, 1, 2, 3]),
        5 => (2, &[0, 4, 1, 2, 3]),
        6 => (2, &[0, 4, 1, 2, 3, 5]),
        7 => (3, &[0, 4, 1, 2, 3, 5, 6]),
        8 => (3, &[0, 6, 1, 2, 3, 4, 5, 7]),
        _ => return None,
    };
    let streams = OpusStreams { streams: channels - coupled, coupled, mapping: mapping.to_vec() };
    sound::opus(channels, Some(streams))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_tells_how_long_its_packet_is_and_lasts() {
        let told = |header: &[u8]| {
            // Two frames of 20 ms.
            let bytes = [header, &[0xFD, 0]].concat();
            assert_eq!(header_bytes(&bytes), bytes.len());
            assert!((0..header.len()).all(|end| header_bytes(&bytes[..end]) > end));
            Header::parse(&bytes).map(|one| (one.skipped, one.bytes - one.skipped, one.samples))
        };
        assert_eq!(told(&[0x7F, 0xE0, 10]), Some((3, 10, 1920)));
        assert_eq!(told(&[0x7F, 0xE0, 255, 255, 0]), Some((5, 510, 1920)));
        assert_eq!(told(&[0x7F, 0xFC, 255, 3, 0, 1, 0, 2, 2, 9, 9]), Some((11, 258, 1920)));
        assert_eq!(told(&[0x7E, 0xE0, 10]), None);
        // One byte of silence.
        let short = Header::parse(&[0x7F, 0xE0, 1, 0xFC]).map(|one| (one.skipped, one.bytes, one.samples));
        assert_eq!((short, header_bytes(&[0x7F, 0xE0, 1])), (Some((3, 4, 960)), 4));
    }
}
