//! Frames of sound: AAC with ADTS headers, MPEG audio, AC-3 and E-AC-3, and Opus with control headers. Their headers tell where the
//! next one begins, wherever packets end.

use std::mem::discriminant;

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;

use super::opus;
use super::times::{CLOCK_RATE, Pes};
use super::{Closing, Piece};
use crate::error::{Error, Result};
use crate::index::{Builder, Entry};
use crate::joints::Times;
use crate::{ac3, adts, mpeg_audio, sound};

/// Which headers frames have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Adts,
    MpegAudio,
    /// Of either kind, which the frames tell.
    Ac3,
    Opus {
        channels: u8,
    },
}

/// The longest header, as far as it is looked at.
const HEADER_BYTES_MAX: usize = 16;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    codec: (Codec, Format),
    rate: u32,
    /// How long the frame lasts.
    samples: u32,
    /// Before what is sent of it.
    skipped: usize,
    bytes: usize,
}

impl Sort {
    /// Whose frames bytes begin with: one, and the beginning of another as far as there are bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        [Self::Adts, Self::MpegAudio, Self::Ac3].into_iter().find(|sort| {
            let wanted = sort.header_bytes(&[]);
            let parse = |at: usize| sort.parse(bytes.get(at..at + wanted)?);
            parse(0).is_some_and(|first| bytes.len() < first.bytes + wanted || parse(first.bytes).is_some())
        })
    }

    /// How long a header is, as far as it is looked at, which its first bytes may tell.
    fn header_bytes(self, begin: &[u8]) -> usize {
        match self {
            Self::Adts => adts::HEADER_BYTES,
            Self::MpegAudio => mpeg_audio::HEADER_BYTES,
            Self::Ac3 => ac3::HEADER_BYTES,
            Self::Opus { .. } => opus::header_bytes(begin).min(HEADER_BYTES_MAX),
        }
    }

    /// Whether a receiver that is told of one frame understands the other. But for AAC, frames tell their channels themselves.
    fn are_alike(self, one: &Header, other: &Header) -> bool {
        let kind = |header: &Header| (discriminant(&header.codec.0), header.codec.1, header.rate);
        one.codec == other.codec && one.rate == other.rate || self != Self::Adts && kind(one) == kind(other)
    }

    fn parse(self, bytes: &[u8]) -> Option<Header> {
        match self {
            Self::Adts => {
                let header = adts::Header::parse(bytes.try_into().ok()?)?;
                let codec = sound::aac(header.config.to_vec())?;
                let (rate, skipped) = (codec.clock_rate(), header.header_bytes as usize);
                let is_one = header.blocks == 1;
                let (bytes, samples) = (header.bytes as usize, adts::FRAME_SAMPLES as u32);
                is_one.then_some(Header { codec: (codec, Format::Aac), rate, samples, skipped, bytes })
            }
            Self::MpegAudio => {
                let header = mpeg_audio::Header::parse(bytes.try_into().ok()?)?;
                let codec = (Codec::MpegAudio, Format::MpegAudio);
                let (rate, samples, bytes) = (header.rate, header.samples, header.bytes as usize);
                Some(Header { codec, rate, samples, skipped: 0, bytes })
            }
            Self::Ac3 => {
                let header = ac3::Header::parse(bytes.try_into().ok()?)?;
                let (rate, samples, bytes) = (header.rate, header.samples, header.bytes);
                Some(Header { codec: header.codec(), rate, samples, skipped: 0, bytes })
            }
            Self::Opus { channels } => {
                let opus::Header { skipped, bytes, samples } = opus::Header::parse(bytes)?;
                let codec = opus::codec(channels)?;
                Some(Header { codec, rate: opus::RATE, samples, skipped, bytes })
            }
        }
    }
}

/// Beyond this many parts of a second, a time that is told differs from the one that is expected. Rounding does not reach it.
const SAME_PER_SECOND: i64 = 500;

pub(super) struct Frames {
    sort: Sort,
    /// The bytes of a header, as far as they are there, and where they lie.
    header: Vec<(u8, u64)>,
    /// When the frame begins whose header that is, if its PES packet tells it.
    header_time: Option<i64>,
    current: Option<Current>,
    /// The coding of the first frame that another one like it has followed, and the frame that waits for such a one.
    first: Option<Header>,
    waiting: Option<Entry>,
    /// When the next frame is due, in samples.
    next: Option<i64>,
    /// As PES packets tell it: of the first frame that begins in this one, and of the last one that told it.
    told: Option<i64>,
    last_told: Option<i64>,
    /// Whether there were frames that are coded otherwise than the first one.
    has_others: bool,
    builder: Builder,
}

/// A frame that is being passed over.
struct Current {
    header: Header,
    time: Option<i64>,
    passed: usize,
    begin: Option<u64>,
}

