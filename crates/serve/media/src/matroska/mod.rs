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
use matroska_demuxer::{ContentCompAlgo, ContentEncoding, ContentEncodingValue, MatroskaFile, TrackEntry};
use memchr::memmem;

use crate::damage::next_place;
use crate::error::{Error, Result};
use crate::index::{Builder, SAMPLES_MAX};
use crate::joints::Times;
use crate::media::{Carriage, Found, Track};
use crate::reorder::Presented;
use crate::source::Source;
use crate::time::TimeBase;
use crate::{ac3, parameter_sets, sound, text, vorbis, windows};
use blocks::{Cluster, Taken};
use ebml::{Element, Size, id};
use lacing::Laced;

/// Of tracks and of what a file says of itself. Real ones have a few hundred bytes.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// More than any film has.
const TRACKS_MAX: usize = 64;

/// More than are appended to each other; each costs a look at its tracks.
const SEGMENTS_MAX: usize = 1024;

/// More than frames begin with that all frames of a track begin with.
const STRIPPED_BYTES_MAX: usize = 64;

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

/// The pass through all clusters of a file.
pub(crate) struct Pass {
    header: Vec<u8>,
    segment: Element,
    info: Option<Vec<u8>>,
    tracks: Option<Vec<u8>>,
    movie: Option<Movie>,
    /// How many other lists of tracks were compared with the first one.
    compared: usize,
    /// The cluster that is being read.
    cluster: Option<Cluster>,
    /// In how many packets texts are repeated, where they are tracks.
    text: Option<u8>,
    at: u64,
    /// Up to where all elements made sense: behind damage, the next cluster may begin before the place that a length tells.
    sound_until: u64,
}

impl Pass {
    pub fn new(source: &mut Source, text: Option<u8>) -> Result<Self> {
        let (header, segment) = first_segment(source)?;
        let at = segment.content;
        Ok(Self {
            header,
            segment,
            info: None,
            tracks: None,
            movie: None,
            compared: 0,
            cluster: None,
            text,
            at,
            sound_until: at,
        })
    }

    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether the file says how long it is, which is not known before all of it is written.
    pub fn is_closed(&self, source: &Source) -> bool {
        self.segment.size != Size::Unknown && self.segment.end(source) <= source.bytes()
    }

    /// How long it is to be when it is complete, if it says so.
    pub fn told_ns(&self) -> Option<u64> {
        self.movie.as_ref()?.told_ns
    }

    /// Reads on up to a place; returns whether the file has ended before.
    pub fn go_on(&mut self, source: &mut Source, until: u64) -> Result<bool> {
        while self.at < until {
            let end = self.segment.end(source);
            let Some(element) = Element::read(source, self.at)? else { return Ok(true) };
            let is_beyond = element.start >= end;
            if is_beyond {
                // Another file may have been appended.
                if ![id::EBML, id::SEGMENT, id::VOID].contains(&element.id) {
                    return Ok(true);
                }
                self.cluster = None;
            }
            if matches!(element.id, id::INFO | id::TRACKS) && element.end(source) > source.bytes() {
                return Ok(true);
            }
            let is_known = is_beyond || is_of_segment(element.id) || self.cluster.is_some();
            if !is_known && !element.is_followed(source, end, is_of_segment)? {
                let Some(next) = next_cluster(source, self.sound_until, end)? else { return Ok(true) };
                (self.at, self.sound_until) = (next, next + 1);
                continue;
            }
            self.at = match &mut self.cluster {
                Some(cluster) => match cluster.take(source, &element, self.movie.as_mut())? {
                    Taken::All(next) => {
                        self.sound_until = next;
                        next
                    }
                    Taken::Nothing => return Ok(true),
                    Taken::ItsEnd(next) => {
                        self.cluster = None;
                        next
                    }
                },
                None => self.take(source, &element)?,
            };
        }
        Ok(false)
    }

