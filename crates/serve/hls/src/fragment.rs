//! A filled buffer as a fragment of MP4 (ISO/IEC 14496-12, 8.8): what describes its samples, and where in the buffer they lie.
//!
//! ```text
//!   own bytes   | moof: times and sizes | mdat header | length |       | length |
//!   buffer                                            | NAL unit |     | NAL unit |   or whole samples
//! ```

use std::ops::Range;

use forebay_rtsp::packetise::{Format, Framing};
use forebay_streaming::buffer::{Held, Part};
use memchr::memmem;
use mp4_atom::{Encode, Mfhd, Moof, Tfdt, Tfhd, Traf, Trun, TrunEntry, TrunSamples};

use crate::film::Film;

/// Flags of samples (8.8.3.1): decoding can begin here, or not.
const SYNC: u32 = 0x0200_0000;
const NO_SYNC: u32 = 0x0101_0000;
/// How long a sample lasts if no other one follows it, in parts of a second.
const LAST_PARTS: u32 = 30;
const MDAT_HEADER_BYTES: usize = 8;
const START_CODE: &[u8] = &[0, 0, 1];

/// What is sent of one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Bytes that are not in the buffer.
    pub own: Vec<u8>,
    /// What is sent, in this order.
    pub pieces: Vec<Piece>,
    /// How long all of it is.
    pub bytes: usize,
}

/// What is sent next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Some of the fragment's own bytes.
    Own(Range<usize>),
    /// Some bytes of a part of the buffer.
    Part(usize, Range<usize>),
}

/// Nanoseconds on a clock, rounded to the nearest.
pub(crate) fn on_clock(ns: i64, rate: u32) -> i64 {
    const SECOND_NS: i128 = 1_000_000_000;
    let ticks = (i128::from(ns) * i128::from(rate) + SECOND_NS / 2).div_euclid(SECOND_NS);
    ticks.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The pieces of a fragment, and how many bytes they have.
#[derive(Default)]
struct Pieces {
    own: Vec<u8>,
    all: Vec<Piece>,
    bytes: usize,
}

impl Pieces {
    fn push_own(&mut self, bytes: &[u8]) {
        let at = self.own.len()..self.own.len() + bytes.len();
        self.own.extend_from_slice(bytes);
        self.bytes += bytes.len();
        match self.all.last_mut() {
            Some(Piece::Own(last)) if last.end == at.start => last.end = at.end,
            _ => self.all.push(Piece::Own(at)),
        }
    }

    fn push_part(&mut self, part: usize, at: Range<usize>) {
        self.bytes += at.len();
        match self.all.last_mut() {
            Some(Piece::Part(last_part, last)) if *last_part == part && last.end == at.start => {
                last.end = at.end
            }
            _ => self.all.push(Piece::Part(part, at)),
        }
    }
}

impl Fragment {
    /// Leaves these bytes of it.
    pub fn cut(&mut self, bytes: Range<usize>) {
        let mut at = 0;
        for piece in &mut self.pieces {
            let (Piece::Own(own) | Piece::Part(_, own)) = piece;
            let within = |place: usize| own.start + place.saturating_sub(at).min(own.len());
            let left = within(bytes.start)..within(bytes.end);
            at += own.len();
            *own = left;
        }
        self.pieces.retain(|piece| {
            let (Piece::Own(own) | Piece::Part(_, own)) = piece;
            !own.is_empty()
        });
        self.bytes = bytes.len().min(at.saturating_sub(bytes.start));
    }
}

impl Film {
    /// What is sent of a buffer that has been filled with samples of these tracks. `next_ns` tells for each of them when the
    /// sample after the buffer is decoded. `None` without samples.
    pub fn fragment(
        &self,
        tracks: &[usize],
        sequence: u32,
        parts: &[Part],
        next_ns: &[Option<i64>],
    ) -> Option<Fragment> {
        let mut pieces = Pieces::default();
        let mut trafs = Vec::new();
        // Where in the data each track begins.
        let mut begins = Vec::new();
        for (sender, number) in tracks.iter().enumerate() {
            let samples: Vec<(usize, &Held)> = parts
                .iter()
                .enumerate()
                .flat_map(|(part, one)| one.samples().iter().map(move |held| (part, held)))
                .filter(|(_, held)| usize::from(held.sender) == sender)
                .collect();
            let Some((_, first)) = samples.first() else { continue };
            begins.push(pieces.bytes);
            let format = self.media_track(*number).format;
            let sizes: Vec<usize> = samples
                .iter()
                .map(|(part, held)| push_sample(&mut pieces, format, parts, *part, held))
                .collect();
            let clock_rate = self.media_track(*number).codec.clock_rate();
            let times = Times { film: self, clock_rate };
            let entries = times.entries(&samples, &sizes, next_ns.get(sender).copied().flatten());
            trafs.push(Traf {
                tfhd: Tfhd { track_id: sender as u32 + 1, default_base_is_moof: true, ..Tfhd::default() },
                tfdt: Some(Tfdt { base_media_decode_time: times.decode(first).max(0) as u64 }),
                trun: vec![Trun { data_offset: Some(0), samples: TrunSamples::Explicit(entries) }],
                ..Traf::default()
            });
        }
        if trafs.is_empty() {
            return None;
        }
        let mut moof = Moof { mfhd: Mfhd { sequence_number: sequence }, traf: trafs };
        let mut head = Vec::new();
        moof.encode(&mut head).ok()?;
        let data_at = head.len() + MDAT_HEADER_BYTES;
        for (traf, begin) in moof.traf.iter_mut().zip(begins) {
            traf.trun[0].data_offset = i32::try_from(data_at + begin).ok();
        }
        head.clear();
        moof.encode(&mut head).ok()?;
        head.extend(u32::try_from(pieces.bytes + MDAT_HEADER_BYTES).ok()?.to_be_bytes());
        head.extend(b"mdat");
        Some(Self::assembled(head, pieces))
    }

    fn assembled(head: Vec<u8>, pieces: Pieces) -> Fragment {
        let own_begins = head.len();
        let bytes = head.len() + pieces.bytes;
        let mut all = vec![Piece::Own(0..own_begins)];
        all.extend(pieces.all.into_iter().map(|piece| match piece {
            Piece::Own(at) => Piece::Own(at.start + own_begins..at.end + own_begins),
            other => other,
        }));
        let mut own = head;
        own.extend(pieces.own);
        Fragment { own, pieces: all, bytes }
    }
}

/// Times of samples on the clock of their track.
struct Times<'a> {
    film: &'a Film,
    clock_rate: u32,
}

