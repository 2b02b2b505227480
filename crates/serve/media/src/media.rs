use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::{self, Codec, Presentation};
use serde::{Deserialize, Serialize};

use crate::backwards::Backwards;
use crate::error::{Error, Result};
use crate::index::{Cursor, Entry, Index};
use crate::kind::{self, Kind};
use crate::ogg;
use crate::packing::Packing;
use crate::plan::Plan;
use crate::reading::Reading;
use crate::source::{ReadAt, Source};
use crate::time::TimeBase;

/// A file's tracks and where their samples lie. It holds no file open.
#[derive(Debug)]
pub struct Media {
    pub(crate) tracks: Vec<Track>,
    pub(crate) left_out: Vec<String>,
    pub(crate) recorded_ns: Option<u64>,
    pub(crate) is_final: bool,
}

/// What becomes of a transport stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Streams {
    /// Its streams are tracks. Where some of its pictures have no payload format, it is served as it is.
    #[default]
    AsTracks,
    /// The same, and subtitles are tracks, too.
    WithText {
        /// In how many packets after its own a text is repeated.
        generations: u8,
    },
    /// All of it is one track.
    AsTheyAre,
}

impl Streams {
    /// In how many packets texts are repeated, where they are tracks.
    pub(crate) fn text(self) -> Option<u8> {
        match self {
            Self::WithText { generations } => Some(generations),
            Self::AsTracks | Self::AsTheyAre => None,
        }
    }
}

/// A track that can be served.
#[derive(Debug)]
pub struct Track {
    /// How it is coded, with what a decoder needs before the first sample.
    pub codec: Codec,
    /// How its samples become RTP payloads.
    pub format: Format,
    /// Its language, as the file has it: ISO 639-2 or BCP 47; `None` if it is not told.
    pub language: Option<String>,
    time_base: TimeBase,
    index: Index,
    carriage: Carriage,
    /// What its container calls it.
    number: u64,
}

/// How the samples of a track lie in their file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Carriage {
    /// Each as it is sent.
    #[default]
    Whole,
    /// With values whose lowest byte comes first.
    Reversed {
        /// The bytes of a value.
        bytes: u8,
    },
    /// Each as it is sent, but for key frames, which are sent behind parameter sets.
    Described {
        /// The sets of each description.
        sets: Vec<Vec<u8>>,
        /// From where in the file on samples have which description, in the order of the file.
        places: Vec<(u64, u16)>,
    },
    /// Each without its first bytes, which all of them have.
    Stripped {
        /// Those bytes.
        begin: Vec<u8>,
    },
    /// In packets of a transport stream, with those of others between them.
    Packets {
        /// Which packets.
        pid: u16,
        /// From where in the file on it is others, in the order of the file.
        moved: Vec<(u64, u16)>,
        /// From one packet to the next.
        stride: u8,
        /// Where packets begin that follow each other at that distance, in the order of the file. All tracks of a file have
        /// the same ones.
        #[serde(skip)]
        runs: Arc<[u64]>,
    },
    /// Text, of which those where decoding cannot begin are repeats.
    Text {
        /// Whether its length comes first, and other things after it.
        has_length: bool,
    },
    /// In pages of Ogg, with headers and pages of others between them.
    Pages {
        /// From where in the file on it is which pages, in the order of the file.
        serials: Vec<(u64, u32)>,
        /// Where pages begin that come amid a packet of any track.
        #[serde(skip)]
        runs: Arc<[u64]>,
    },
}

impl Carriage {
    pub fn runs(&self) -> Option<&[u64]> {
        match self {
            Self::Packets { runs, .. } | Self::Pages { runs, .. } => Some(runs),
            Self::Whole
            | Self::Reversed { .. }
            | Self::Described { .. }
            | Self::Stripped { .. }
            | Self::Text { .. } => None,
        }
    }

    pub fn with_runs(self, runs: &Arc<[u64]>) -> Self {
        match self {
            Self::Packets { pid, moved, stride, .. } => {
                Self::Packets { pid, moved, stride, runs: runs.clone() }
            }
            Self::Pages { serials, .. } => Self::Pages { serials, runs: runs.clone() },
            other => other,
        }
    }
}

