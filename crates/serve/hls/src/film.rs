//! A film as browsers see it: the tracks that they play, and where it is cut into segments.

use std::sync::Arc;

use forebay_media::{Media, Stage, Track};
use forebay_rtsp::presentation::Codec;
use forebay_rtsp::range::SECOND_NS;
use forebay_streaming::playlist::Playlist;
use forebay_streaming::program::{Program, is_video};

use crate::segment::{Segment, first_decode_ns, program};
use crate::shape::Shape;

/// How long a segment lasts, or a little longer: it ends at a key frame.
const SEGMENT_NS: u64 = 4 * SECOND_NS;
/// About how many segments a film has at most. A longer film has longer ones.
const SEGMENTS: u64 = 3600;
/// Into how many parts the least duration of a segment is divided. For its end it is looked after each further part.
const LOOKS: u64 = 4;
/// How long a part of a segment lasts, in a film that is being recorded.
const PART_NS: u64 = SEGMENT_NS / LOOKS;
/// A shorter rest of a segment is no part: it belongs to the part before it.
const REST_NS: u64 = PART_NS * 15 / 100;
/// The most parts of a segment. The last part of a longer segment is as long as the rest, and its end is waited for.
const PARTS_MAX: u64 = 3600;
/// The longest part. No part but the last one may be shorter than 85 % of it (RFC 8216bis, 4.4.3.7).
pub(crate) const PART_MAX_NS: u64 = PART_NS + REST_NS;
/// Tracks that are sent together: pictures and sound.
const TOGETHER_MAX: usize = 2;

/// What of a film browsers play. Of a film that is being recorded, this is what there was of it at some time, and [`Film::grown`] what
/// there is now.
#[derive(Clone, Debug)]
pub struct Film {
    playlist: Arc<Playlist>,
    tracks: Vec<FilmTrack>,
    /// The track whose key frames segments begin at.
    leading: usize,
    /// How long a segment lasts at least, if it is not the last one.
    least_ns: u64,
    /// Where each segment begins, and where the last one ends that has an end.
    cuts_ns: Vec<u64>,
    /// Where a cut is looked for next. While it is being recorded, nothing is looked at twice.
    look_ns: u64,
    /// While it is being recorded: how far it has come.
    edge: Option<Edge>,
    /// By how much all samples are decoded later, so that none is decoded before 0.
    pub(crate) lead_ns: u64,
}

/// Whether a film has something, which it may get when it is recorded further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has it.
    There,
    /// It gets it next.
    Next,
    /// It may get it much later, or never.
    Missing,
}

/// How far a film has come that is being recorded.
#[derive(Clone, Debug)]
struct Edge {
    /// The index that it is of.
    media: Arc<Media>,
    /// What follows in it.
    rest: Program,
    /// Until when it has all samples of all tracks.
    at_ns: u64,
}

/// A track that browsers play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilmTrack {
    /// Its number in the file.
    pub number: usize,
    /// What browsers know of it.
    pub shape: Shape,
    /// Its language, as the file has it.
    pub language: Option<String>,
}

/// Why a browser cannot play a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplayable {
    /// It goes round and round.
    Endless,
    /// Browsers play none of its codecs.
    Codecs,
}

impl Film {
    /// `first_sample` reads the first sample of a track of the first file.
    pub fn new(
        playlist: &Arc<Playlist>,
        mut first_sample: impl FnMut(usize) -> Option<Vec<u8>>,
    ) -> Result<Self, Unplayable> {
        if playlist.is_endless() {
            return Err(Unplayable::Endless);
        }
        let mut tracks = Vec::new();
        for (number, track) in playlist.first().tracks().iter().enumerate() {
            let needs_sample = Shape::needs_sample(&track.codec);
            let sample = needs_sample.then(|| first_sample(number)).flatten().unwrap_or_default();
            if let Some(shape) = Shape::of(&track.codec, &sample) {
                tracks.push(FilmTrack { number, shape, language: track.language.clone() });
            }
        }
        let pictures = tracks.iter().find(|track| is_video(&playlist.first().tracks()[track.number].codec));
        let leading = pictures.or(tracks.first()).ok_or(Unplayable::Codecs)?.number;
        let all: Vec<usize> = tracks.iter().map(|track| track.number).collect();
        let start_ns = playlist.start_ns();
        let first_ns = first_decode_ns(playlist, &all, start_ns);
        let origin_ns = i64::try_from(start_ns).unwrap_or(i64::MAX);
        let lead_ns = u64::try_from(origin_ns.saturating_sub(first_ns)).unwrap_or_default();
        let rest = program(playlist, &all, start_ns);
        let edge = playlist.latest().map(|(media, _)| Edge { media, rest, at_ns: start_ns });
        // How long a recording becomes is not known.
        let is_whole = playlist.latest().is_none_or(|(_, stage)| stage == Stage::Over);
        let duration_ns = playlist.duration_ns().filter(|_| is_whole).unwrap_or_default();
        let least_ns = SEGMENT_NS.max(duration_ns / SEGMENTS);
        let cuts_ns = vec![start_ns];
        let look_ns = start_ns.saturating_add(least_ns + REST_NS);
        let playlist = playlist.clone();
        let film = Self { playlist, tracks, leading, least_ns, cuts_ns, look_ns, edge, lead_ns };
        Ok(film.cut_further())
    }

