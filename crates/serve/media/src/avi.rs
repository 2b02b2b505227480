//! AVI (RIFF; OpenDML for files of several parts): chunks of pictures and of sound, which tell no times: they follow each other.
//!
//! ```text
//!   RIFF AVI | LIST hdrl | LIST strl | strh | strf | LIST strl | strh | strf | LIST movi | 00dc | 01wb | 00dc | ... | idx1
//!   RIFF AVIX | LIST movi | 00dc | 01wb | ...
//! ```
//!
//! Some writers of MPEG-4 pack pictures: a chunk has one and the next one, which is seen before it. A chunk with a picture without content
//! makes up for that when the others of the kind have come. Each picture becomes a sample, as many as there are chunks.
//!
//! Lists are entered and not left: each chunk is followed by the next one, whatever it is in. The index at the end is not read.
//! It is missing in recordings that were cut off, and pictures tell themselves whether they are key frames.

use forebay_rtsp::packetise::{Format, Framing};
use forebay_rtsp::presentation::Codec;
use memchr::{memchr3, memmem};

use crate::annex_b::{self, Heads};
use crate::damage::next_place;
use crate::error::{Error, Result};
use crate::index::{Builder, Entry, samples_max};
use crate::media::{Carriage, Found, Track};
use crate::reorder::{Ordered, Picture};
use crate::source::Source;
use crate::time::TimeBase;
use crate::{ac3, mpeg_audio, parameter_sets, sound, windows};

const STREAMS_MAX: usize = 64;
/// Of a description.
const FORMAT_BYTES_MAX: u64 = 1 << 16;
/// What is looked at of a picture: the headers of MPEG-4, or parameter sets and the beginning of a slice.
const HEAD_BYTES: usize = 8 << 10;
/// A stream that is said to begin later than this does not.
const BEGINS_NS_MAX: i64 = 3600 * 1_000_000_000;
/// How much sound without compression is one sample: a part of a second.
const BLOCKS_PER_SECOND: u32 = 50;
const BLOCK_FRAMES_MAX: u32 = 1 << 14;
/// A picture of MPEG-4 (ISO/IEC 14496-2, 6.2.5).
const PICTURE_CODE: [u8; 4] = [0, 0, 1, 0xB6];
/// The longest picture that can stand for another one, which lies in a chunk before.
const PLACEHOLDER_BYTES_MAX: u32 = 19;
/// The most pictures between two that others are made from.
const BETWEEN_MAX: usize = 16;
/// The longest chunk that is looked through for a second picture.
const PACKED_BYTES_MAX: u32 = 4 << 20;

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
        let next = if is_name(&name) { after_chunk(source, end, bytes)? } else { None };
        let Some(next) = next else {
            // A recording that was cut off is good up to there. Entries of an index look like chunks.
            if is_index(&name) {
                break;
            }
            let begins = |source: &mut Source, at| pass.is_chunk(source, at);
            let mark = |bytes: &[u8]| memchr3(b'0', b'1', b'i', bytes);
            let Some(next) = next_place(source, at + 1, mark, begins)? else { break };
            at = next;
            continue;
        };
        pass.take(source, name, content, bytes as u32)?;
        at = next;
    }
    pass.found()
}

/// The stream whose pictures or sound a chunk of this name has.
fn number(name: &[u8; 4]) -> Option<usize> {
    let [a @ b'0'..=b'9', b @ b'0'..=b'9', b'd' | b'w', b'b' | b'c'] = name else { return None };
    Some(usize::from(a - b'0') * 10 + usize::from(b - b'0'))
}

/// Whether a chunk of this name is an index of others.
fn is_index(name: &[u8; 4]) -> bool {
    name == b"idx1" || name.starts_with(b"ix")
}

/// Whether a chunk may be called so.
fn is_name(name: &[u8; 4]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ')
}

/// Where the chunk begins that follows one of so many bytes; `None` if no chunk follows. Some writers do not fill an odd one up.
fn after_chunk(source: &Source, end: u64, bytes: u64) -> Result<Option<u64>> {
    if end > source.bytes() {
        return Ok(None);
    }
    let mut last = None;
    for place in [end + bytes % 2, end] {
        match source.beyond::<4>(place)? {
            Some(name) if is_name(&name) => return Ok(Some(place)),
            Some(_) => {}
            None => last = Some(place),
        }
    }
    Ok(last)
}

struct Pass {
    streams: Vec<Stream>,
    samples_left: u64,
}

