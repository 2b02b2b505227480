//! MPEG audio of layers I to III, MP3 among them: frames, each with its header (ISO/IEC 11172-3, 2.4; 13818-3).
//!
//! ```text
//!   11 bits    2       2       1        4      2       1    1     2      2    1   1   2
//!   +------+---------+-------+-------+------+------+-----+---+------+------+---+---+---+
//!   | 7FF  | version | layer | not   | bit  | sam- | pad |   | mode |      |   |   |   |
//!   |      |         |       | prot. | rate | ples |     |   |      |      |   |   |   |
//!   +------+---------+-------+-------+------+------+-----+---+------+------+---+---+---+
//! ```

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

use crate::error::{Error, Result};
use crate::index::{Builder, Entry, SAMPLES_MAX};
use crate::kind;
use crate::media::{Found, Track};
use crate::source::Source;
use crate::tags;
use crate::time::TimeBase;

pub(crate) const HEADER_BYTES: usize = 4;
/// The longest frame, of layer II at 384 kbit/s and 32 kHz.
const FRAME_BYTES_MAX: u64 = 1729;

/// kbit/s by the field, for layers I, II and III of MPEG-1, then for layer I and both others of MPEG-2.
const BIT_RATES: [[u16; 15]; 5] = [
    [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
const RATES: [u32; 3] = [44_100, 48_000, 32_000];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    layer: u8,
    pub rate: u32,
    /// How many samples of sound a frame has.
    pub samples: u32,
    pub bytes: u32,
    /// Where the first granule's data begins, which is where encoders put what they say of all frames.
    side_bytes: u32,
}

impl Header {
    pub fn parse([first, second, third, fourth]: [u8; HEADER_BYTES]) -> Option<Self> {
        let (version, layer) = (second >> 3 & 3, 4 - (second >> 1 & 3));
        let (bit_rate, rate, padding) = (third >> 4, third >> 2 & 3, third >> 1 & 1);
        let is_one = first == 0xFF && second >= 0xE0 && version != 1 && layer < 4 && rate < 3;
        if !is_one || matches!(bit_rate, 0 | 15) {
            return None;
        }
        let is_first_version = version == 3;
        let rates = match (is_first_version, layer) {
            (true, layer) => &BIT_RATES[usize::from(layer) - 1],
            (false, 1) => &BIT_RATES[3],
            (false, _) => &BIT_RATES[4],
        };
        // Version 2 halves the rates, 2.5 halves them again.
        let rate = RATES[usize::from(rate)] >> [2, 0, 1, 0][usize::from(version)];
        let samples = match (layer, is_first_version) {
            (1, _) => 384,
            (3, false) => 576,
            _ => 1152,
        };
        let slot_bytes = if layer == 1 { 4 } else { 1 };
        let slots = samples / 8 / slot_bytes * u32::from(rates[usize::from(bit_rate)]) * 1000 / rate;
        let is_mono = fourth >> 6 == 3;
        let side_bytes = match (is_first_version, is_mono) {
            (true, false) => 32,
            (true, true) | (false, false) => 17,
            (false, true) => 9,
        };
        let bytes = (slots + u32::from(padding)) * slot_bytes;
        Some(Self { layer, rate, samples, bytes, side_bytes })
    }

    fn read(source: &mut Source, at: u64) -> Result<Option<Self>> {
        Ok(source.array(at)?.and_then(Self::parse))
    }

    fn is_like(&self, other: &Self) -> bool {
        self.layer == other.layer && self.rate == other.rate
    }
}

/// Where the first frame begins, if frames follow each other from `from` on.
pub(crate) fn first_frame(source: &mut Source, from: u64) -> Result<Option<u64>> {
    kind::first_frame(source, from, FRAME_BYTES_MAX, |source, at, before: Option<Header>| {
        let header = Header::read(source, at)?;
        let like = header.filter(|header| before.is_none_or(|before| before.is_like(header)));
        Ok(like.map(|header| (header, at + u64::from(header.bytes))))
    })
}

pub(crate) fn read(source: &mut Source, from: u64) -> Result<Found> {
    let truncated = Error::Truncated { bytes: source.bytes(), missing: "the first frame" };
    let Some(first) = Header::read(source, from)? else { return Err(truncated) };
    let time_base = TimeBase::per_second(first.rate).ok_or(Error::Damaged("its time does not pass"))?;
    let (mut builder, mut samples_left) = (Builder::default(), SAMPLES_MAX);
    let (mut at, mut time, mut garbage) = (from, 0, 0);
    if says_of_all(source, from, &first)? {
        at += u64::from(first.bytes);
    }
    while at + HEADER_BYTES as u64 <= source.bytes() {
        let Some(header) = Header::read(source, at)?.filter(|header| header.is_like(&first)) else {
            let end_of_frame = |source: &mut Source, at| {
                let header = Header::read(source, at)?.filter(|header| header.is_like(&first));
                Ok(header.map(|header| at + u64::from(header.bytes)))
            };
            let Some(next) = tags::next_frame(source, at, &mut garbage, end_of_frame)? else { break };
            at = next;
            continue;
        };
        let end = at + u64::from(header.bytes);
        if end > source.bytes() {
            break;
        }
        let entry = Entry { at, bytes: header.bytes, decode: time, presentation: time, is_sync: true };
        builder.push(entry, &mut samples_left)?;
        time += i64::from(header.samples);
        at = end;
    }
    let index = builder.finish(Some(first.samples.into())).ok_or(truncated)?;
    let track = Track::new(Codec::MpegAudio, Format::MpegAudio, None, time_base, index);
    Ok(Found { tracks: vec![track], ..Found::default() })
}

/// Whether the first frame is silence that says how many follow (Xing, Info, VBRI).
fn says_of_all(source: &mut Source, at: u64, header: &Header) -> Result<bool> {
    let mut is_at = |offset: u64, names: &[&[u8; 4]]| -> Result<bool> {
        let found = source.array::<4>(at + HEADER_BYTES as u64 + offset)?;
        Ok(found.is_some_and(|found| names.iter().any(|name| **name == found)))
    };
    Ok(is_at(header.side_bytes.into(), &[b"Xing", b"Info"])? || is_at(32, &[b"VBRI"])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_lengths() {
        let told = |bytes| {
            Header::parse(bytes).map(|header| (header.layer, header.rate, header.samples, header.bytes))
        };
        // 128 kbit/s of MPEG-1, layer III, without and with padding; layer II; layer I; then MPEG-2 and 2.5.
        assert_eq!(told([0xFF, 0xFB, 0x90, 0x00]), Some((3, 44_100, 1152, 417)));
        assert_eq!(told([0xFF, 0xFB, 0x92, 0x00]), Some((3, 44_100, 1152, 418)));
        assert_eq!(told([0xFF, 0xFD, 0x84, 0x00]), Some((2, 48_000, 1152, 384)));
        assert_eq!(told([0xFF, 0xFF, 0x42, 0x00]), Some((1, 44_100, 384, 140)));
        assert_eq!(told([0xFF, 0xF3, 0x80, 0x00]), Some((3, 22_050, 576, 208)));
        assert_eq!(told([0xFF, 0xE3, 0x80, 0x00]), Some((3, 11_025, 576, 417)));
        // No frame: free bit rate, a bad one, a reserved version, a reserved layer.
        for bytes in [[0xFF, 0xFB, 0, 0], [0xFF, 0xFB, 0xF0, 0], [0xFF, 0xEB, 0x90, 0], [0xFF, 0xF9, 0x90, 0]]
        {
            assert_eq!(told(bytes), None);
        }
    }
}
