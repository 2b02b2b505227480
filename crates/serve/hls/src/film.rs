//! A film as browsers see it: the tracks that they play, and where it is cut into segments.

use std::sync::Arc;

use forebay_media::Track;
use forebay_rtsp::presentation::Codec;
use forebay_streaming::program::{Playlist, is_video};

use crate::segment::{Segment, first_decode_ns};
use crate::shape::Shape;

const SECOND_NS: u64 = 1_000_000_000;
/// How long a segment lasts, or a little longer: it ends at a key frame.
const SEGMENT_NS: u64 = 4 * SECOND_NS;
/// About how many segments a film has at most. A longer film has longer ones.
const SEGMENTS: u64 = 3600;
/// Tracks that are sent together: pictures and sound.
const TOGETHER_MAX: usize = 2;

/// What of a film browsers play.
#[derive(Debug)]
pub struct Film {
    playlist: Arc<Playlist>,
    tracks: Vec<FilmTrack>,
    /// Where each segment begins, and where the last one ends.
    cuts_ns: Vec<u64>,
    /// By how much all samples are decoded later, so that none is decoded before 0.
    pub(crate) lead_ns: u64,
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
        let duration_ns = playlist.duration_ns().ok_or(Unplayable::Endless)?;
        let mut tracks = Vec::new();
        for (number, track) in playlist.items()[0].tracks().iter().enumerate() {
            let needs_sample = Shape::needs_sample(&track.codec);
            let sample = needs_sample.then(|| first_sample(number)).flatten().unwrap_or_default();
            if let Some(shape) = Shape::of(&track.codec, &sample) {
                tracks.push(FilmTrack { number, shape, language: track.language.clone() });
            }
        }
        let mut film = Self { playlist: playlist.clone(), tracks, cuts_ns: Vec::new(), lead_ns: 0 };
        let leading = film.pictures().or_else(|| film.sounds().next()).ok_or(Unplayable::Codecs)?.number;
        film.cuts_ns = cuts(playlist, leading, duration_ns);
        let all: Vec<usize> = film.tracks.iter().map(|track| track.number).collect();
        let first_ns = first_decode_ns(playlist, &all, playlist.start_ns());
        let origin_ns = i64::try_from(playlist.start_ns()).unwrap_or(i64::MAX);
        film.lead_ns = u64::try_from(origin_ns.saturating_sub(first_ns)).unwrap_or_default();
        Ok(film)
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
        let pair = self.cuts_ns.get(number..number.checked_add(2)?)?;
        let is_last = number + 2 == self.cuts_ns.len();
        let until_ns = (!is_last).then_some(pair[1]);
        self.chosen(tracks)?;
        Some(Segment::new(&self.playlist, tracks, pair[0], until_ns))
    }

    /// The tracks with these numbers; `None` if browsers do not play all of them together.
    pub(crate) fn chosen(&self, tracks: &[usize]) -> Option<Vec<&FilmTrack>> {
        let is_choice =
            (1..=TOGETHER_MAX).contains(&tracks.len()) && tracks.is_sorted_by(|one, other| one != other);
        let find = |number: &usize| self.tracks.iter().find(|track| track.number == *number);
        is_choice.then(|| tracks.iter().map(find).collect()).flatten()
    }

    pub(crate) fn media_track(&self, number: usize) -> &Track {
        &self.playlist.items()[0].tracks()[number]
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

/// Where a film is cut: at key frames of its leading track.
fn cuts(playlist: &Playlist, leading: usize, duration_ns: u64) -> Vec<u64> {
    let (start_ns, step_ns) = (playlist.start_ns(), SEGMENT_NS.max(duration_ns / SEGMENTS));
    let end_ns = start_ns.saturating_add(duration_ns.max(1));
    let mut cuts_ns = vec![start_ns];
    let (mut last_ns, mut wanted_ns) = (start_ns, start_ns.saturating_add(step_ns));
    // Half a step is tried after the other, where key frames are further apart.
    while wanted_ns < end_ns {
        let found_ns = playlist.seek(&[leading], wanted_ns);
        if found_ns > last_ns && found_ns < end_ns {
            cuts_ns.push(found_ns);
            last_ns = found_ns;
            wanted_ns = found_ns.saturating_add(step_ns);
        } else {
            wanted_ns = wanted_ns.saturating_add(step_ns / 2);
        }
    }
    cuts_ns.push(end_ns);
    cuts_ns
}