    /// Takes an element that is in no cluster; returns where the next one is.
    fn take(&mut self, source: &mut Source, element: &Element) -> Result<u64> {
        match element.id {
            id::INFO => self.info = Some(element.copy(source, HEADER_BYTES_MAX)?),
            id::TRACKS => {
                self.tracks = Some(element.copy(source, HEADER_BYTES_MAX)?);
                if !self.goes_on() {
                    return Ok(self.segment.end(source));
                }
            }
            _ => {}
        }
        if let (None, Some(info), Some(tracks)) = (&self.movie, &self.info, &self.tracks) {
            self.movie = Some(Movie::read(self.header.clone(), info, tracks, self.text)?);
        }
        match (element.id, element.size, &self.movie) {
            (id::CLUSTER, _, Some(_)) => {
                self.cluster = Some(Cluster::new(element));
                Ok(element.content)
            }
            (id::SEGMENT, ..) => {
                self.segment = *element;
                self.movie.iter_mut().for_each(|movie| movie.times.begin_another());
                Ok(element.content)
            }
            (id::CLUSTER, ..) => Err(Error::Damaged("its pictures and sound come before what they are")),
            (_, Size::Known(bytes), _) => Ok(element.content.saturating_add(bytes)),
            (_, Size::Unknown, _) => Err(Error::Damaged("an element does not say how long it is")),
        }
    }

    /// Whether the tracks of this segment are those of the first one, so that it goes on in them.
    fn goes_on(&mut self) -> bool {
        let (Some(movie), Some(info), Some(tracks)) = (&mut self.movie, &self.info, &self.tracks) else {
            return true;
        };
        self.compared += 1;
        let is_few = self.compared <= SEGMENTS_MAX;
        let next = if is_few { Movie::read(self.header.clone(), info, tracks, self.text).ok() } else { None };
        let is_like =
            next.is_some_and(|next| next.time_base == movie.time_base && next.codings().eq(movie.codings()));
        let phrase = "a segment with other tracks than the first one";
        if !is_like && movie.left_out.iter().all(|one| one != phrase) {
            movie.left_out.push(phrase.to_owned());
        }
        is_like
    }

    /// Nothing more comes, so the last samples are all there.
    pub fn end(&mut self) -> Result<()> {
        self.movie.as_mut().map_or(Ok(()), Movie::end)
    }

    pub fn found(&self, source: &Source) -> Result<Found> {
        let missing = "the list of tracks";
        let movie = self.movie.as_ref().ok_or(Error::Truncated { bytes: source.bytes(), missing })?;
        movie.found()
    }
}

/// Whether an element may be below a segment.
fn is_of_segment(id: u32) -> bool {
    [id::SEGMENT, id::INFO, id::TRACKS, id::CLUSTER, id::VOID, id::CRC_32].contains(&id)
        || id::OTHERS.contains(&id)
}

/// Where a cluster begins behind damage: one that tells its time first.
fn next_cluster(source: &mut Source, from: u64, end: u64) -> Result<Option<u64>> {
    let begins = |source: &mut Source, at: u64| {
        let Some(cluster) = Element::read(source, at)?.filter(|cluster| cluster.start < end) else {
            return Ok(false);
        };
        let first = Element::read(source, cluster.content)?;
        Ok(first.is_some_and(|first| [id::TIMESTAMP, id::CRC_32, id::VOID].contains(&first.id)))
    };
    next_place(source, from, |bytes| memmem::find(bytes, &id::CLUSTER.to_be_bytes()), begins)
}

/// The EBML header with its bytes, and the segment after it.
fn first_segment(source: &mut Source) -> Result<(Vec<u8>, Element)> {
    let missing = "the header";
    let truncated = Error::Truncated { bytes: source.bytes(), missing };
    let Some(header) = Element::read(source, 0)? else { return Err(truncated) };
    let bytes = header.copy(source, HEADER_BYTES_MAX)?;
    let mut at = bytes.len() as u64;
    while let Some(element) = Element::read(source, at)? {
        match (element.id, element.size) {
            (id::SEGMENT, _) => return Ok((bytes, element)),
            (id::VOID | id::CRC_32, Size::Known(size)) => at = element.content.saturating_add(size),
            _ => return Err(Error::Damaged("its header cannot be read")),
        }
    }
    Err(truncated)
}