impl Frames {
    pub fn new(sort: Sort) -> Self {
        Self {
            sort,
            header: Vec::new(),
            header_time: None,
            current: None,
            first: None,
            waiting: None,
            next: None,
            told: None,
            last_told: None,
            has_others: false,
            builder: Builder::default(),
        }
    }

    pub fn begin(&mut self, pes: Option<Pes>, times: &mut Times) {
        if let Some(pes) = pes {
            let told = times.go_on(pes.presentation as i64, self.last_told);
            (self.told, self.last_told) = (Some(told), Some(told));
        }
    }

    pub fn take(&mut self, piece: Piece, samples_left: &mut u64) -> Result<()> {
        let Piece { mut at, bytes: mut rest } = piece;
        while let Some(&byte) = rest.first() {
            let Some(current) = &mut self.current else {
                self.take_header_byte(byte, at);
                (at, rest) = (at + 1, &rest[1..]);
                if self.current.as_ref().is_some_and(|current| current.passed == current.header.bytes) {
                    self.end(at, samples_left)?;
                }
                continue;
            };
            let is_before = current.passed < current.header.skipped;
            let until = if is_before { current.header.skipped } else { current.header.bytes };
            let count = rest.len().min(until - current.passed);
            if !is_before {
                current.begin = current.begin.or(Some(at));
            }
            current.passed += count;
            (at, rest) = (at + count as u64, &rest[count..]);
            if current.passed == current.header.bytes {
                self.end(at, samples_left)?;
            }
        }
        Ok(())
    }

    fn take_header_byte(&mut self, byte: u8, at: u64) {
        if self.header.is_empty() {
            self.header_time = self.told.take();
        }
        self.header.push((byte, at));
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes.iter_mut().zip(&self.header).for_each(|(to, (byte, _))| *to = *byte);
        let wanted = self.sort.header_bytes(&bytes[..self.header.len()]);
        if self.header.len() < wanted {
            return;
        }
        let header = self.sort.parse(&bytes[..wanted]);
        let passed = self.header.len();
        match header.filter(|header| header.bytes >= passed && header.bytes > header.skipped) {
            Some(header) => {
                let begin = self.header.get(header.skipped).map(|(_, at)| *at);
                self.current = Some(Current { header, time: self.header_time, passed, begin });
                self.header.clear();
            }
            None => {
                // Damage, or no frame at all: the one before may have been none either.
                self.header.remove(0);
                if self.builder.is_empty() {
                    (self.first, self.waiting) = (None, None);
                }
            }
        }
    }

    /// A frame is over at `end`.
    fn end(&mut self, end: u64, samples_left: &mut u64) -> Result<()> {
        let Some(Current { header, time, begin: Some(at), .. }) = self.current.take() else { return Ok(()) };
        let is_alike = self.first.as_ref().is_none_or(|first| self.sort.are_alike(first, &header));
        if !is_alike {
            // Nothing like the first one has followed it, or the coding changes on the way.
            if self.builder.is_empty() {
                (self.first, self.waiting, self.next) = (None, None, None);
            } else {
                self.has_others = true;
                return Ok(());
            }
        }
        let rate = i64::from(header.rate);
        let told = time.map(|ticks| {
            let ticks = i128::from(ticks) * i128::from(rate) + i128::from(CLOCK_RATE / 2);
            ticks.div_euclid(CLOCK_RATE.into()) as i64
        });
        let expected = self.next;
        let time = match (told, expected) {
            (Some(told), Some(expected)) if (told - expected).abs() <= rate / SAME_PER_SECOND => expected,
            (told, expected) => match told.or(expected) {
                Some(time) => time,
                // What comes before the first time has none.
                None => return Ok(()),
            },
        };
        self.next = Some(time + i64::from(header.samples));
        self.first.get_or_insert(header);
        let bytes = u32::try_from(end - at).map_err(|_| Error::Damaged("a frame of more than 4 GiB"))?;
        let entry = Entry { at, bytes, decode: time, presentation: time, is_sync: true };
        if let Some(before) = self.waiting.replace(entry) {
            self.builder.push(before, samples_left)?;
        }
        Ok(())
    }

    /// Nothing more comes, so nothing has to follow the last frame.
    pub fn end_all(&mut self, samples_left: &mut u64) -> Result<()> {
        self.header.clear();
        self.current = None;
        self.waiting.take().map_or(Ok(()), |last| self.builder.push(last, samples_left))
    }

    /// Whether there were frames that a receiver would not understand.
    pub fn has_others(&self) -> bool {
        self.has_others
    }

    /// How all frames so far are one track.
    pub fn closing(&self) -> Option<Closing> {
        let Header { codec, rate, samples, .. } = self.first.as_ref()?;
        let lasts = Some(i64::from(*samples));
        Some(Closing { coding: codec.clone(), rate: *rate, lasts, samples: self.builder.clone() })
    }
}