    /// Whether there is more of it now, or its end is known. This compares two pointers.
    pub fn has_grown(&self) -> bool {
        let known = self.edge.as_ref().zip(self.playlist.latest());
        known
            .is_some_and(|(edge, (latest, stage))| stage == Stage::Over || !Arc::ptr_eq(&edge.media, &latest))
    }

    /// The film as it is now; `None` if that is this one. This looks at all samples that are new.
    pub fn grown(&self) -> Option<Self> {
        self.has_grown().then(|| self.clone().cut_further())
    }

    /// Cuts what has no cuts yet.
    fn cut_further(mut self) -> Self {
        let begin_ns = self.open_ns();
        let latest = self.playlist.latest().filter(|(_, stage)| *stage < Stage::Over);
        self.edge = latest.zip(self.edge).map(|((media, _), mut edge)| {
            let last_ns = edge.rest.by_ref().last().map_or(0, |planned| planned.decode_ns);
            Edge { media, at_ns: u64::try_from(last_ns).unwrap_or_default().max(edge.at_ns), ..edge }
        });
        let end_ns = match &self.edge {
            // Another track may still get a sample for that very time.
            Some(edge) => edge.at_ns,
            None => self.playlist.end_ns().max(begin_ns.saturating_add(1)),
        };
        let least_ns = self.least_ns;
        // Times of a file may be far apart.
        let left_ns = end_ns.saturating_sub(self.look_ns);
        let step_ns = (least_ns / LOOKS).max(left_ns / (LOOKS * SEGMENTS));
        // One look tells that there are no key frames: encoders may make none after the first one.
        let last_ns = self.playlist.seek(&[self.leading], end_ns.saturating_sub(1));
        while self.look_ns < end_ns && last_ns >= self.open_ns().saturating_add(least_ns) {
            let found_ns = self.playlist.seek(&[self.leading], self.look_ns);
            if found_ns >= self.open_ns().saturating_add(least_ns) && found_ns < end_ns {
                self.cuts_ns.push(found_ns);
                self.look_ns = found_ns.saturating_add(least_ns + REST_NS);
            } else {
                self.look_ns = self.look_ns.saturating_add(step_ns);
            }
        }
        let steps = end_ns.saturating_sub(self.look_ns).div_ceil(step_ns);
        self.look_ns = self.look_ns.saturating_add(steps.saturating_mul(step_ns));
        if self.edge.is_none() {
            self.cuts_ns.push(end_ns);
        }
        self
    }

    /// Where the last cut is.
    fn open_ns(&self) -> u64 {
        self.cuts_ns.last().copied().unwrap_or_default()
    }

    /// Whether its file may get more samples, as that of a recording.
    pub fn may_grow(&self) -> bool {
        self.edge.is_some()
    }

    /// How many segments it has. In a film that is being recorded, another one has begun.
    pub(crate) fn segments(&self) -> usize {
        self.cuts_ns.len() - 1
    }

    /// From the beginning of a segment to the last cut.
    pub(crate) fn until_cut_ns(&self, segment: usize) -> u64 {
        self.open_ns().saturating_sub(self.cuts_ns[segment])
    }

    /// How many parts of a segment there are.
    pub(crate) fn parts(&self, segment: usize) -> usize {
        let Some(&begin_ns) = self.cuts_ns.get(segment) else { return 0 };
        let parts = match (self.cuts_ns.get(segment + 1), &self.edge) {
            (Some(end_ns), _) => {
                let (whole, rest_ns) = ((end_ns - begin_ns) / PART_NS, (end_ns - begin_ns) % PART_NS);
                whole.max(1) + u64::from(whole > 0 && rest_ns >= REST_NS)
            }
            // Whether a rest follows shows when it is too long for one.
            (None, Some(edge)) => {
                let parts = edge.at_ns.saturating_sub(begin_ns).saturating_sub(REST_NS) / PART_NS;
                parts.min(PARTS_MAX - 1)
            }
            (None, None) => 0,
        };
        parts.min(PARTS_MAX) as usize
    }

    /// How long a part of a segment lasts, in nanoseconds. The last one takes the rest.
    pub(crate) fn part_ns(&self, segment: usize, part: usize) -> u64 {
        let length_ns = self.cuts_ns.get(segment + 1).map(|end_ns| end_ns - self.cuts_ns[segment]);
        let is_last = part + 1 == self.parts(segment);
        length_ns.filter(|_| is_last).map_or(PART_NS, |ns| ns - part as u64 * PART_NS)
    }