/// A stream while its chunks are being found.
struct Stream {
    /// What a chunk, or a byte of sound without compression, lasts.
    time_base: Option<TimeBase>,
    /// How much later than the file it begins.
    begins_ns: i64,
    /// The bytes of a unit of sound; 0 where each chunk is one.
    unit_bytes: u32,
    /// Whether sound comes in blocks of some length: then a chunk without bytes has none, and lasts no time.
    has_blocks: bool,
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
    /// Of sound whose frames tell how long they last.
    frames: Option<Frames>,
    time: i64,
    last_step: i64,
}

/// Which picture comes when.
struct Order {
    ordered: Ordered,
    /// The last one that others are made from, which may have another one in its chunk, and those that followed it.
    held: Vec<Picture>,
    told: Told,
    /// The order of the last picture.
    last: (u64, i64),
}

/// What tells the order.
enum Told {
    /// The kinds of pictures: one that others are made from comes after those that follow it and are made from it.
    Kinds { anchors: u64, between: i64 },
    /// NAL units, which follow start codes or their lengths.
    Units(Box<Heads>, Framing),
}

/// A picture that is seen before the last one that it is made from.
const BETWEEN: u8 = 2;

/// The kind of a picture that begins with its code.
fn kind(picture: &[u8]) -> Option<u8> {
    picture.get(PICTURE_CODE.len()).map(|first| first >> 6)
}

/// Which headers frames of sound have.
#[derive(Clone, Copy)]
enum Frames {
    MpegAudio,
    Ac3,
}

/// What the header of a frame says.
struct Frame {
    codec: Codec,
    bytes: u32,
    samples: u32,
}

impl Pass {
    /// Whether a chunk of a stream begins here, or an index, as far as what follows it tells.
    fn is_chunk(&self, source: &mut Source, at: u64) -> Result<bool> {
        let Some([n, a, m, e, bytes @ ..]) = source.array::<8>(at)? else { return Ok(false) };
        let bytes = u64::from(u32::from_le_bytes(bytes));
        let name = [n, a, m, e];
        let is_of_stream = number(&name).is_some_and(|number| number < self.streams.len());
        Ok((is_of_stream || is_index(&name)) && after_chunk(source, at + 8 + bytes, bytes)?.is_some())
    }

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
            name => {
                if let Some(stream) = number(name).and_then(|number| self.streams.get_mut(number)) {
                    stream.add(source, at, bytes, &mut self.samples_left)?;
                }
            }
        }
        Ok(())
    }

    fn found(mut self) -> Result<Found> {
        let mut found = Found::default();
        for stream in self.streams {
            match stream.track(&mut self.samples_left)? {
                Ok(track) => found.tracks.push(track),
                Err(phrase) => found.left_out.extend(phrase),
            }
        }
        Ok(found)
    }
}

