//! Frames of AC-3 and E-AC-3 (ETSI TS 102 366, 4.3 and E.1.2).
//!
//! ```text
//!           16 bits    16     2      6      5      3      3
//!   AC-3   +-------+------+------+------+------+------+------+---------------+----------+
//!          | 0B77  | CRC  | rate | size |  id  | mode | chan-| mixing levels | low      |
//!          |       |      |      |      |      |      | nels | of some       | frequency|
//!          +-------+------+------+------+------+------+------+---------------+----------+
//!           16 bits    2      3       11     2       2       3      1       5
//!   E-AC-3 +-------+------+--------+------+------+--------+------+-------+------+
//!          | 0B77  | type | number | size | rate | blocks | chan-| low   |  id  |
//!          |       |      |        |      |      |        | nels | freq. |      |
//!          +-------+------+--------+------+------+--------+------+-------+------+
//! ```

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

pub(crate) const HEADER_BYTES: usize = 8;

const RATES: [u32; 3] = [48_000, 44_100, 32_000];
/// kbit/s by the upper five bits of the size.
const BIT_RATES: [usize; 19] =
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
/// Without low frequencies, by the mode.
const CHANNELS: [u8; 8] = [2, 1, 2, 3, 3, 4, 4, 5];
/// Samples of a block, and blocks of a frame by their code.
const BLOCK_SAMPLES: u32 = 256;
const BLOCKS: [u32; 4] = [1, 2, 3, 6];

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub is_enhanced: bool,
    pub rate: u32,
    pub channels: u8,
    pub bytes: usize,
    /// How long it lasts; 0 for more channels of the frame before it.
    pub samples: u32,
}

impl Header {
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let [0x0B, 0x77, rest @ ..] = bytes else { return None };
        // The identification stands in the same place of either.
        match rest[3] >> 3 {
            0..=10 => Self::plain(rest),
            11..=16 => Self::enhanced(rest),
            _ => None,
        }
    }

    fn plain([_, _, size, id, mode, more]: [u8; 6]) -> Option<Self> {
        let (rate, code) = (usize::from(size >> 6), usize::from(size & 0x3F));
        let kilobits = *BIT_RATES.get(code >> 1)?;
        let words = match rate {
            0 => 2 * kilobits,
            1 => kilobits * 320 / 147 + (code & 1),
            _ => 3 * kilobits,
        };
        let channels = mode >> 5;
        let has_centre = channels & 1 != 0 && channels != 1;
        let levels = [has_centre, channels & 4 != 0, channels == 2];
        let skipped = 3 + 2 * levels.iter().filter(|has_level| **has_level).count();
        let has_low = u16::from_be_bytes([mode, more]) << skipped & 0x8000 != 0;
        // Later versions halve the rate.
        let halved = u32::from((id >> 3).saturating_sub(8));
        Some(Self {
            is_enhanced: false,
            rate: *RATES.get(rate)? >> halved,
            channels: CHANNELS[usize::from(channels)] + u8::from(has_low),
            bytes: 2 * words,
            samples: 6 * BLOCK_SAMPLES,
        })
    }

    fn enhanced([first, second, mode, ..]: [u8; 6]) -> Option<Self> {
        const IS_DEPENDENT: u8 = 1;
        let words = usize::from(u16::from_be_bytes([first & 7, second])) + 1;
        let (rate, blocks) = (usize::from(mode >> 6), usize::from(mode >> 4 & 3));
        // Where the rate is 3, the blocks are its half, and there are six of them.
        let (rate, blocks) = match RATES.get(rate) {
            Some(rate) => (*rate, BLOCKS[blocks]),
            None => (*RATES.get(blocks)? / 2, 6),
        };
        let samples = if first >> 6 == IS_DEPENDENT { 0 } else { blocks * BLOCK_SAMPLES };
        let channels = CHANNELS[usize::from(mode >> 1 & 7)] + (mode & 1);
        Some(Self { is_enhanced: true, rate, channels, bytes: 2 * words, samples })
    }

    pub fn codec(&self) -> (Codec, Format) {
        codec(self.is_enhanced, self.rate, self.channels)
    }
}

/// A stream of this rate.
pub(crate) fn codec(is_enhanced: bool, clock_rate: u32, channels: u8) -> (Codec, Format) {
    if is_enhanced {
        (Codec::Eac3 { clock_rate, channels }, Format::Eac3)
    } else {
        (Codec::Ac3 { clock_rate, channels }, Format::Ac3)
    }
}

/// By the code of a rate, and by mode and low frequencies, as MP4 has them.
pub(crate) fn coded(is_enhanced: bool, rate: u8, mode: u8, has_low: bool) -> Option<(Codec, Format)> {
    let (rate, channels) = (*RATES.get(usize::from(rate))?, *CHANNELS.get(usize::from(mode))?);
    Some(codec(is_enhanced, rate, channels + u8::from(has_low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_rate_channels_and_length() {
        let told = |bytes: [u8; HEADER_BYTES]| {
            Header::parse(bytes).map(|one| (one.is_enhanced, one.rate, one.channels, one.bytes, one.samples))
        };
        // 48 kHz, 384 kbit/s, three front and two back, low frequencies.
        assert_eq!(told([0x0B, 0x77, 0, 0, 0x1C, 0x40, 0xE1, 0x00]), Some((false, 48_000, 6, 1536, 1536)));
        // 44.1 kHz, 192 kbit/s, odd; two channels.
        assert_eq!(told([0x0B, 0x77, 0, 0, 0x55, 0x40, 0x40, 0x00]), Some((false, 44_100, 2, 836, 1536)));
        // 48 kHz, six blocks, two channels, 768 bytes; one that belongs to another.
        assert_eq!(told([0x0B, 0x77, 0x01, 0x7F, 0x34, 0x80, 0, 0]), Some((true, 48_000, 2, 768, 1536)));
        assert_eq!(told([0x0B, 0x77, 0x41, 0x7F, 0x34, 0x80, 0, 0]), Some((true, 48_000, 2, 768, 0)));
        assert_eq!(told([0x0B, 0x77, 0, 0, 0xC0, 0x40, 0, 0]), None);
        assert_eq!(told([0x0B, 0x77, 0, 0, 0x3F, 0x40, 0, 0]), None);
        assert_eq!(told([0x0B, 0x77, 0, 0, 0, 0xF8, 0, 0]), None);
        assert_eq!(told([0x0B, 0x78, 0, 0, 0x1C, 0x40, 0xE1, 0]), None);
    }
}
