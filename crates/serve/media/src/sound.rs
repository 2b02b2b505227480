//! What codecs of sound tell of themselves.

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::{Codec, OpusStreams, PcmValues};

use crate::media::Carriage;

/// Samples per second, by their index (ISO/IEC 14496-3, table 1.18).
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// How much a decoder has to be given before what it makes of sound is right, in nanoseconds: frames overlap, and what a frame of MP3
/// tells may begin several frames before. Opus wants 80 ms (RFC 7845, section 4.6).
pub(crate) fn roll_ns(codec: &Codec) -> i64 {
    match codec {
        Codec::Pcm { .. } | Codec::Klv | Codec::MpegTransport => 0,
        Codec::MpegAudio => 250_000_000,
        pictures if pictures.is_pictures() => 0,
        _ => 100_000_000,
    }
}

/// AAC by its AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1); `None` if it is none.
pub(crate) fn aac(config: Vec<u8>) -> Option<Codec> {
    let mut bits = Bits { bytes: &config, at: 0 };
    let object = bits.take(5)?;
    if object == 31 {
        bits.take(6)?;
    }
    let clock_rate = match bits.take(4)? {
        15 => bits.take(24)?,
        index => *RATES.get(index as usize)?,
    };
    let channels = match bits.take(4)? {
        7 => 8,
        0 if PLAIN_OBJECTS.contains(&object) => {
            bits.take(GENERAL_BITS)?;
            // It may follow elsewhere: two is what most have.
            bits.program().map_or(2, |program| program.channels)
        }
        0 => 2,
        channels => channels as u8,
    };
    (clock_rate > 0).then_some(Codec::Aac { config, clock_rate, channels })
}

/// Kinds of AAC whose configuration goes on right after the channels: main, LC, SSR, LTP (ISO/IEC 14496-3, table 1.17).
const PLAIN_OBJECTS: std::ops::RangeInclusive<u32> = 1..=4;

/// What comes between the channels and their list, where nothing is scaled (4.4.1).
const GENERAL_BITS: usize = 3;

/// Whether a configuration without a list of channels leaves it to frames to tell them, as that of ADTS does.
pub(crate) fn lacks_channels(config: &[u8]) -> bool {
    let &[first, second] = config else { return false };
    PLAIN_OBJECTS.contains(&u32::from(first >> 3)) && second & 0x78 == 0
}

/// AAC by such a configuration and its first frame, which begins with the list then; `None` if it does not.
pub(crate) fn aac_of_frame(config: &[u8], frame: &[u8]) -> Option<Codec> {
    const PROGRAM: u32 = 5;
    let mut bits = Bits { bytes: frame, at: 0 };
    if bits.take(3)? != PROGRAM {
        return None;
    }
    let begin = bits.at;
    let Program { end, .. } = bits.program()?;
    let mut config = config.to_vec();
    bits.at = begin;
    while bits.at < end {
        let count = (end - bits.at).min(8);
        config.push((bits.take(count)? << (8 - count)) as u8);
    }
    // A comment follows at a whole byte.
    let comment = frame.get(end.div_ceil(8)..)?;
    config.extend(comment.get(..1 + usize::from(*comment.first()?))?);
    aac(config)
}

/// AAC by what its container says of it: how it is coded (ISO/IEC 14496-3, table 1.17), samples per second, and channels.
pub(crate) fn aac_of(object: u8, rate: u32, channels: u8) -> Option<Codec> {
    let index = RATES.iter().position(|one| *one == rate)? as u16;
    // Eight channels are number 7, which has a subwoofer too.
    let channels = match channels {
        1..=6 => channels,
        8 => 7,
        _ => return None,
    };
    aac((u16::from(object) << 11 | index << 7 | u16::from(channels) << 3).to_be_bytes().to_vec())
}

/// Opus of one or two channels (RFC 7587, section 7), or of as many as `streams` have.
pub(crate) fn opus(channels: u8, streams: Option<OpusStreams>) -> Option<(Codec, Format)> {
    let codec = match (channels, streams) {
        (1 | 2, None) => Codec::Opus { channels },
        (_, streams) => Codec::MultiOpus(streams?),
    };
    Some((codec, Format::Opus))
}