    /// Whether its playlist has a segment, or a part of one. A playlist that has ended has no more to come.
    pub fn presence(&self, segment: usize, part: Option<usize>) -> Presence {
        let (open, parts) = (self.segments(), self.parts(segment));
        if !self.may_grow() || segment < open {
            return Presence::There;
        }
        match part {
            Some(part) if segment == open && part < parts => Presence::There,
            Some(part) if segment == open && part == parts => Presence::Next,
            None | Some(0) if segment <= open + 1 => Presence::Next,
            _ => Presence::Missing,
        }
    }

    /// What is played when it plays from its beginning.
    pub fn playlist(&self) -> &Arc<Playlist> {
        &self.playlist
    }

    /// The first track of pictures.
    pub fn pictures(&self) -> Option<&FilmTrack> {
        self.tracks.iter().find(|track| is_video(self.codec(track)))
    }

    /// The tracks of sound.
    pub fn sounds(&self) -> impl Iterator<Item = &FilmTrack> {
        self.tracks.iter().filter(|track| !is_video(self.codec(track)))
    }

    /// How long each segment lasts, in nanoseconds.
    pub fn durations_ns(&self) -> impl Iterator<Item = u64> {
        self.cuts_ns.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// A segment with these tracks; `None` if there is none.
    pub fn segment(&self, tracks: &[usize], number: usize) -> Option<Segment> {
        self.chosen(tracks).filter(|_| number < self.segments())?;
        Some(self.samples(tracks, number))
    }

    /// The samples of a segment that has begun. The last one of a film has all that is left.
    fn samples(&self, tracks: &[usize], segment: usize) -> Segment {
        let end_ns = self.cuts_ns.get(segment + 1).copied();
        let until_ns = end_ns.filter(|_| self.may_grow() || segment + 1 < self.segments());
        Segment::new(&self.playlist, tracks, self.cuts_ns[segment], until_ns)
    }

    /// A part of a segment with these tracks; `None` if there is none.
    pub fn part(&self, tracks: &[usize], segment: usize, part: usize) -> Option<Segment> {
        let parts = self.parts(segment);
        self.chosen(tracks).filter(|_| part < parts)?;
        let begin_ns = self.cuts_ns[segment];
        let is_last = segment < self.segments() && part + 1 == parts;
        let at_ns = |part: usize| {
            let ns = begin_ns.saturating_add((part as u64).saturating_mul(PART_NS));
            i64::try_from(ns).unwrap_or(i64::MAX).saturating_sub_unsigned(self.lead_ns)
        };
        let from_ns = if part == 0 { i64::MIN } else { at_ns(part) };
        let to_ns = if is_last { i64::MAX } else { at_ns(part + 1) };
        Some(self.samples(tracks, segment).within(from_ns..to_ns))
    }

    /// The tracks with these numbers; `None` if browsers do not play all of them together.
    pub(crate) fn chosen(&self, tracks: &[usize]) -> Option<Vec<&FilmTrack>> {
        let is_choice =
            (1..=TOGETHER_MAX).contains(&tracks.len()) && tracks.is_sorted_by(|one, other| one != other);
        let find = |number: &usize| self.tracks.iter().find(|track| track.number == *number);
        is_choice.then(|| tracks.iter().map(find).collect()).flatten()
    }

    pub(crate) fn media_track(&self, number: usize) -> &Track {
        &self.playlist.first().tracks()[number]
    }

    pub(crate) fn codec(&self, track: &FilmTrack) -> &Codec {
        &self.media_track(track.number).codec
    }

    /// How many bits a second tracks have on average.
    pub(crate) fn bits_per_second(&self, tracks: &[&FilmTrack]) -> u64 {
        let rates = tracks.iter().filter_map(|track| self.media_track(track.number).bits_per_second());
        rates.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use forebay_media::Growing;
    use forebay_testkit::films::Folder;

    use super::*;

    #[test]
    fn where_no_key_frame_was_found_none_is_looked_for_again() {
        let Some(folder) = Folder::new("where_no_key_frame_was_found_none_is_looked_for_again") else {
            return;
        };
        let one_key_frame = "-c:v libx264 -bf 0 -g 9999 -keyint_min 9999 -sc_threshold 0 -live 1";
        let path = folder.encode(20, one_key_frame, "a.mkv");
        let media = || Arc::new(Media::open(&path).expect("a film"));
        let growing = Arc::new(Growing::new(media(), Stage::Following, None));
        let playlist = Arc::new(Playlist::new(vec![growing.clone().into()], false).expect("a playlist"));
        let film = Film::new(&playlist, |_| None).expect("a film");
        let at_ns = film.edge.as_ref().expect("it is being recorded").at_ns;
        assert!(film.cuts_ns.len() == 1 && at_ns > 19 * SECOND_NS, "{:?} {at_ns}", film.cuts_ns);
        assert!((at_ns..at_ns + SEGMENT_NS).contains(&film.look_ns), "{} {at_ns}", film.look_ns);
        growing.put(media(), Stage::Following);
        assert!(film.has_grown());
        let grown = film.grown().expect("another index");
        assert!(!grown.has_grown() && grown.look_ns == film.look_ns);
    }
}
