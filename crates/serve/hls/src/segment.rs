//! The samples of a segment: from one cut of the film to the next.

use std::iter::Peekable;
use std::sync::Arc;

use forebay_rtsp::replay::Frames;
use forebay_streaming::program::{Choice, Planned, Playlist, Program};

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
}

/// The first sample of each track from a cut on.
fn firsts(playlist: &Arc<Playlist>, tracks: &[usize], cut_ns: u64) -> Vec<Option<Place>> {
    let mut firsts = vec![None; tracks.len()];
    for planned in program(playlist, tracks, cut_ns).take(FIRST_WITHIN) {
        firsts[usize::from(planned.sender)].get_or_insert((planned.file, planned.decode_ns));
        if firsts.iter().all(Option::is_some) {
            break;
        }
    }
    firsts
}

/// The earliest time at which a sample of the film is decoded.
pub(crate) fn first_decode_ns(playlist: &Arc<Playlist>, tracks: &[usize], cut_ns: u64) -> i64 {
    let firsts = firsts(playlist, tracks, cut_ns).into_iter().flatten();
    firsts.map(|(_, decode_ns)| decode_ns).min().unwrap_or(0)
}

fn program(playlist: &Arc<Playlist>, tracks: &[usize], from_ns: u64) -> Program {
    playlist.program(Choice { tracks: tracks.to_vec(), until_ns: None, frames: Frames::All }, from_ns)
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
        }
    }

    /// For each track, when the sample after those that were taken is decoded, as far as that is known.
    pub fn next_decodes(rest: &Peekable<Self>, ends: &[Option<i64>]) -> Vec<Option<i64>> {
        let mut next = vec![None; ends.len()];
        for planned in rest.clone().take(FIRST_WITHIN) {
            next[usize::from(planned.sender)].get_or_insert(planned.decode_ns);
            if next.iter().all(Option::is_some) {
                break;
            }
        }
        next.into_iter().zip(ends).map(|(next, end)| next.or(*end)).collect()
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
            if self.until_ns.is_some_and(|until_ns| planned.decode_ns > until_ns) {
                self.is_over.fill(true);
                return None;
            }
            let sender = usize::from(planned.sender);
            let is_beyond = self.ends[sender].is_some_and(|end| (planned.file, planned.decode_ns) >= end);
            self.is_over[sender] |= is_beyond;
            if !self.is_over[sender] {
                return Some(planned);
            }
        }
    }
}
