//! MP4 and MOV (ISO/IEC 14496-12, QuickTime): tables of all samples in one place, or in front of each fragment.
//!
//! The tree of boxes is walked here, by slices and without recursion; what stands in a box is read by mp4-atom. Its own trees
//! would nest as deep as a hostile file likes, and one odd box would make all of a file unreadable.

mod boxes;
mod edits;
mod entry;
mod esds;
mod fragments;
mod table;

use forebay_rtsp::packetise::Format;
use mp4_atom::{Hdlr, Mdhd, Mvhd};

use crate::error::{Error, Result};
use crate::index::{Builder, samples_max};
use crate::media::{Found, Track};
use crate::source::Source;
use crate::time::TimeBase;
use boxes::{BoxAt, Boxes, decode, within};
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

/// A track while its samples are being found.
struct Draft {
    id: u32,
    time_base: TimeBase,
    language: Option<String>,
    entry: SampleEntry,
    /// What is presented of its samples, and when.
    edits: Edits,
    builder: Builder,
    last_step: Option<i64>,
}

pub(crate) fn read(source: &mut Source) -> Result<Found> {
    let mut samples_left = samples_max(source.bytes());
    let mut movie = None;
    let mut is_fragmented = false;
    let mut at = 0;
    // Fragments come after the tables that say what tracks there are.
    while let Some(found) = BoxAt::read(source, at)? {
        match &found.name {
            b"moov" if movie.is_none() => {
                movie =
                    Some(read_movie(&found.content(source, TABLES_BYTES_MAX)?, source, &mut samples_left)?);
            }
            b"moof" => {
                let movie = movie.as_mut().ok_or(Error::Damaged("a fragment comes before the tracks"))?;
                if found.end > source.bytes() {
                    // A recording that was cut off is good up to there.
                    break;
                }
                let content = found.content(source, TABLES_BYTES_MAX)?;
                fragments::read(movie, &content, found.start, source.bytes(), &mut samples_left)?;
                is_fragmented = true;
            }
            _ => {}
        }
        at = found.end;
    }
    let missing = "the table of samples (moov)";
    let mut movie = movie.ok_or(Error::Truncated { bytes: source.bytes(), missing })?;
    if is_fragmented {
        movie.drafts.iter_mut().for_each(|draft| draft.edits.last_to_the_end());
    }
    Ok(Found { is_final: !is_fragmented, ..movie.finish()? })
}

/// What there is in a movie box.
pub(super) struct Movie {
    drafts: Vec<Draft>,
    left_out: Vec<String>,
    recorded_ns: Option<u64>,
    defaults: Vec<mp4_atom::Trex>,
}

impl Movie {
    fn finish(self) -> Result<Found> {
        let Self { left_out, recorded_ns, .. } = self;
        let mut found = Found { left_out, recorded_ns, ..Found::default() };
        for draft in self.drafts {
            let index = draft.builder.finish(draft.last_step).map(|index| draft.edits.apply(index));
            let Some(mut index) = index.transpose()?.filter(|index| index.count() > 0) else {
                found.left_out.push(format!("{} without samples", draft.entry.name));
                continue;
            };
            index.lead();
            let SampleEntry { codec, format, carriage, .. } = draft.entry;
            let track = Track::new(codec, format, draft.language, draft.time_base, index);
            found.tracks.push(track.carried(carriage));
        }
        Ok(found)
    }
}

fn read_movie(movie: &[u8], source: &Source, samples_left: &mut u64) -> Result<Movie> {
    let header = find_in::<Mvhd>(movie, &[b"mvhd"]);
    let ticks = header.as_ref().map_or(0, |header| header.timescale);
    // Most writers leave the time at 0, which is long before 1970 too.
    let recorded_s = header.and_then(|header| header.creation_time.checked_sub(EPOCH_S));
    let recorded_ns = recorded_s.and_then(|seconds| seconds.checked_mul(1_000_000_000));
    let mut found = Movie { drafts: Vec::new(), left_out: Vec::new(), recorded_ns, defaults: Vec::new() };
    let extends = within(movie, &[b"mvex"]).unwrap_or_default();
    let defaults = Boxes(extends).filter(|one| &one.name == b"trex").take(TRACKS_MAX);
    found.defaults = defaults.filter_map(|one| decode(&one)).collect();
    let mut is_encrypted = false;
    for track in Boxes(movie).filter(|one| &one.name == b"trak").take(TRACKS_MAX) {
        match read_track(track.content, ticks, source.bytes(), samples_left)? {
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
    movie_ticks: u32,
    file_bytes: u64,
    samples_left: &mut u64,
) -> Result<Result<Draft, Unserved>> {
    let handler = find_in::<Hdlr>(track, &[b"mdia", b"hdlr"]);
    let is_handled_as = |name: &[u8; 4]| handler.as_ref().is_some_and(|one| one.handler == (*name).into());
    let is_sound = is_handled_as(b"soun");
    let is_played = is_sound || is_handled_as(b"vide");
    let table = within(track, &[b"mdia", b"minf", b"stbl"]).unwrap_or_default();
    let entry = within(table, &[b"stsd"]).and_then(entry::first);
    let Some(entry) = entry else {
        return Ok(Err(Unserved::Because("a track without description".to_owned())));
    };
    let entry = match entry.served() {
        Ok(entry) if is_played => entry,
        Ok(entry) => return Ok(Err(Unserved::Because(format!("{} that is not played", entry.name)))),
        Err(unserved) => return Ok(Err(unserved)),
    };
    let header =
        find_in::<Mdhd>(track, &[b"mdia", b"mdhd"]).ok_or(Error::Damaged("a track has no header"))?;
    let time_base = TimeBase::per_second(header.timescale)
        .ok_or(Error::Damaged("a track's time does not pass: its timescale is 0"))?;
    let list = find_in(track, &[b"edts", b"elst"]).unwrap_or_default();
    let edits = Edits::new(&list, movie_ticks, time_base, is_sound);
    let mut builder = Builder::default();
    let last_step = match entry.format {
        Format::Pcm { frame_bytes } => {
            let frames_max = header.timescale / BLOCKS_PER_SECOND;
            table::read_blocks(table, frame_bytes, frames_max, &mut builder, file_bytes, samples_left)?
        }
        _ => table::read(table, &mut builder, file_bytes, samples_left)?,
    };
    let language = Some(header.language).filter(|language| !language.is_empty() && language != "und");
    Ok(Ok(Draft { id: track_id(track), time_base, language, entry, edits, builder, last_step }))
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
