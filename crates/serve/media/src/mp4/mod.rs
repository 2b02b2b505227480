//! MP4 and MOV (ISO/IEC 14496-12, QuickTime): tables of all samples in one place, or in front of each fragment.
//!
//! The tree of boxes is walked here, by slices and without recursion; what stands in a box is read by mp4-atom. Its own trees
//! would nest as deep as a hostile file likes, and one odd box would make all of a file unreadable.

mod boxes;
mod descriptions;
mod edits;
mod entry;
mod esds;
mod fragments;
mod table;

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;
use mp4_atom::{Mdhd, Mvhd};

use crate::error::{Error, Result};
use crate::index::{Builder, samples_max};
use crate::joints::Times;
use crate::media::{Found, Track};
use crate::sound;
use crate::source::Source;
use crate::text;
use crate::time::TimeBase;
use boxes::{BoxAt, Boxes, decode, within};
use descriptions::Served;
use edits::Edits;
use entry::SampleEntry;

/// The tables of a day of film have less.
const TABLES_BYTES_MAX: u64 = 128 << 20;

/// More than any film has; each costs a search here and there.
const TRACKS_MAX: usize = 64;

/// How much sound without compression is one sample.
const BLOCKS_PER_SECOND: u32 = 50;

/// From 1904, where times of files begin, to 1970.
const EPOCH_S: u64 = 2_082_844_800;

/// Times of fragments: nanoseconds, of which a step ahead is no joint.
fn fragment_times() -> Times {
    Times::new(1_000_000_000, i64::MAX, None)
}

/// A track while its samples are being found.
struct Draft {
    id: u32,
    time_base: TimeBase,
    language: Option<String>,
    entry: SampleEntry,
    served: Served,
    /// What is presented of its samples, and when.
    edits: Edits,
    builder: Builder,
    last_step: Option<i64>,
    /// When the next sample is decoded, unless its fragment says so.
    next_decode: i64,
    /// Whether the fragments that follow are of another recording, which is coded otherwise.
    is_apart: bool,
}

impl Draft {
    /// Whether samples of a track of another recording may follow.
    fn goes_on_in(&self, other: &Self) -> bool {
        let coding = |draft: &Self| (draft.entry.codec.clone(), draft.entry.format, draft.time_base);
        coding(self) == coding(other) && self.served.is_alike(&other.served)
    }

    /// A fragment says when it begins. Where recordings were joined, that is after what is there.
    fn begin_fragment(&mut self, told: i64, times: &mut Times) {
        let told_ns = self.time_base.nanoseconds(told);
        let before_ns =
            (!self.builder.is_empty()).then(|| self.time_base.nanoseconds(self.builder.last_decode()));
        let begin_ns = times.go_on(told_ns, before_ns);
        let begin = if begin_ns == told_ns { told } else { self.time_base.ticks(begin_ns) };
        // Nanoseconds are rounded to ticks.
        let is_expected = begin_ns != told_ns && begin.abs_diff(self.next_decode) <= 1;
        self.next_decode = if is_expected { self.next_decode } else { begin };
    }
}

/// The pass from box to box of a file.
pub(crate) struct Pass {
    movie: Option<Movie>,
    is_fragmented: bool,
    is_closed: bool,
    /// As many as a file of that size may have, and those that are left of them.
    samples_max: u64,
    samples_left: u64,
    /// Where the file begins that was put after others.
    origin: u64,
    at: u64,
    /// In how many packets texts are repeated, where they are tracks.
    text: Option<u8>,
}

impl Pass {
    pub fn new(source: &Source, text: Option<u8>) -> Self {
        let samples_max = samples_max(source.bytes());
        let samples_left = samples_max;
        let (is_fragmented, is_closed) = (false, false);
        Self { movie: None, is_fragmented, is_closed, samples_max, samples_left, origin: 0, at: 0, text }
    }

    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether there is nothing to wait for: the table that a file has in the end is there, or what comes is of use only with it.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Reads on up to a place; returns whether the file has ended before. Fragments come after the tables that say what tracks
    /// there are.
    pub fn go_on(&mut self, source: &mut Source, until: u64) -> Result<bool> {
        let samples_max = samples_max(source.bytes()).max(self.samples_max);
        self.samples_left += samples_max - std::mem::replace(&mut self.samples_max, samples_max);
        while self.at < until {
            let Some(found) = BoxAt::read(source, self.at)? else { return Ok(true) };
            let is_whole = match &found.name {
                b"moof" => has_data(source, &found)?,
                b"moov" | b"mfra" => found.end <= source.bytes(),
                _ => true,
            };
            if !is_whole {
                return Ok(true);
            }
            self.take(source, &found)?;
            self.at = found.end;
        }
        Ok(false)
    }

