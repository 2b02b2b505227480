//! AVI (RIFF; OpenDML for files of several parts): chunks of pictures and of sound, which tell no times: they follow each other.
//!
//! ```text
//!   RIFF AVI | LIST hdrl | LIST strl | strh | strf | LIST strl | strh | strf | LIST movi | 00dc | 01wb | 00dc | ... | idx1
//!   RIFF AVIX | LIST movi | 00dc | 01wb | ...
//! ```
//!
//! Lists are entered and not left: each chunk is followed by the next one, whatever it is in. The index at the end is not read.
//! It is missing in recordings that were cut off, and pictures tell themselves whether they are key frames.

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;
use memchr::memmem;

use crate::error::{Error, Result};
use crate::index::{Builder, Entry, samples_max};
use crate::media::{Carriage, Found, Track};
use crate::reorder::{Ordered, Picture};
use crate::source::Source;
use crate::time::TimeBase;
use crate::{sound, windows};

const STREAMS_MAX: usize = 64;
/// Of a description.
const FORMAT_BYTES_MAX: u64 = 1 << 16;
/// What a picture has before its data: the headers of MPEG-4.
const HEAD_BYTES: usize = 1 << 10;
/// How much sound without compression is one sample: a part of a second.
const BLOCKS_PER_SECOND: u32 = 50;
const BLOCK_FRAMES_MAX: u32 = 1 << 14;
/// A picture of MPEG-4 (ISO/IEC 14496-2, 6.2.5).
const PICTURE_CODE: [u8; 4] = [0, 0, 1, 0xB6];

pub(crate) fn read(source: &mut Source) -> Result<Found> {
    let mut pass = Pass { streams: Vec::new(), samples_left: samples_max(source.bytes()) };
    let mut at = 0;
    while let Some([n, a, m, e, bytes @ ..]) = source.array::<8>(at)? {
        let (name, bytes) = ([n, a, m, e], u64::from(u32::from_le_bytes(bytes)));
        let content = at + 8;
        if matches!(&name, b"RIFF" | b"LIST") {
            // The name of the list.
            at = content + 4;
            continue;
        }
        let end = content + bytes;
        // A recording that was cut off is good up to there.
        if end > source.bytes() {
            break;
        }
        pass.take(source, name, content, bytes as u32)?;
        at = end + bytes % 2;
    }
    pass.found()
}

struct Pass {
    streams: Vec<Stream>,
    samples_left: u64,
}

/// A stream while its chunks are being found.
struct Stream {
    /// What a chunk, or a byte of sound without compression, lasts.
    time_base: Option<TimeBase>,
    /// The bytes of a unit of sound; 0 where each chunk is one.
    unit_bytes: u32,
    is_pictures: bool,
    served: Option<Served>,
    left_out: Option<String>,
    builder: Builder,
}

struct Served {
    codec: Codec,
    format: Format,
    carriage: Carriage,
    /// Of pictures that are decoded in another order.
    order: Option<Order>,
    time: i64,
    last_step: i64,
}

/// Which picture comes when: one that others are made from comes after those that follow it and are made from it.
#[derive(Default)]
struct Order {
    ordered: Ordered,
    anchors: u64,
    between: i64,
}