struct Movie {
    drafts: Vec<Draft>,
    left_out: Vec<String>,
    recorded_ns: Option<u64>,
    time_base: TimeBase,
    /// How long it is, if it says so.
    told_ns: Option<u64>,
    times: Times,
    /// That of the last cluster.
    cluster_time: Option<i64>,
    samples_left: u64,
}

impl Movie {
    /// What the header, and the elements with information and tracks, tell.
    fn read(header: Vec<u8>, info: &[u8], tracks: &[u8], text: Option<u8>) -> Result<Self> {
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
            told_ns: file.info().duration().and_then(|ticks| told_ns(ticks, scale_ns.get())),
            // There may be pauses of any length: pictures of which each is shown for minutes are not rare.
            times: Times::new(time_base.ticks(1_000_000_000).max(1), i64::MAX, None),
            cluster_time: None,
            samples_left: SAMPLES_MAX,
        };
        let mut is_encrypted = false;
        for track in file.tracks().iter().take(TRACKS_MAX) {
            let codec_id = plain(track.codec_id());
            let encodings = track.content_encodings().unwrap_or_default();
            let is_one_encrypted =
                encodings.iter().any(|one| matches!(one.encoding(), ContentEncodingValue::Encryption(_)));
            is_encrypted |= is_one_encrypted;
            let stripped = stripped(encodings);
            if is_one_encrypted || stripped.is_none() {
                let how = if is_one_encrypted { "encrypted" } else { "compressed by the container" };
                movie.left_out.push(format!("{codec_id} that is {how}"));
                continue;
            }
            match served(track, text).zip(stripped) {
                // Numbers have no first bytes in common.
                Some(((codec, format, Carriage::Whole), Some(begin))) => {
                    let carriage = Carriage::Stripped { begin: begin.to_vec() };
                    movie.drafts.push(movie.draft(track, (codec, format, carriage)));
                }
                Some((coding, None)) => movie.drafts.push(movie.draft(track, coding)),
                _ if is_text(track) && text.is_none() => movie.left_out.push(text::unasked(codec_id)),
                _ => {
                    let phrase = format!("{codec_id}, which is no codec that can be served");
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
        let told = track.language_bcp47().or(track.language()).map(plain);
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

    /// Which tracks there are.
    fn codings(&self) -> impl Iterator<Item = (u64, &Codec, Format)> {
        self.drafts.iter().map(|draft| (draft.number, &draft.codec, draft.format))
    }

    fn end(&mut self) -> Result<()> {
        for draft in &mut self.drafts {
            draft.settle(None, &mut self.samples_left)?;
            draft.order.end(&mut draft.builder, &mut self.samples_left)?;
        }
        Ok(())
    }

    fn found(&self) -> Result<Found> {
        let mut found =
            Found { left_out: self.left_out.clone(), recorded_ns: self.recorded_ns, ..Found::default() };
        for draft in &self.drafts {
            let Some(mut index) = draft.builder.clone().finish(draft.frame) else {
                found.waiting += 1;
                continue;
            };
            if let Codec::T140 { generations } = draft.codec {
                index = text::repeated(&index, self.time_base, generations)?.unwrap_or(index);
            }
            index.lead();
            index.shift(-draft.lead_in);
            let (codec, language) = (draft.codec.clone(), draft.language.clone());
            let track = Track::new(codec, draft.format, language, self.time_base, index);
            found.tracks.push(track.carried(draft.carriage.clone()).numbered(draft.number));
        }
        Ok(found)
    }
}

/// A duration in ticks of so many nanoseconds, if that can be one.
fn told_ns(ticks: f64, scale_ns: u64) -> Option<u64> {
    let ns = ticks * scale_ns as f64;
    (1.0..1e18).contains(&ns).then_some(ns as u64)
}

/// The first bytes of all frames, if they were taken out of them (RFC 9559, 5.1.4.1.31); `None` if something else was done to frames.
fn stripped(encodings: &[ContentEncoding]) -> Option<Option<&[u8]>> {
    const ONLY_FRAMES: u64 = 1;
    let [encoding] = encodings else { return encodings.is_empty().then_some(None) };
    let ContentEncodingValue::Compression(compression) = encoding.encoding() else { return None };
    let begin = compression.settings().unwrap_or_default();
    let is_stripped = compression.algo() == ContentCompAlgo::Stripping && encoding.scope() == ONLY_FRAMES;
    (is_stripped && begin.len() <= STRIPPED_BYTES_MAX).then_some(Some(begin))
}

/// How a track is coded, sent, and laid in its file.
type Coding = (Codec, Format, Carriage);

/// How a track is coded (RFC 9559; Matroska codec specifications), if that can be served.
fn served(track: &TrackEntry, text: Option<u8>) -> Option<Coding> {
    let private = track.codec_private();
    let channels = || u8::try_from(track.audio()?.channels().get()).ok();
    let rate = || track.audio().map(|audio| audio.sampling_frequency() as u32);
    let codec_id = plain(track.codec_id());
    let (codec, format) = match codec_id {
        "V_MPEG4/ISO/AVC" => {
            private.map_or_else(|| Some(parameter_sets::untold_h264()), parameter_sets::h264)?
        }
        "V_MPEGH/ISO/HEVC" => {
            private.map_or_else(|| Some(parameter_sets::untold_h265()), parameter_sets::h265)?
        }
        "V_VP8" => (Codec::Vp8, Format::Vp8),
        "V_VP9" => (Codec::Vp9 { profile: 0 }, Format::Vp9),
        "V_AV1" => parameter_sets::av1(private.unwrap_or_default()),
        "V_MPEG4/ISO/SP" | "V_MPEG4/ISO/ASP" | "V_MPEG4/ISO/AP" => {
            (Codec::Mpeg4 { config: private.unwrap_or_default().to_vec() }, Format::Mpeg4)
        }
        "V_MJPEG" => (Codec::Jpeg, Format::Jpeg),
        "V_MS/VFW/FOURCC" => windows::pictures(private?)?,
        name if name == "A_AAC" || name.starts_with("A_AAC/") => {
            let told = private.and_then(|config| sound::aac(config.to_vec()));
            let codec = told.or_else(|| sound::aac_of(aac_object(name), rate()?, channels()?))?;
            (codec, Format::Aac)
        }
        "A_OPUS" => sound::opus(channels()?, private.and_then(sound::opus_streams))?,
        "A_VORBIS" => vorbis::codec(private?)?,
        "A_AC3" => ac3::codec(false, rate()?, channels()?),
        "A_EAC3" => ac3::codec(true, rate()?, channels()?),
        "A_MPEG/L1" | "A_MPEG/L2" | "A_MPEG/L3" => (Codec::MpegAudio, Format::MpegAudio),
        "A_PCM/INT/LIT" | "A_PCM/INT/BIG" => {
            let bits = track.audio()?.bit_depth()?.get();
            return sound::pcm(bits, rate()?, channels()?, codec_id.ends_with("LIT"));
        }
        _ if is_text(track) => {
            let (codec, format) = text::coding(text?);
            return Some((codec, format, Carriage::Text { has_length: false }));
        }
        "A_MS/ACM" => return windows::sound(private?).ok(),
        _ => return None,
    };
    Some((codec, format, Carriage::Whole))
}

/// What a string says: zeros may follow it, as GStreamer writes them (RFC 8794, section 7.4).
fn plain(string: &str) -> &str {
    string.split('\0').next().unwrap_or_default()
}

fn is_text(track: &TrackEntry) -> bool {
    ["S_TEXT/UTF8", "S_TEXT/ASCII"].contains(&plain(track.codec_id()))
}

/// How AAC is coded by the old names of its codec, which have no configuration.
fn aac_object(name: &str) -> u8 {
    match name.split('/').nth(2) {
        Some("MAIN") => 1,
        Some("SSR") => 3,
        Some("LTP") => 4,
        // The decoder sees in the frames whether they have more (SBR).
        _ => 2,
    }
}