    fn take(&mut self, source: &mut Source, found: &BoxAt) -> Result<()> {
        match &found.name {
            b"moov" if self.movie.is_none() => {
                let content = found.content(source, TABLES_BYTES_MAX)?;
                self.is_closed = within(&content, &[b"mvex"]).is_none();
                self.movie = Some(read_movie(&content, source, self.text, &mut self.samples_left)?);
            }
            b"ftyp" => self.origin = found.start,
            // Another recording was put after this one.
            b"moov" if self.is_fragmented => {
                let content = found.content(source, TABLES_BYTES_MAX)?;
                let next = read_movie(&content, source, self.text, &mut self.samples_left)?;
                if let Some(movie) = &mut self.movie {
                    movie.join(next, self.origin);
                }
            }
            b"moof" => {
                let movie =
                    self.movie.as_mut().ok_or(Error::Damaged("a fragment comes before the tracks"))?;
                let content = found.content(source, TABLES_BYTES_MAX)?;
                fragments::read(movie, &content, found.start, source.bytes(), &mut self.samples_left)?;
                self.is_fragmented = true;
            }
            // Without tables before it, all of it is written before there are any.
            b"mdat" if self.movie.is_none() => self.is_closed = true,
            b"mfra" => self.is_closed = true,
            _ => {}
        }
        Ok(())
    }

    /// Nothing more comes: a recording that was cut off is good up to there.
    pub fn end(&mut self, source: &mut Source) -> Result<()> {
        match BoxAt::read(source, self.at)?.filter(|found| found.end <= source.bytes()) {
            Some(found) => self.take(source, &found),
            None => Ok(()),
        }
    }

    pub fn found(&self, source: &Source) -> Result<Found> {
        let missing = "the table of samples (moov)";
        let movie = self.movie.as_ref().ok_or(Error::Truncated { bytes: source.bytes(), missing })?;
        Ok(Found { is_final: !self.is_fragmented, ..movie.found(self.is_fragmented)? })
    }
}

/// Whether all of a fragment is there, with the data behind it.
fn has_data(source: &mut Source, fragment: &BoxAt) -> Result<bool> {
    let data = BoxAt::read(source, fragment.end)?;
    Ok(data.is_some_and(|data| &data.name != b"mdat" || data.end <= source.bytes()))
}

/// What there is in a movie box.
pub(super) struct Movie {
    drafts: Vec<Draft>,
    left_out: Vec<String>,
    recorded_ns: Option<u64>,
    defaults: Vec<mp4_atom::Trex>,
    /// The times of its fragments, which go on where recordings were joined, and where the last of those begins.
    times: Times,
    origin: u64,
    /// Whether a recording was joined that has more than can be served with this one.
    has_more: bool,
}

impl Movie {
    /// Fragments that follow are of another recording, which begins at a place of the file.
    fn join(&mut self, next: Self, origin: u64) {
        (self.defaults, self.origin) = (next.defaults, origin);
        for draft in &mut self.drafts {
            let same = next.drafts.iter().find(|other| other.id == draft.id);
            let is_alike = same.is_some_and(|other| draft.goes_on_in(other));
            draft.is_apart = same.is_some() && !is_alike;
        }
        let is_known =
            |other: &Draft| self.drafts.iter().any(|draft| draft.id == other.id && !draft.is_apart);
        self.has_more |= next.drafts.iter().any(|other| !is_known(other) || !other.builder.is_empty());
    }

    fn found(&self, is_fragmented: bool) -> Result<Found> {
        let (left_out, recorded_ns) = (self.left_out.clone(), self.recorded_ns);
        let mut found = Found { left_out, recorded_ns, ..Found::default() };
        if self.has_more {
            found
                .left_out
                .push("samples of a recording that was joined to this one and is unlike it".to_owned());
        }
        for draft in &self.drafts {
            if draft.served.has_others {
                found
                    .left_out
                    .push(format!("samples that are coded otherwise than most of {}", draft.entry.name));
            }
            let mut edits = draft.edits.clone();
            if is_fragmented {
                edits.last_to_the_end();
            }
            let index = draft.builder.clone().finish(draft.last_step).map(|index| edits.apply(index));
            let mut index = index.transpose()?.filter(|index| index.count() > 0);
            if let (Some(texts), Codec::T140 { generations }) = (&index, &draft.entry.codec) {
                index = text::repeated(texts, draft.time_base, *generations)?;
            }
            let Some(mut index) = index else {
                found.waiting += 1;
                found.left_out.push(format!("{} without samples", draft.entry.name));
                continue;
            };
            index.lead();
            let SampleEntry { codec, format, carriage, .. } = draft.entry.clone();
            let carriage = draft.served.carriage(&carriage);
            let track = Track::new(codec, format, draft.language.clone(), draft.time_base, index);
            found.tracks.push(track.carried(carriage).numbered(draft.id.into()));
        }
        Ok(found)
    }
}

