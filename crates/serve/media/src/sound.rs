//! What codecs of sound tell of themselves.

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

/// Samples per second, by their index (ISO/IEC 14496-3, table 1.18).
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// AAC by its AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1); `None` if it is none.
pub(crate) fn aac(config: Vec<u8>) -> Option<Codec> {
    let mut bits = Bits { bytes: &config, at: 0 };
    if bits.take(5)? == 31 {
        bits.take(6)?;
    }
    let clock_rate = match bits.take(4)? {
        15 => bits.take(24)?,
        index => *RATES.get(index as usize)?,
    };
    let channels = match bits.take(4)? {
        7 => 8,
        // 0 is for a configuration that follows elsewhere: two is what most have.
        0 => 2,
        channels => channels as u8,
    };
    (clock_rate > 0).then_some(Codec::Aac { config, clock_rate, channels })
}

/// Opus of one or two channels, which is all that RTP has room for (RFC 7587, section 7).
pub(crate) fn opus(channels: u8) -> Option<(Codec, Format)> {
    matches!(channels, 1 | 2).then_some((Codec::Opus { channels }, Format::Opus))
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
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
    }
}