impl Pass {
    fn take(&mut self, source: &mut Source, name: [u8; 4], at: u64, bytes: u32) -> Result<()> {
        match &name {
            b"strh" if self.streams.len() < STREAMS_MAX => {
                let header = source.copy(at, u64::from(bytes).min(64), "a stream's header")?;
                self.streams.push(Stream::new(&header));
            }
            b"strf" => {
                let format = source.copy(at, u64::from(bytes).min(FORMAT_BYTES_MAX), "what a stream is")?;
                self.streams.last_mut().into_iter().for_each(|stream| stream.describe(&format));
            }
            [a @ b'0'..=b'9', b @ b'0'..=b'9', b'd' | b'w', b'b' | b'c'] => {
                let number = usize::from(a - b'0') * 10 + usize::from(b - b'0');
                if let Some(stream) = self.streams.get_mut(number) {
                    stream.add(source, at, bytes, &mut self.samples_left)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn found(mut self) -> Result<Found> {
        let mut found = Found::default();
        for mut stream in self.streams {
            found.left_out.extend(stream.left_out.take());
            found.tracks.extend(stream.track(&mut self.samples_left)?);
        }
        Ok(found)
    }
}

impl Stream {
    fn new(header: &[u8]) -> Self {
        let number = |at: usize| {
            header.get(at..at + 4).map_or(0, |four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        };
        Self {
            time_base: TimeBase::new(number(20).into(), number(24).into()),
            unit_bytes: number(44),
            is_pictures: header.starts_with(b"vids"),
            served: None,
            left_out: None,
            builder: Builder::default(),
        }
    }

    fn describe(&mut self, header: &[u8]) {
        let described = if self.is_pictures {
            windows::pictures(header).map(|(codec, format)| (codec, format, Carriage::Whole)).ok_or_else(
                || {
                    let name = String::from_utf8_lossy(header.get(16..20).unwrap_or_default()).into_owned();
                    format!("{name}, which is no codec that can be served in AVI")
                },
            )
        } else {
            self.sound(header)
        };
        match described {
            Ok((codec, format, carriage)) => {
                let order = matches!(codec, Codec::Mpeg4 { .. }).then(Order::default);
                self.served = Some(Served { codec, format, carriage, order, time: 0, last_step: 1 });
            }
            Err(phrase) => self.left_out = Some(phrase),
        }
    }

    fn sound(&mut self, header: &[u8]) -> Result<sound::Plain, String> {
        let kind = header.get(..2).map_or(0, |kind| u16::from_le_bytes([kind[0], kind[1]]));
        match kind {
            // In units of bytes, frames lie across chunks.
            0x50 | 0x55 if self.unit_bytes == 0 => Ok((Codec::MpegAudio, Format::MpegAudio, Carriage::Whole)),
            0x50 | 0x55 => Err("MPEG audio whose frames lie across chunks".to_owned()),
            0xFF if self.unit_bytes == 0 => {
                let config = header.get(18..).unwrap_or_default().to_vec();
                let codec = sound::aac(config).ok_or("AAC whose decoder configuration cannot be read")?;
                Ok((codec, Format::Aac, Carriage::Whole))
            }
            _ => {
                let plain = windows::sound(header)?;
                self.time_base = TimeBase::per_second(plain.0.clock_rate());
                Ok(plain)
            }
        }
    }

    fn add(&mut self, source: &mut Source, at: u64, bytes: u32, samples_left: &mut u64) -> Result<()> {
        let Some(served) = &mut self.served else { return Ok(()) };
        if let Format::Pcm { frame_bytes } = served.format {
            let frame_bytes = u32::from(frame_bytes).max(1);
            let frames_max = (served.codec.clock_rate() / BLOCKS_PER_SECOND).clamp(1, BLOCK_FRAMES_MAX);
            let (mut at, mut left) = (at, bytes / frame_bytes);
            while left > 0 {
                let frames = left.min(frames_max);
                served.last_step = frames.into();
                let block = Chunk { at, bytes: frames * frame_bytes, is_sync: true };
                served.push(&mut self.builder, block, samples_left)?;
                (at, left) = (at + u64::from(frames * frame_bytes), left - frames);
            }
            Ok(())
        } else if let Some(order) = &mut served.order {
            if bytes == 0 {
                order.ordered.skip();
                return Ok(());
            }
            let head = source.up_to(at, HEAD_BYTES.min(bytes as usize))?;
            let begin = memmem::find(head, &PICTURE_CODE);
            let kind = begin.and_then(|begin| head.get(begin + 4)).map_or(1, |first| first >> 6);
            if let (Codec::Mpeg4 { config }, Some(begin)) = (&mut served.codec, begin)
                && config.is_empty()
            {
                config.extend_from_slice(&head[..begin]);
            }
            order.push(Chunk { at, bytes, is_sync: kind == 0 }, kind == 2, &mut self.builder, samples_left)
        } else {
            served.push(&mut self.builder, Chunk { at, bytes, is_sync: true }, samples_left)
        }
    }

    fn track(mut self, samples_left: &mut u64) -> Result<Option<Track>> {
        let Some(Served { codec, format, carriage, order, last_step, .. }) = self.served else {
            return Ok(None);
        };
        if let Some(order) = order {
            order.ordered.finish(&mut self.builder, samples_left)?;
        }
        let Some(mut index) = self.builder.finish(Some(last_step)) else { return Ok(None) };
        index.lead();
        let time_base = self.time_base.ok_or(Error::Damaged("a stream's time does not pass"))?;
        Ok(Some(Track::new(codec, format, None, time_base, index).carried(carriage)))
    }
}

/// Where a chunk lies, and whether decoding can begin there.
struct Chunk {
    at: u64,
    bytes: u32,
    is_sync: bool,
}

impl Served {
    /// Time passes with chunks that have nothing, too.
    fn push(&mut self, to: &mut Builder, chunk: Chunk, samples_left: &mut u64) -> Result<()> {
        let Chunk { at, bytes, is_sync } = chunk;
        if bytes > 0 {
            to.push(Entry { at, bytes, decode: self.time, presentation: self.time, is_sync }, samples_left)?;
        }
        self.time = self.time.saturating_add(self.last_step);
        Ok(())
    }
}

impl Order {
    fn push(
        &mut self,
        chunk: Chunk,
        is_between: bool,
        to: &mut Builder,
        samples_left: &mut u64,
    ) -> Result<()> {
        let Chunk { at, bytes, is_sync } = chunk;
        let order = if is_between {
            self.between += 1;
            (self.anchors, self.between)
        } else {
            (self.anchors, self.between) = (self.anchors + 1, 0);
            (self.anchors, i64::MAX)
        };
        self.ordered.push(Picture { at, bytes, is_sync, order }, to, samples_left)
    }
}
