//! The samples of a segment: from one cut of the film to the next.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use forebay_rtsp::replay::Frames;
use forebay_streaming::playlist::Playlist;
use forebay_streaming::program::{Choice, Planned, Program};

/// Samples within which each track has its first one. A track that begins later has none in this segment.
const FIRST_WITHIN: usize = 4096;

/// Where a track is in its program: files follow each other, and samples in a file.
type Place = (usize, i64);

/// The samples of a segment, in the order in which they are sent.
#[derive(Clone, Debug)]
pub struct Segment {
    program: Program,
    /// By the numbers of the chosen tracks: the first sample of the next segment.
    ends: Vec<Option<Place>>,
    /// Where the next segment begins; `None` for the last one.
    until_ns: Option<i64>,
    is_over: Vec<bool>,
    /// When samples are decoded that are wanted of it.
    within: Range<i64>,
}

/// The first sample of each of so many tracks.
fn first_places(samples: impl Iterator<Item = Planned>, tracks: usize) -> Vec<Option<Place>> {
    let mut firsts = vec![None; tracks];
    for planned in samples.take(FIRST_WITHIN) {
        firsts[usize::from(planned.sender)].get_or_insert((planned.file, planned.decode_ns));
        if firsts.iter().all(Option::is_some) {
            break;
        }
    }
    firsts
}

/// The first sample of each track from a cut on.
fn firsts(playlist: &Arc<Playlist>, tracks: &[usize], cut_ns: u64) -> Vec<Option<Place>> {
    first_places(program(playlist, tracks, cut_ns), tracks.len())
}

/// The earliest time at which a sample of the film is decoded.
pub(crate) fn first_decode_ns(playlist: &Arc<Playlist>, tracks: &[usize], cut_ns: u64) -> i64 {
    let firsts = firsts(playlist, tracks, cut_ns).into_iter().flatten();
    firsts.map(|(_, decode_ns)| decode_ns).min().unwrap_or(0)
}

/// All samples of tracks from a cut on.
pub(crate) fn program(playlist: &Arc<Playlist>, tracks: &[usize], from_ns: u64) -> Program {
    // Browsers take the first sound that they get for the beginning. Only what a file has before its own is known to be left out.
    let is_beginning = from_ns == 0;
    let choice = Choice { tracks: tracks.to_vec(), until_ns: None, frames: Frames::All, is_beginning };
    playlist.program(choice, from_ns)
}

impl Segment {
    pub(crate) fn new(
        playlist: &Arc<Playlist>,
        tracks: &[usize],
        from_ns: u64,
        until_ns: Option<u64>,
    ) -> Self {
        let ends = match until_ns {
            Some(until_ns) => firsts(playlist, tracks, until_ns),
            None => vec![None; tracks.len()],
        };
        Self {
            program: program(playlist, tracks, from_ns),
            ends,
            until_ns: until_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)),
            is_over: vec![false; tracks.len()],
            within: i64::MIN..i64::MAX,
        }
    }

    /// Only the samples that are decoded then.
    pub(crate) fn within(mut self, within: Range<i64>) -> Self {
        if within.end < i64::MAX {
            self.within = within.end..i64::MAX;
            let after = first_places(self.clone(), self.ends.len());
            self.ends.iter_mut().zip(after).for_each(|(end, first)| *end = first.or(*end));
        }
        Self { within, ..self }
    }

    /// For each track, when the sample after those that were taken is decoded, as far as that is known.
    pub fn next_decodes(rest: &Peekable<Self>, ends: &[Option<i64>]) -> Vec<Option<i64>> {
        let next = first_places(rest.clone(), ends.len()).into_iter();
        next.zip(ends).map(|(next, end)| next.map(|(_, decode_ns)| decode_ns).or(*end)).collect()
    }

    /// When each track goes on in the next segment.
    pub fn end_decodes(&self) -> Vec<Option<i64>> {
        self.ends.iter().map(|end| end.map(|(_, decode_ns)| decode_ns)).collect()
    }
}

impl Iterator for Segment {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        loop {
            if self.is_over.iter().all(|is_over| *is_over) {
                return None;
            }
            let planned = self.program.next()?;
            // Samples come in the order of decoding: after this one there are none that come before the cut.
            let is_after = self.until_ns.is_some_and(|until_ns| planned.decode_ns > until_ns);
            if is_after || planned.decode_ns >= self.within.end {
                self.is_over.fill(true);
                return None;
            }
            let sender = usize::from(planned.sender);
            let is_beyond = self.ends[sender].is_some_and(|end| (planned.file, planned.decode_ns) >= end);
            self.is_over[sender] |= is_beyond;
            if !self.is_over[sender] && planned.decode_ns >= self.within.start {
                return Some(planned);
            }
        }
    }
}