/// How the channels lie in streams, by the header of a file of its own (RFC 7845, section 5.1); `None` for one or two channels.
pub(crate) fn opus_streams(header: &[u8]) -> Option<OpusStreams> {
    let table = header.strip_prefix(b"OpusHead")?;
    let (&channels, &family) = (table.get(1)?, table.get(10)?);
    let (&streams, &coupled) = (table.get(11)?, table.get(12)?);
    let mapping = table.get(13..13 + usize::from(channels))?.to_vec();
    (family != 0 && channels > 0).then_some(OpusStreams { streams, coupled, mapping })
}

/// Sound without compression of so many bits a value; whether its lowest byte comes first.
pub(crate) fn pcm(bits: u64, clock_rate: u32, channels: u8, is_reversed: bool) -> Option<Plain> {
    let values = match bits {
        16 => PcmValues::L16,
        24 => PcmValues::L24,
        _ => return None,
    };
    plain(values, clock_rate, channels, is_reversed)
}

/// G.711 in either law.
pub(crate) fn g711(is_a_law: bool, clock_rate: u32, channels: u8) -> Option<Plain> {
    plain(if is_a_law { PcmValues::ALaw } else { PcmValues::MuLaw }, clock_rate, channels, false)
}

/// How sound without compression is described, how it is sent, and how it lies in its file.
pub(crate) type Plain = (Codec, Format, Carriage);

fn plain(values: PcmValues, clock_rate: u32, channels: u8, is_reversed: bool) -> Option<Plain> {
    let frame_bytes = values.bytes().checked_mul(channels).filter(|bytes| *bytes > 0)?;
    let carriage = if is_reversed { Carriage::Reversed { bytes: values.bytes() } } else { Carriage::Whole };
    let codec = Codec::Pcm { values, clock_rate, channels };
    (clock_rate > 0).then_some((codec, Format::Pcm { frame_bytes }, carriage))
}

/// A list of channels (ISO/IEC 14496-3, 4.4.1.1), up to its comment.
struct Program {
    channels: u8,
    /// The bit after it.
    end: usize,
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn program(&mut self) -> Option<Program> {
        // Its number, the kind of AAC, and samples per second.
        self.take(4 + 2 + 4)?;
        let elements = self.take(4)? + self.take(4)? + self.take(4)?;
        let (low, data, coupled) = (self.take(2)?, self.take(3)?, self.take(4)?);
        for mixdown_bits in [4, 4, 3] {
            if self.take(1)? == 1 {
                self.take(mixdown_bits)?;
            }
        }
        let mut channels = low;
        for _ in 0..elements {
            channels += 1 + self.take(1)?;
            self.take(4)?;
        }
        self.at += (4 * (low + data) + 5 * coupled) as usize;
        let is_whole = self.at <= 8 * self.bytes.len();
        is_whole.then_some(Program { channels: u8::try_from(channels).ok()?, end: self.at })
    }

    fn take(&mut self, count: usize) -> Option<u32> {
        let bits = (self.at..self.at + count).try_fold(0, |value, at| {
            let byte = self.bytes.get(at / 8)?;
            Some(value << 1 | u32::from(byte >> (7 - at % 8) & 1))
        });
        self.at += count;
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_tell_rate_and_channels() {
        let told = |config: &[u8]| match aac(config.to_vec()) {
            Some(Codec::Aac { clock_rate, channels, .. }) => Some((clock_rate, channels)),
            _ => None,
        };
        assert_eq!(told(&[0x12, 0x10]), Some((44_100, 2)));
        assert_eq!(told(&[0x11, 0x88]), Some((48_000, 1)));
        // An explicit rate of 48000, and seven-plus-one channels.
        assert_eq!(told(&[0x17, 0x80, 0x5D, 0xC0, 0x38]), Some((48_000, 8)));
        assert_eq!(told(&[0x16, 0x90]), None);
        assert_eq!(told(&[0x12]), None);
        assert_eq!(aac_of(2, 44_100, 2), aac(vec![0x12, 0x10]));
        assert_eq!((aac_of(2, 44_000, 2), aac_of(2, 44_100, 7)), (None, None));
    }
}
