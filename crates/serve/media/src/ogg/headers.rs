//! The first packets of a stream: what it is, and how long its packets last.

use std::ops::Range;

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

use crate::error::Result;
use crate::packing::Packing;
use crate::source::Source;
use crate::{sound, vorbis};

/// Of all headers of a stream. Those of Vorbis have a few kilobytes, and what comments have beside that.
const BYTES_MAX: u64 = 1 << 20;

/// What other streams begin with, and what they are called.
const OTHERS: [(&[u8], &str); 5] = [
    (b"\x80theora", "Theora"),
    (b"Speex   ", "Speex"),
    (b"\x7FFLAC", "FLAC"),
    (b"BBCD", "Dirac"),
    (b"OVP80", "VP8"),
];

/// The headers that have come.
#[derive(Default)]
pub(super) struct Headers {
    packets: Vec<Vec<u8>>,
}

/// What all headers together tell.
pub(super) enum Taken {
    Served(Served, Lasting),
    Other(String),
}

/// A stream that can be served.
pub(super) struct Served {
    pub codec: Codec,
    pub format: Format,
    /// Ticks per second.
    pub rate: u32,
    /// What a decoder knows of the stream that goes on with another one of the same.
    pub key: Vec<u8>,
    /// What it is called.
    pub name: String,
}

impl Headers {
    /// The next packet; returns what all tell, once they have come.
    pub fn take(&mut self, source: &mut Source, packing: Packing, at: Range<u64>) -> Result<Option<Taken>> {
        let bytes = at.end - at.start;
        let is_opus = self.packets.first().is_some_and(|first| first.starts_with(b"OpusHead"));
        if is_opus {
            // Comments, which may be large.
            return Ok(Some(self.opus().unwrap_or_else(|| unreadable("Opus"))));
        }
        let all = self.packets.iter().map(|packet| packet.len() as u64).sum::<u64>();
        if all + bytes > BYTES_MAX {
            return Ok(Some(Taken::Other("a stream with headers of more than a megabyte".to_owned())));
        }
        let mut packet = source.copy(at.start, bytes, "a header")?;
        let bytes = packing.unpack(&mut packet);
        packet.truncate(bytes);
        self.packets.push(packet);
        let first = self.packets[0].as_slice();
        if first.starts_with(b"OpusHead") {
            return Ok(None);
        }
        if first.starts_with(b"\x01vorbis") {
            let [identification, _, set_up] = self.packets.as_slice() else { return Ok(None) };
            let lasting = VorbisLasting::read(identification, set_up);
            let taken = lasting.and_then(|lasting| self.vorbis(lasting));
            return Ok(Some(taken.unwrap_or_else(|| unreadable("Vorbis"))));
        }
        let name = OTHERS.iter().find(|(begin, _)| first.starts_with(begin)).map(|(_, name)| *name);
        let name = name.unwrap_or("a stream of another kind");
        Ok(Some(Taken::Other(format!("{name}, which is no codec that can be served in Ogg"))))
    }

    fn opus(&self) -> Option<Taken> {
        let head = self.packets.first()?;
        let (channels, lead_in) = (*head.get(9)?, u16::from_le_bytes([*head.get(10)?, *head.get(11)?]));
        let (codec, format) = sound::opus(channels, sound::opus_streams(head))?;
        // Channels, and how they are mapped to streams (RFC 7845, section 5.1).
        let key = [&[channels], head.get(18..)?].concat();
        let name = format!("Opus of {channels} channels");
        let served = Served { codec, format, rate: 48_000, key, name };
        Some(Taken::Served(served, Lasting::Opus { lead_in: lead_in.into() }))
    }

    fn vorbis(&self, lasting: VorbisLasting) -> Option<Taken> {
        let mut laced = vec![2];
        for packet in self.packets.get(..2)? {
            laced.extend(std::iter::repeat_n(255, packet.len() / 255));
            laced.push((packet.len() % 255) as u8);
        }
        laced.extend(self.packets.concat());
        let (codec, format) = vorbis::codec(&laced)?;
        let rate = codec.clock_rate();
        let [identification, _, set_up] = self.packets.as_slice() else { return None };
        // Version, channels, rate, and the lengths of windows; rates in bits are only told (Vorbis I, section 4.2.2).
        let key = [identification.get(7..16)?, identification.get(28..)?, set_up].concat();
        let name = format!("Vorbis of {} channels at {rate} Hz", identification[11]);
        Some(Taken::Served(Served { codec, format, rate, key, name }, Lasting::Vorbis(lasting)))
    }
}

fn unreadable(name: &str) -> Taken {
    Taken::Other(format!("{name} whose headers cannot be read"))
}

/// How long packets last.
pub(super) enum Lasting {
    Opus {
        /// How much of the beginning is there to be decoded only, in ticks.
        lead_in: i64,
    },
    Vorbis(VorbisLasting),
}

impl Lasting {
    /// By the first bytes of the next packet.
    pub fn of(&mut self, begin: &[u8]) -> i64 {
        match self {
            Self::Opus { .. } => opus_ticks(begin),
            Self::Vorbis(lasting) => lasting.of(begin),
        }
    }

    /// When a stream begins whose first packet lasts for so long.
    pub fn beginning(&self, first: i64) -> i64 {
        match self {
            Self::Opus { .. } => 0,
            Self::Vorbis(_) => -first,
        }
    }

