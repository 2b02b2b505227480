//! Matroska and WebM (RFC 9559): clusters of blocks, found by a pass over all of them.
//!
//! Cues name key frames only, and many files have none, so they are not read. The crate matroska-demuxer reads what the tracks
//! are, from a copy of just that part: it would read all other tables too. It copies frames and does not say where they lie, so
//! clusters are walked here.

mod blocks;
mod ebml;
mod lacing;

use std::io::Cursor;

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;
use matroska_demuxer::{ContentEncodingValue, MatroskaFile, TrackEntry};

use crate::error::{Error, Result};
use crate::index::{Builder, SAMPLES_MAX};
use crate::media::{Carriage, Found, Track};
use crate::reorder::Presented;
use crate::source::Source;
use crate::time::TimeBase;
use crate::{ac3, parameter_sets, sound, vorbis};
use ebml::{Element, Size, id};
use lacing::Laced;

/// Of tracks and of what a file says of itself. Real ones have a few hundred bytes.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// More than any film has.
const TRACKS_MAX: usize = 64;

/// From 1970 to 2001, where dates of files begin.
const EPOCH_NS: u64 = 978_307_200_000_000_000;

/// A track while its blocks are being found.
struct Draft {
    number: u64,
    codec: Codec,
    format: Format,
    carriage: Carriage,
    language: Option<String>,
    /// How long a frame lasts, in ticks, if that is told.
    frame: Option<i64>,
    /// How much of its beginning is there to be decoded only, in ticks.
    lead_in: i64,
    order: Presented,
    builder: Builder,
    /// The last block, while the times of its frames are not known.
    waiting: Laced,
    /// How long how many frames of a block lasted.
    lasted: Option<(i64, i64)>,
}

pub(crate) fn read(source: &mut Source) -> Result<Found> {
    let (header, segment) = first_segment(source)?;
    let end = segment.end(source);
    let (mut info, mut tracks, mut movie) = (None, None, None);
    let mut at = segment.content;
    while let Some(element) = Element::read(source, at)?.filter(|element| element.start < end) {
        match element.id {
            id::INFO => info = Some(element.copy(source, HEADER_BYTES_MAX)?),
            id::TRACKS => tracks = Some(element.copy(source, HEADER_BYTES_MAX)?),
            _ => {}
        }
        if let (None, Some(info), Some(tracks)) = (&movie, &info, &tracks) {
            movie = Some(Movie::read(header.clone(), info, tracks)?);
        }
        at = match (element.id, element.size, &mut movie) {
            (id::CLUSTER, _, Some(movie)) => blocks::read(source, &element, movie)?,
            (id::CLUSTER, ..) => {
                return Err(Error::Damaged("its pictures and sound come before what they are"));
            }
            (_, Size::Known(bytes), _) => element.content.saturating_add(bytes),
            (_, Size::Unknown, _) => return Err(Error::Damaged("an element does not say how long it is")),
        };
    }
    let missing = "the list of tracks";
    movie.ok_or(Error::Truncated { bytes: source.bytes(), missing })?.finish()
}

/// The EBML header with its bytes, and the segment after it.
fn first_segment(source: &mut Source) -> Result<(Vec<u8>, Element)> {
    let damaged = Error::Damaged("its header cannot be read");
    let Some(header) = Element::read(source, 0)? else { return Err(damaged) };
    let bytes = header.copy(source, HEADER_BYTES_MAX)?;
    let mut at = bytes.len() as u64;
    while let Some(element) = Element::read(source, at)? {
        match (element.id, element.size) {
            (id::SEGMENT, _) => return Ok((bytes, element)),
            (id::VOID | id::CRC_32, Size::Known(size)) => at = element.content.saturating_add(size),
            _ => break,
        }
    }
    Err(damaged)
}

struct Movie {
    drafts: Vec<Draft>,
    left_out: Vec<String>,
    recorded_ns: Option<u64>,
    time_base: TimeBase,
    samples_left: u64,
}

impl Movie {
    /// What the header, and the elements with information and tracks, tell.
    fn read(header: Vec<u8>, info: &[u8], tracks: &[u8]) -> Result<Self> {
        let mut file = header;
        let content = [info, tracks, &ebml::EMPTY_CLUSTER].concat();
        ebml::write_header(id::SEGMENT, content.len() as u64, &mut file);
        file.extend(content);
        let file = MatroskaFile::open(Cursor::new(file))
            .map_err(|_| Error::Damaged("what its tracks are cannot be read"))?;
        let scale_ns = file.info().timestamp_scale();
        let time_base =
            TimeBase::new(scale_ns.get(), 1_000_000_000).ok_or(Error::Damaged("its time does not pass"))?;
        let mut movie = Self {
            drafts: Vec::new(),
            left_out: Vec::new(),
            recorded_ns: file.info().date_utc().and_then(|ns| EPOCH_NS.checked_add_signed(ns)),
            time_base,
            samples_left: SAMPLES_MAX,
        };
        let mut is_encrypted = false;
        for track in file.tracks().iter().take(TRACKS_MAX) {
            let encodings = track.content_encodings().unwrap_or_default();
            let is_one_encrypted =
                encodings.iter().any(|one| matches!(one.encoding(), ContentEncodingValue::Encryption(_)));
            is_encrypted |= is_one_encrypted;
            if is_one_encrypted || !encodings.is_empty() {
                let how = if is_one_encrypted { "encrypted" } else { "compressed by the container" };
                movie.left_out.push(format!("{} that is {how}", track.codec_id()));
                continue;
            }
            match served(track) {
                Some(coding) => movie.drafts.push(movie.draft(track, coding)),
                None => {
                    let phrase = format!("{}, which is no codec that can be served", track.codec_id());
                    movie.left_out.push(phrase);
                }
            }
        }
        if movie.drafts.is_empty() && is_encrypted {
            return Err(Error::Encrypted);
        }
        Ok(movie)
    }