impl Stream {
    fn new(header: &[u8]) -> Self {
        let number = |at: usize| {
            header.get(at..at + 4).map_or(0, |four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        };
        let time_base = TimeBase::new(number(20).into(), number(24).into());
        let begins_ns = time_base.map_or(0, |base| base.nanoseconds(number(28).into()));
        Self {
            time_base,
            begins_ns: if begins_ns <= BEGINS_NS_MAX { begins_ns } else { 0 },
            unit_bytes: number(44),
            has_blocks: false,
            is_pictures: header.starts_with(b"vids"),
            served: None,
            left_out: None,
            builder: Builder::default(),
        }
    }

    fn describe(&mut self, header: &[u8]) {
        let described = if self.is_pictures {
            pictures(header)
        } else {
            self.sound(header).map(|(plain, frames)| Served::new(plain, None, frames))
        };
        match described {
            Ok(served) => self.served = Some(served),
            Err(phrase) => self.left_out = Some(phrase),
        }
    }

    fn sound(&mut self, header: &[u8]) -> Result<(sound::Plain, Option<Frames>), String> {
        let word =
            |at: usize| header.get(at..at + 2).map_or(0, |word| u16::from_le_bytes([word[0], word[1]]));
        let (kind, rate) = (word(0), u32::from(word(6)) << 16 | u32::from(word(4)));
        self.has_blocks = word(12) != 0;
        let mpeg = (Codec::MpegAudio, Format::MpegAudio, Carriage::Whole);
        let (plain, frames) = match kind {
            0x50 | 0x55 if self.unit_bytes == 0 => return Ok((mpeg, None)),
            0x50 | 0x55 => (mpeg, Some(Frames::MpegAudio)),
            0x2000 => {
                let (codec, format) = ac3::codec(false, rate, word(2) as u8);
                ((codec, format, Carriage::Whole), Some(Frames::Ac3))
            }
            0xFF if self.unit_bytes == 0 => {
                let config = header.get(18..).unwrap_or_default().to_vec();
                let codec = sound::aac(config).ok_or("AAC whose decoder configuration cannot be read")?;
                return Ok(((codec, Format::Aac, Carriage::Whole), None));
            }
            _ => {
                let plain = windows::sound(header)?;
                self.time_base = TimeBase::per_second(plain.0.clock_rate());
                return Ok((plain, None));
            }
        };
        self.time_base = TimeBase::per_second(rate);
        Ok((plain, frames))
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
                order.hold(None, &mut self.builder, samples_left)?;
                order.ordered.skip();
                return Ok(());
            }
            if order.unpack(source, bytes)? {
                return Ok(());
            }
            let head = source.up_to(at, HEAD_BYTES.min(bytes as usize))?;
            let (is_sync, order_told) = order.of(head, &mut served.codec);
            let picture = Picture { at, bytes, is_sync, order: order_told };
            order.hold(Some(picture), &mut self.builder, samples_left)
        } else if let Some(frames) = served.frames {
            let (mut at, end) = (at, at + u64::from(bytes));
            while at < end {
                let frame = frames.read(source, at)?.filter(|frame| at + u64::from(frame.bytes) <= end);
                let Some(Frame { codec, bytes, samples }) = frame else {
                    self.left_out = Some(format!("{} whose frames lie across chunks", frames.name()));
                    self.served = None;
                    return Ok(());
                };
                if self.builder.is_empty() {
                    served.codec = codec;
                }
                served.last_step = samples.into();
                served.push(&mut self.builder, Chunk { at, bytes, is_sync: true }, samples_left)?;
                at += u64::from(bytes);
            }
            Ok(())
        } else if bytes == 0 && self.has_blocks {
            Ok(())
        } else {
            served.push(&mut self.builder, Chunk { at, bytes, is_sync: true }, samples_left)
        }
    }

    /// Its track, or why it has none, unless it has no samples.
    fn track(mut self, samples_left: &mut u64) -> Result<Result<Track, Option<String>>> {
        let Some(Served { mut codec, format, carriage, order, last_step, .. }) = self.served else {
            return Ok(Err(self.left_out));
        };
        if let Some(mut order) = order {
            order.hold(None, &mut self.builder, samples_left)?;
            if let Told::Units(heads, _) = &order.told {
                if !heads.has_sets() {
                    return Ok(Err(Some("pictures without parameter sets amid them".to_owned())));
                }
                codec = heads.codec();
            }
            order.ordered.finish(&mut self.builder, samples_left)?;
        }
        let Some(mut index) = self.builder.finish(Some(last_step)) else { return Ok(Err(None)) };
        // The n-th chunk is decoded at the n-th tick, so pictures are seen later where they are reordered.
        let late = index.lead();
        let time_base = self.time_base.ok_or(Error::Damaged("a stream's time does not pass"))?;
        index.shift(late.saturating_add(time_base.ticks(self.begins_ns)));
        Ok(Ok(Track::new(codec, format, None, time_base, index).carried(carriage)))
    }
}

/// Where a chunk lies, and whether decoding can begin there.
struct Chunk {
    at: u64,
    bytes: u32,
    is_sync: bool,
}

impl Served {
    fn new((codec, format, carriage): sound::Plain, order: Option<Order>, frames: Option<Frames>) -> Self {
        Self { codec, format, carriage, order, frames, time: 0, last_step: 1 }
    }

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
    fn new(told: Told) -> Self {
        Self { ordered: Ordered::default(), held: Vec::new(), told, last: (0, 0) }
    }

    /// Passes pictures on, and holds another one.
    fn hold(&mut self, next: Option<Picture>, to: &mut Builder, samples_left: &mut u64) -> Result<()> {
        let is_between =
            next.is_some_and(|next| matches!(self.told, Told::Kinds { .. }) && next.order.1 != i64::MAX);
        if !is_between || self.held.len() > BETWEEN_MAX {
            self.held.drain(..).try_for_each(|picture| self.ordered.push(picture, to, samples_left))?;
        }
        self.held.extend(next);
        Ok(())
    }

    /// Makes two pictures of one that is held, if a chunk of so many bytes stands for the second one; returns whether that is so.
    fn unpack(&mut self, source: &mut Source, bytes: u32) -> Result<bool> {
        let (Told::Kinds { .. }, Some(&first)) = (&self.told, self.held.first()) else { return Ok(false) };
        if bytes > PLACEHOLDER_BYTES_MAX || first.bytes > PACKED_BYTES_MAX {
            return Ok(false);
        }
        let chunk = source.copy(first.at, first.bytes.into(), "a picture")?;
        let second = memmem::find_iter(&chunk, &PICTURE_CODE).nth(1);
        let Some(begin) = second.filter(|begin| kind(&chunk[*begin..]) == Some(BETWEEN)) else {
            return Ok(false);
        };
        let second = Picture {
            at: first.at + begin as u64,
            bytes: first.bytes - begin as u32,
            is_sync: false,
            order: (first.order.0, 0),
        };
        self.held[0].bytes = begin as u32;
        self.held.insert(1, second);
        Ok(true)
    }