    /// How long after the first packet, which lasts for so long, something is heard.
    pub fn lead_in(&self, first: i64) -> i64 {
        match self {
            Self::Opus { lead_in } => *lead_in,
            Self::Vorbis(_) => first,
        }
    }
}

/// RFC 6716, section 3.1: the frames of a packet, at 48 kHz.
pub(crate) fn opus_ticks(begin: &[u8]) -> i64 {
    let &[first, ref rest @ ..] = begin else { return 0 };
    let frame = match first >> 3 {
        mode @ 0..12 => [480, 960, 1920, 2880][usize::from(mode & 3)],
        mode @ 12..16 => [480, 960][usize::from(mode & 1)],
        mode => [120, 240, 480, 960][usize::from(mode & 3)],
    };
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => i64::from(rest.first().map_or(1, |second| second & 0x3F)),
    };
    frame * frames
}

/// Vorbis I, sections 4.2.4 and 4.3: which of two lengths the window of a mode has, and the lengths.
pub(super) struct VorbisLasting {
    window: [i64; 2],
    /// For each mode, whether its window is the long one.
    modes: Vec<bool>,
    /// The window of the packet before.
    before: Option<i64>,
}

impl VorbisLasting {
    fn read(identification: &[u8], set_up: &[u8]) -> Option<Self> {
        let sizes = *identification.get(28)?;
        let window = [1 << (sizes & 0xF), 1 << (sizes >> 4)];
        Some(Self { window, modes: modes(set_up)?, before: None })
    }

    /// Packets overlap with the one before. The first one gives no sound, and so lasts before the beginning.
    fn of(&mut self, begin: &[u8]) -> i64 {
        let Some(&first) = begin.first().filter(|first| **first & 1 == 0) else { return 0 };
        let bits = usize::BITS - (self.modes.len() - 1).leading_zeros();
        let mode = usize::from(first >> 1) & ((1 << bits) - 1);
        let window = self.window[usize::from(self.modes.get(mode).copied().unwrap_or_default())];
        (self.before.replace(window).unwrap_or(window) + window) / 4
    }
}

/// The modes are the last in the set-up. What comes before them can only be passed by reading all of it, so they are read from
/// the end: a bit for the end, then modes of 41 bits as long as they can be some, and before these how many there are.
fn modes(set_up: &[u8]) -> Option<Vec<bool>> {
    const MODE_BITS: usize = 41;
    const MODES_MAX: usize = 64;
    let bit = |at: usize| set_up.get(at / 8).map(|byte| usize::from(byte >> (at % 8) & 1));
    let number =
        |at: usize, bits: usize| (0..bits).try_fold(0, |sum, place| Some(sum | bit(at + place)? << place));
    let mut end = set_up.len() * 8;
    // Bits after the one for the end are 0.
    while bit(end.checked_sub(1)?)? == 0 {
        end -= 1;
    }
    let end = end - 1;
    let mut found = None;
    for count in 1..=MODES_MAX {
        let Some(at) = end.checked_sub(count * MODE_BITS) else { break };
        // Window and transform are of type 0; a mapping is one of 64.
        if number(at + 1, 32)? != 0 || number(at + 33, 8)? >= MODES_MAX {
            break;
        }
        if at.checked_sub(6).and_then(|at| number(at, 6)) == Some(count - 1) {
            let long = (0..count).map(|mode| Some(bit(at + mode * MODE_BITS)? == 1));
            found = long.collect::<Option<Vec<bool>>>();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_opus_last_as_long_as_their_frames() {
        // 20 ms of SILK, two of 20 ms of CELT, three of 60 ms, and 48 of 2.5 ms.
        for (begin, ticks) in [
            (&[0x08][..], 960),
            (&[0xF9], 1920),
            (&[0x1B, 3], 8640),
            (&[0x83, 48], 5760),
            (&[0x03], 480),
            (&[], 0),
        ] {
            assert_eq!(opus_ticks(begin), ticks, "{begin:x?}");
        }
    }

    #[test]
    fn modes_are_found_from_the_end() {
        // Any bits, two modes (short, long), the bit for the end, and bits to fill the byte.
        let mut bits = vec![1, 0, 1, 1, 0, 1, 1, 0, 0, 1];
        bits.extend([1, 0, 0, 0, 0, 0]);
        for is_long in [0, 1] {
            bits.extend([vec![is_long], vec![0; 32], vec![is_long, 0, 0, 0, 0, 0, 0, 0]].concat());
        }
        bits.push(1);
        let bytes: Vec<u8> =
            bits.chunks(8).map(|eight| eight.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect();
        assert_eq!(modes(&bytes), Some(vec![false, true]));
        for nonsense in [&[][..], &[0; 40], &[0xFF; 40], &[1]] {
            assert_eq!(modes(nonsense), None, "{nonsense:?}");
        }
        let mut lasting = VorbisLasting { window: [256, 2048], modes: vec![false, true], before: None };
        let steps = [&[0][..], &[0], &[2], &[2], &[0], &[1], &[]].map(|begin| lasting.of(begin));
        assert_eq!(steps, [128, 128, 576, 1024, 576, 0, 0]);
    }
}