    fn draft(&self, track: &TrackEntry, (codec, format, carriage): Coding) -> Draft {
        let told = track.language_bcp47().or(track.language());
        let language = told.filter(|language| !language.is_empty() && *language != "und").map(str::to_owned);
        let ticks = |ns: u64| self.time_base.ticks(ns.min(1 << 60) as i64);
        Draft {
            number: track.track_number().get(),
            codec,
            format,
            carriage,
            language,
            frame: track.default_duration().map(|ns| ticks(ns.get())),
            lead_in: track.codec_delay().map_or(0, ticks),
            order: Presented::default(),
            builder: Builder::default(),
            waiting: Laced::default(),
            lasted: None,
        }
    }

    fn finish(mut self) -> Result<Found> {
        let mut found = Found { left_out: self.left_out, recorded_ns: self.recorded_ns, ..Found::default() };
        for mut draft in self.drafts {
            draft.settle(None, &mut self.samples_left)?;
            draft.order.finish(&mut draft.builder, &mut self.samples_left)?;
            let Some(mut index) = draft.builder.finish(draft.frame) else { continue };
            index.lead();
            index.shift(-draft.lead_in);
            let track = Track::new(draft.codec, draft.format, draft.language, self.time_base, index);
            found.tracks.push(track.carried(draft.carriage));
        }
        Ok(found)
    }
}

/// How a track is coded, sent, and laid in its file.
type Coding = (Codec, Format, Carriage);

/// How a track is coded (RFC 9559; Matroska codec specifications), if that can be served.
fn served(track: &TrackEntry) -> Option<Coding> {
    let private = track.codec_private();
    let channels = || u8::try_from(track.audio()?.channels().get()).ok();
    let rate = || track.audio().map(|audio| audio.sampling_frequency() as u32);
    let (codec, format) = match track.codec_id() {
        "V_MPEG4/ISO/AVC" => parameter_sets::h264(private?)?,
        "V_MPEGH/ISO/HEVC" => parameter_sets::h265(private?)?,
        "V_VP8" => (Codec::Vp8, Format::Vp8),
        "V_VP9" => (Codec::Vp9 { profile: 0 }, Format::Vp9),
        "V_AV1" => parameter_sets::av1(private?)?,
        "V_MPEG4/ISO/SP" | "V_MPEG4/ISO/ASP" | "V_MPEG4/ISO/AP" => {
            (Codec::Mpeg4 { config: private.unwrap_or_default().to_vec() }, Format::Mpeg4)
        }
        "V_MJPEG" => (Codec::Jpeg, Format::Jpeg),
        "V_MS/VFW/FOURCC" => video_for_windows(private?)?,
        "A_AAC" => (sound::aac(private?.to_vec())?, Format::Aac),
        "A_OPUS" => sound::opus(channels()?, private.and_then(sound::opus_streams))?,
        "A_VORBIS" => vorbis::codec(private?)?,
        "A_AC3" => ac3::codec(false, rate()?, channels()?),
        "A_EAC3" => ac3::codec(true, rate()?, channels()?),
        "A_MPEG/L1" | "A_MPEG/L2" | "A_MPEG/L3" => (Codec::MpegAudio, Format::MpegAudio),
        "A_PCM/INT/LIT" | "A_PCM/INT/BIG" => {
            let bits = track.audio()?.bit_depth()?.get();
            return sound::pcm(bits, rate()?, channels()?, track.codec_id().ends_with("LIT"));
        }
        "A_MS/ACM" => return audio_for_windows(private?),
        _ => return None,
    };
    Some((codec, format, Carriage::Whole))
}

/// By a BITMAPINFOHEADER of 40 bytes, with what the codec has after it.
fn video_for_windows(header: &[u8]) -> Option<(Codec, Format)> {
    match header.get(16..20)?.to_ascii_uppercase().as_slice() {
        b"XVID" | b"DIVX" | b"DX50" | b"FMP4" | b"MP4V" => {
            Some((Codec::Mpeg4 { config: header.get(40..)?.to_vec() }, Format::Mpeg4))
        }
        b"MJPG" => Some((Codec::Jpeg, Format::Jpeg)),
        _ => None,
    }
}

/// By a WAVEFORMATEX: what it is, channels, rate, and bits at the end.
fn audio_for_windows(header: &[u8]) -> Option<Coding> {
    let &[a, b, c, d, e, f, g, h, _, _, _, _, _, _, i, j, ..] = header else { return None };
    let channels = u8::try_from(u16::from_le_bytes([c, d])).ok()?;
    let rate = u32::from_le_bytes([e, f, g, h]);
    match u16::from_le_bytes([a, b]) {
        1 => sound::pcm(u16::from_le_bytes([i, j]).into(), rate, channels, true),
        6 => sound::g711(true, rate, channels),
        7 => sound::g711(false, rate, channels),
        _ => None,
    }
}