    /// Whether decoding can begin with a picture that begins so, and where it comes.
    fn of(&mut self, head: &[u8], codec: &mut Codec) -> (bool, (u64, i64)) {
        let (is_sync, order) = match &mut self.told {
            // What is no picture of its own, such as a second field, belongs to the one before.
            Told::Units(heads, framing) => {
                let picture = match *framing {
                    Framing::StartCodes => heads.picture(head),
                    Framing::Lengths(bytes) => heads.picture_by_lengths(head, bytes.into()),
                };
                picture.unwrap_or((false, self.last))
            }
            Told::Kinds { anchors, between } => {
                let begin = memmem::find(head, &PICTURE_CODE);
                let kind = begin.and_then(|begin| kind(&head[begin..])).unwrap_or(1);
                if let (Codec::Mpeg4 { config }, Some(begin)) = (codec, begin)
                    && config.is_empty()
                {
                    config.extend_from_slice(&head[..begin]);
                }
                if kind == BETWEEN {
                    *between += 1;
                    (false, (*anchors, *between))
                } else {
                    (*anchors, *between) = (*anchors + 1, 0);
                    (kind == 0, (*anchors, i64::MAX))
                }
            }
        };
        self.last = order;
        (is_sync, order)
    }
}

impl Frames {
    fn name(self) -> &'static str {
        match self {
            Self::MpegAudio => "MPEG audio",
            Self::Ac3 => "AC-3",
        }
    }

    fn read(self, source: &mut Source, at: u64) -> Result<Option<Frame>> {
        Ok(match self {
            Self::MpegAudio => source.array(at)?.and_then(mpeg_audio::Header::parse).map(
                |mpeg_audio::Header { samples, bytes, .. }| Frame { codec: Codec::MpegAudio, bytes, samples },
            ),
            Self::Ac3 => source.array(at)?.and_then(ac3::Header::parse).map(|header| {
                let (codec, _) = header.codec();
                Frame { codec, bytes: header.bytes as u32, samples: header.samples }
            }),
        })
    }
}

/// How pictures are served, by their BITMAPINFOHEADER. Those of H.264 and H.265 have start codes, and parameter sets among them, or
/// lengths, and the record that MP4 has.
fn pictures(header: &[u8]) -> Result<Served, String> {
    let name = header.get(16..20).unwrap_or_default();
    let record = header.get(40..).unwrap_or_default();
    match name.to_ascii_uppercase().as_slice() {
        b"H264" | b"X264" | b"AVC1" | b"DAVC" | b"VSSH" => {
            let start_codes = Format::H264(Framing::StartCodes);
            Ok(units(annex_b::Codec::H264, parameter_sets::h264(record), start_codes))
        }
        b"HEVC" | b"H265" | b"X265" | b"HVC1" | b"HEV1" => {
            let start_codes = Format::H265(Framing::StartCodes);
            Ok(units(annex_b::Codec::H265, parameter_sets::h265(record), start_codes))
        }
        _ => {
            let (codec, format) = windows::pictures(header).ok_or_else(|| {
                format!("{}, which is no codec that can be served in AVI", String::from_utf8_lossy(name))
            })?;
            let kinds = || Order::new(Told::Kinds { anchors: 0, between: 0 });
            let order = matches!(codec, Codec::Mpeg4 { .. }).then(kinds);
            Ok(Served::new((codec, format, Carriage::Whole), order, None))
        }
    }
}

fn units(codec: annex_b::Codec, record: Option<(Codec, Format)>, start_codes: Format) -> Served {
    let mut heads = Heads::new(codec);
    let (sets, format) = record.unwrap_or_else(|| (heads.codec(), start_codes));
    match &sets {
        Codec::H264 { sps, pps } => sps.iter().chain(pps).for_each(|set| heads.take(set)),
        Codec::H265 { vps, sps, pps } => vps.iter().chain(sps).chain(pps).for_each(|set| heads.take(set)),
        _ => {}
    }
    let framing = match format {
        Format::H264(framing) | Format::H265(framing) => framing,
        _ => Framing::StartCodes,
    };
    let order = Order::new(Told::Units(Box::new(heads), framing));
    Served::new((sets, format, Carriage::Whole), Some(order), None)
}