impl Media {
    /// Reads what a file tells of its samples. Where it has no tables (raw streams, transport streams, Matroska), that takes
    /// a pass through all of it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::read(&File::open(path)?)
    }

    /// The same of a file that is open, or of anything else that can be read from any place.
    pub fn read(file: &dyn ReadAt) -> Result<Self> {
        Self::read_as(file, Streams::AsTracks)
    }

    /// The same, with a choice for transport streams.
    pub fn read_as(file: &dyn ReadAt, streams: Streams) -> Result<Self> {
        Reading::begin(file, streams)?.end(file)
    }

    pub(crate) fn new(found: Found) -> Result<Self> {
        let begin_ns = found.begin_ns();
        Self::begun_at(found, begin_ns)
    }

    /// With the time of the container that is the beginning. All that starts late starts at 0; what comes before 0 is there to be
    /// decoded only.
    pub(crate) fn begun_at(found: Found, begin_ns: i64) -> Result<Self> {
        let Found { mut tracks, left_out, recorded_ns, is_final, .. } = found;
        if tracks.is_empty() {
            return Err(Error::NothingToServe(left_out));
        }
        if begin_ns > 0 {
            tracks.iter_mut().for_each(|track| track.index.shift(-track.time_base.ticks(begin_ns)));
        }
        Ok(Self { tracks, left_out, recorded_ns, is_final })
    }

    /// The tracks that can be served, in the order of the file; at least one.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// What else there is in the file, and why it is not served: a phrase each.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether it takes a pass through all of a file to know its samples, which its first bytes tell.
    pub fn takes_a_pass(file: &dyn ReadAt) -> Result<bool> {
        Ok(!matches!(kind::of(&mut Source::new(file)?)?, Kind::Mp4 | Kind::Wav))
    }

    /// Whether a longer file may be the same one, with more samples. Other kinds of files are written anew.
    pub fn may_grow(&self) -> bool {
        !self.is_final
    }

    /// Places where a file that only grew, or was only touched, has the same bytes as before: of the first sample of each track,
    /// and of one of the last.
    pub fn landmarks(&self) -> Vec<Range<u64>> {
        let of_track = |track: &Track| {
            [Cursor::default(), track.cursor_at(i64::MAX)].map(|mut cursor| {
                track.index.next(&mut cursor).map(|entry| entry.at..entry.at + u64::from(entry.bytes))
            })
        };
        self.tracks.iter().flat_map(of_track).flatten().collect()
    }

    /// When it was recorded, since 1 January 1970, as far as it says so.
    pub fn recorded_ns(&self) -> Option<u64> {
        self.recorded_ns
    }

    /// How long it is, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.tracks.iter().map(Track::end_ns).max().unwrap_or_default().max(0) as u64
    }

    /// Whether each track has a sample that is decoded at a position or later, so that a longer index of the file has no more samples
    /// before it.
    pub fn has_all_before(&self, position_ns: u64) -> bool {
        let reaches = |track: &Track| {
            let last_ns = track.index.last_decode().map(|decode| track.time_base.nanoseconds(decode));
            last_ns.is_some_and(|last_ns| u64::try_from(last_ns).is_ok_and(|last_ns| last_ns >= position_ns))
        };
        self.tracks.iter().all(reaches)
    }

    /// What a client is told of it. `version` is another one whenever the file is.
    pub fn presentation(&self, title: String, version: u64) -> Presentation {
        let tracks = self.tracks.iter().map(|track| presentation::Track {
            codec: track.codec.clone(),
            bits_per_second: track.bits_per_second(),
        });
        Presentation {
            title,
            version,
            tracks: tracks.collect(),
            duration_ns: Some(self.duration_ns()),
            recorded_ns: self.recorded_ns,
            is_seekable: true,
        }
    }

    /// Where playing can begin for a client that asks for `position_ns`: the last key frame of the pictures at that time or
    /// before; without pictures, the last sample of the first track. Where pictures begin later, it is `position_ns`: there may
    /// be sound before them.
    pub fn seek(&self, tracks: &[usize], position_ns: u64) -> u64 {
        let Some((track, entry)) = self.leading(tracks, position_ns) else { return position_ns };
        let at_ns = track.time_base.nanoseconds(entry.presentation).max(0) as u64;
        at_ns.min(position_ns)
    }

    /// When that is decoded. What is decoded before it, of a plan from there, is only there for decoders to begin with.
    pub fn begin_ns(&self, tracks: &[usize], position_ns: u64) -> i64 {
        let leading = self.leading(tracks, position_ns);
        let position_ns = i64::try_from(position_ns).unwrap_or(i64::MAX);
        leading
            .map_or(position_ns, |(track, entry)| track.time_base.nanoseconds(entry.decode).min(position_ns))
    }

    /// The track of pictures, or the first one, and its last sample at that time or before that decoding can begin at.
    fn leading(&self, tracks: &[usize], position_ns: u64) -> Option<(&Track, Entry)> {
        let chosen = || tracks.iter().filter_map(|track| self.tracks.get(*track));
        let is_heard = |track: &&Track| !track.codec.is_text();
        let track =
            chosen().find(|track| track.has_groups()).or(chosen().find(is_heard)).or(chosen().next())?;
        let mut cursor = track.cursor_at(i64::try_from(position_ns).unwrap_or(i64::MAX));
        track.index.next(&mut cursor).map(|entry| (track, entry))
    }

    /// What is to be sent of `tracks` from `position_ns` on to a decoder that begins there. Each track begins with the last sample at
    /// that time or before that decoding can begin at; so all begin together if [`Media::seek`] gave the position. Before that comes
    /// the sound that a decoder has to be given for the first that is heard to be right.
    pub fn plan(self: &Arc<Self>, tracks: &[usize], position_ns: u64) -> Plan {
        Plan::new(self.clone(), tracks, position_ns, true)
    }

    /// The same to a decoder that has had what comes before.
    pub fn plan_on(self: &Arc<Self>, tracks: &[usize], position_ns: u64) -> Plan {
        Plan::new(self.clone(), tracks, position_ns, false)
    }

    /// The same backwards from `position_ns`, by groups of pictures.
    pub fn backwards(self: &Arc<Self>, tracks: &[usize], position_ns: u64) -> Backwards {
        Backwards::new(self.clone(), tracks, position_ns)
    }
}