fn read_movie(movie: &[u8], source: &Source, text: Option<u8>, samples_left: &mut u64) -> Result<Movie> {
    let header = find_in::<Mvhd>(movie, &[b"mvhd"]);
    let ticks = header.as_ref().map_or(0, |header| header.timescale);
    // Most writers leave the time at 0, which is long before 1970 too.
    let recorded_s = header.and_then(|header| header.creation_time.checked_sub(EPOCH_S));
    let recorded_ns = recorded_s.and_then(|seconds| seconds.checked_mul(1_000_000_000));
    let mut found = Movie {
        drafts: Vec::new(),
        left_out: Vec::new(),
        recorded_ns,
        defaults: Vec::new(),
        times: fragment_times(),
        origin: 0,
        has_more: false,
    };
    let extends = within(movie, &[b"mvex"]).unwrap_or_default();
    let defaults = Boxes(extends).filter(|one| &one.name == b"trex").take(TRACKS_MAX);
    found.defaults = defaults.filter_map(|one| decode(&one)).collect();
    let mut is_encrypted = false;
    for track in Boxes(movie).filter(|one| &one.name == b"trak").take(TRACKS_MAX) {
        match read_track(track.content, &found.defaults, ticks, source.bytes(), text, samples_left)? {
            Ok(draft) => found.drafts.push(draft),
            Err(Unserved::Encrypted) => is_encrypted = true,
            Err(Unserved::Because(phrase)) => found.left_out.push(phrase),
        }
    }
    if found.drafts.is_empty() && is_encrypted {
        return Err(Error::Encrypted);
    }
    if is_encrypted {
        found.left_out.push("an encrypted track".to_owned());
    }
    Ok(found)
}

/// Why a track is not served.
enum Unserved {
    Encrypted,
    Because(String),
}

fn read_track(
    track: &[u8],
    defaults: &[mp4_atom::Trex],
    movie_ticks: u32,
    file_bytes: u64,
    text: Option<u8>,
    samples_left: &mut u64,
) -> Result<Result<Draft, Unserved>> {
    // A name follows, in any coding (8.4.3), which mp4-atom wants to be UTF-8.
    let handler = within(track, &[b"mdia", b"hdlr"]).and_then(|handler| handler.get(8..12));
    let is_handled_as = |name: &[u8; 4]| handler == Some(name);
    let is_sound = is_handled_as(b"soun");
    let is_played = is_sound || is_handled_as(b"vide");
    let table = within(track, &[b"mdia", b"minf", b"stbl"]).unwrap_or_default();
    let id = track_id(track);
    let default =
        || defaults.iter().find(|one| one.track_id == id).map(|one| one.default_sample_description_index);
    let most = table::description_of_most(table).or_else(default).unwrap_or(1);
    let entry = within(table, &[b"stsd"]).and_then(|descriptions| descriptions::most(descriptions, most));
    let Some((entry, mut served)) = entry else {
        return Ok(Err(Unserved::Because("a track without description".to_owned())));
    };
    let entry = match (entry, text) {
        (Ok(entry), Some(generations)) if entry.codec.is_text() => {
            let (codec, format) = text::coding(generations);
            SampleEntry { codec, format, ..entry }
        }
        (Ok(entry), None) if entry.codec.is_text() => {
            return Ok(Err(Unserved::Because(text::unasked(&entry.name))));
        }
        (Ok(entry), _) if is_played => entry,
        (Ok(entry), _) => return Ok(Err(Unserved::Because(format!("{} that is not played", entry.name)))),
        (Err(unserved), _) => return Ok(Err(unserved)),
    };
    let header =
        find_in::<Mdhd>(track, &[b"mdia", b"mdhd"]).ok_or(Error::Damaged("a track has no header"))?;
    let time_base = TimeBase::per_second(header.timescale)
        .ok_or(Error::Damaged("a track's time does not pass: its timescale is 0"))?;
    let list = find_in(track, &[b"edts", b"elst"]).unwrap_or_default();
    let roll_ns = is_sound.then(|| sound::roll_ns(&entry.codec));
    let edits = Edits::new(&list, movie_ticks, time_base, roll_ns);
    let mut builder = Builder::default();
    let last_step = match entry.format {
        Format::Pcm { frame_bytes } => {
            let frames_max = header.timescale / BLOCKS_PER_SECOND;
            table::read_blocks(
                table,
                frame_bytes,
                frames_max,
                &mut served,
                &mut builder,
                file_bytes,
                samples_left,
            )?
        }
        _ => table::read(table, &mut served, &mut builder, file_bytes, samples_left)?,
    };
    let language = Some(header.language).filter(|language| !language.is_empty() && language != "und");
    let next_decode =
        if builder.is_empty() { 0 } else { builder.last_decode().saturating_add(last_step.unwrap_or(0)) };
    Ok(Ok(Draft {
        id,
        time_base,
        language,
        entry,
        served,
        edits,
        builder,
        last_step,
        next_decode,
        is_apart: false,
    }))
}

/// The first bytes of a track header (8.3.2), where mp4-atom wants all of it.
fn track_id(track: &[u8]) -> u32 {
    let header = within(track, &[b"tkhd"]).unwrap_or_default();
    let at = if header.first() == Some(&1) { 20 } else { 12 };
    header.get(at..at + 4).map_or(0, |id| u32::from_be_bytes([id[0], id[1], id[2], id[3]]))
}

fn find_in<A: mp4_atom::Atom>(content: &[u8], path: &[&[u8; 4]]) -> Option<A> {
    mp4_atom::Atom::decode_body(&mut within(content, path)?).ok()
}