impl Times<'_> {
    fn decode(&self, held: &Held) -> i64 {
        self.ticks(held.decode_ns)
    }

    fn ticks(&self, decode_ns: i64) -> i64 {
        on_clock(decode_ns.saturating_sub(self.later_ns()), self.clock_rate)
    }

    /// How much later than in the segments samples are decoded in the program.
    fn later_ns(&self) -> i64 {
        let start_ns = i64::try_from(self.film.playlist().start_ns()).unwrap_or(i64::MAX);
        start_ns.saturating_sub(i64::try_from(self.film.lead_ns).unwrap_or(i64::MAX))
    }

    /// What tells of each sample when it is decoded and seen, and how long it is.
    fn entries(&self, samples: &[(usize, &Held)], sizes: &[usize], next_ns: Option<i64>) -> Vec<TrunEntry> {
        let later_ticks = on_clock(self.later_ns(), self.clock_rate) as u32;
        let nexts = samples.iter().skip(1).map(|(_, held)| Some(held.decode_ns)).chain([next_ns]);
        let mut duration = self.clock_rate / LAST_PARTS;
        let entries = samples.iter().zip(sizes).zip(nexts).map(|(((_, held), size), next_ns)| {
            let decode = self.decode(held);
            let until_next = next_ns.map(|ns| self.ticks(ns).saturating_sub(decode));
            duration = until_next.and_then(|ticks| u32::try_from(ticks).ok()).unwrap_or(duration);
            // Both wrap around: what lies between them is small.
            let delay = held.ticks.wrapping_sub(later_ticks).wrapping_sub(decode as u32) as i32;
            TrunEntry {
                duration: Some(duration),
                size: Some(*size as u32),
                flags: Some(if held.is_sync { SYNC } else { NO_SYNC }),
                cts: Some(delay.into()),
            }
        });
        entries.collect()
    }
}

/// Adds a sample as MP4 has it, and returns how long it is then.
fn push_sample(pieces: &mut Pieces, format: Format, parts: &[Part], part: usize, held: &Held) -> usize {
    let before = pieces.bytes;
    match format {
        Format::H264(Framing::StartCodes) | Format::H265(Framing::StartCodes) => {
            for unit in units(parts[part].bytes(), held.at()) {
                pieces.push_own(&(unit.len() as u32).to_be_bytes());
                pieces.push_part(part, unit);
            }
        }
        _ => pieces.push_part(part, held.at()),
    }
    pieces.bytes - before
}

/// The NAL units of a sample that has start codes between them.
fn units(bytes: &[u8], at: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut starts: Vec<usize> = memmem::find_iter(&bytes[at.clone()], START_CODE)
        .map(|found| at.start + found + START_CODE.len())
        .collect();
    starts.push(at.end + START_CODE.len());
    let ends = |pair: &[usize]| {
        let (start, end) = (pair[0], pair[1] - START_CODE.len());
        let zeros = bytes[start..end].iter().rev().take_while(|byte| **byte == 0).count();
        start..end - zeros
    };
    let units: Vec<Range<usize>> = starts.windows(2).map(ends).filter(|unit| !unit.is_empty()).collect();
    units.into_iter()
}