impl Track {
    pub(crate) fn new(
        codec: Codec,
        format: Format,
        language: Option<String>,
        time_base: TimeBase,
        index: Index,
    ) -> Self {
        Self { codec, format, language, time_base, index, carriage: Carriage::default(), number: 0 }
    }

    pub(crate) fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn carried(self, carriage: Carriage) -> Self {
        Self { carriage, ..self }
    }

    pub(crate) fn carriage(&self) -> &Carriage {
        &self.carriage
    }

    /// What is to be read of the file for a sample, and what is to be done with that before it is sent.
    pub fn packed(&self, entry: &Entry) -> (Range<u64>, Packing) {
        let end = entry.at + u64::from(entry.bytes);
        // What is before the sample makes room. At the beginning of a file there are its first boxes or elements.
        if let Some(first) = self.sent_before(entry)
            && let Some(begin) = entry.at.checked_sub(first.len() as u64)
        {
            return (begin..end, Packing::After { first: first.into() });
        }
        let packing = match self.carriage {
            Carriage::Text { has_length } if entry.is_sync => Packing::Text { has_length },
            Carriage::Text { .. } => Packing::Nothing,
            _ => self.packing(entry.at),
        };
        (entry.at..end, packing)
    }

    /// What is sent before what the file has of a sample.
    fn sent_before(&self, entry: &Entry) -> Option<&[u8]> {
        match &self.carriage {
            Carriage::Stripped { begin } => Some(begin),
            Carriage::Described { sets, places } if entry.is_sync => {
                let (_, number) = places[..places.partition_point(|place| place.0 <= entry.at)].last()?;
                sets.get(usize::from(*number)).map(Vec::as_slice)
            }
            _ => None,
        }
    }

    /// What is to be done with a sample that begins at `at` before it is sent.
    fn packing(&self, at: u64) -> Packing {
        match &self.carriage {
            Carriage::Whole
            | Carriage::Described { .. }
            | Carriage::Stripped { .. }
            | Carriage::Text { .. } => Packing::Plain,
            Carriage::Reversed { bytes } => Packing::Reversed { bytes: *bytes },
            Carriage::Packets { pid, moved, stride, runs } => {
                let moves = moved.partition_point(|(from, _)| *from <= at);
                let pid = moved[..moves].last().map_or(*pid, |(_, pid)| *pid);
                let run = runs[..runs.partition_point(|run| *run <= at)].last().copied().unwrap_or(at);
                let first = u64::from(*stride) - (at - run) % u64::from((*stride).max(1));
                Packing::Packets { pid, stride: *stride, first: first as u8 }
            }
            Carriage::Pages { serials, runs } => ogg::packing(serials, runs, at),
        }
    }

    /// Whether some of its samples need others.
    pub fn has_groups(&self) -> bool {
        !self.index.is_all_sync() && !self.codec.is_text()
    }

    /// What the times of its index count.
    pub fn time_base(&self) -> TimeBase {
        self.time_base
    }

    /// Its samples.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Its mean rate; `None` if it takes no time.
    pub fn bits_per_second(&self) -> Option<u64> {
        let ns = u128::try_from(self.end_ns().checked_sub(self.begin_ns())?).ok().filter(|ns| *ns > 0)?;
        u64::try_from(u128::from(self.index.payload_bytes()) * 8 * 1_000_000_000 / ns).ok()
    }

    /// When it begins, in nanoseconds of the presentation; negative if it has samples that are only there to be decoded.
    pub fn begin_ns(&self) -> i64 {
        self.time_base.nanoseconds(self.index.begin())
    }

    /// When it ends.
    pub fn end_ns(&self) -> i64 {
        self.time_base.nanoseconds(self.index.end())
    }

    /// Its last sample, of those that decoding can begin at, at a time or before; the first if there is none.
    pub(crate) fn cursor_at(&self, position_ns: i64) -> Cursor {
        self.index.sync_at(self.time_base.ticks(position_ns))
    }
}

/// What a container has.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub tracks: Vec<Track>,
    pub left_out: Vec<String>,
    /// When it was recorded, since 1 January 1970, if it says so.
    pub recorded_ns: Option<u64>,
    /// What tells of its samples tells of all there will ever be.
    pub is_final: bool,
    /// How many tracks have no sample yet.
    pub waiting: usize,
}

impl Found {
    /// How long the longest track is.
    pub fn duration_ns(&self) -> u64 {
        let lasts = self.tracks.iter().map(|track| track.end_ns().saturating_sub(track.begin_ns()));
        lasts.max().unwrap_or_default().max(0) as u64
    }

    /// When the first track begins; 0 if that is before 0.
    pub fn begin_ns(&self) -> i64 {
        self.tracks.iter().map(Track::begin_ns).min().unwrap_or_default().max(0)
    }
}
