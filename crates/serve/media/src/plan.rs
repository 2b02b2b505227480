//! Samples of several tracks in the order of sending.

use std::ops::Range;
use std::sync::Arc;

use crate::index::{Cursor, Entry};
use crate::media::{Media, Track};
use crate::packing::Packing;
use crate::sound;

/// A track that has had no sample for this long while others had some is not waited for.
pub const PAUSE_NS: i64 = 10_000_000_000;

/// A sample to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Which track it is of, as its number in [`Media::tracks`].
    pub track: usize,
    /// Where it lies in the file. Samples of one track mostly, but not always, follow each other there.
    pub at: Range<u64>,
    /// When it is to be with the decoder, in nanoseconds of the presentation. What comes before the beginning, such as the
    /// first picture where others are seen before some that they are made from, has negative times.
    pub decode_ns: i64,
    /// When it is seen or heard.
    pub presentation_ns: i64,
    /// The same on the codec's RTP clock.
    pub timestamp: i64,
    /// What is to be done with it before it is sent.
    pub packing: Packing,
    /// Whether decoding can begin here. Those that it cannot begin at are left out where only key frames are wanted.
    pub is_sync: bool,
    /// When the next sample of the track is to be with the decoder; `None` if there is none in this plan.
    pub next_ns: Option<i64>,
}

/// What is to be sent from some time on: an iterator that reads no file. Copies of it go on from where it is.
#[derive(Clone, Debug)]
pub struct Plan {
    media: Arc<Media>,
    cursors: Vec<TrackCursor>,
}

#[derive(Clone, Debug)]
struct TrackCursor {
    track: usize,
    at: Cursor,
    next: Option<Next>,
    /// When the one before was to be decoded.
    last_ns: i64,
    /// The number of the first sample that is not in this plan.
    end: u64,
}

#[derive(Clone, Debug)]
struct Next {
    decode_ns: i64,
    entry: Entry,
}

impl Plan {
    pub(crate) fn new(media: Arc<Media>, tracks: &[usize], position_ns: u64, has_roll: bool) -> Self {
        let tracks = tracks.iter().filter(|track| **track < media.tracks().len());
        let position_ns = i64::try_from(position_ns).unwrap_or(i64::MAX);
        let roll_ns = |track: &Track| if has_roll { sound::roll_ns(&track.codec) } else { 0 };
        let begin = |track: &Track| track.cursor_at(position_ns - roll_ns(track));
        let parts = tracks.map(|&track| (track, begin(&media.tracks()[track]), u64::MAX));
        Self::of_parts(media.clone(), parts)
    }

    /// Of each track, the samples from one on and before that with a number.
    pub(crate) fn of_parts(media: Arc<Media>, parts: impl Iterator<Item = (usize, Cursor, u64)>) -> Self {
        let cursors = parts.map(|(track, at, end)| {
            let mut cursor = TrackCursor { track, at, next: None, last_ns: i64::MIN, end };
            cursor.advance(&media);
            cursor
        });
        let cursors = cursors.collect();
        Self { media, cursors }
    }
}

impl Plan {
    /// Goes on in a longer index of the same file.
    pub fn go_on_in(&mut self, media: Arc<Media>) {
        for cursor in &mut self.cursors {
            let Some(track) = media.tracks().get(cursor.track) else { continue };
            cursor.at = track.index().cursor_like(cursor.at);
            if cursor.next.is_none() {
                cursor.advance(&media);
            }
        }
        self.media = media;
    }

    /// Whether it may be that one track has more samples now in a longer index, which come before those of the others.
    pub fn lacks_a_track(&self) -> bool {
        let next_ns = self.cursors.iter().filter_map(|cursor| Some(cursor.next.as_ref()?.decode_ns)).min();
        let lacks = |cursor: &TrackCursor| {
            let is_near = |next_ns: i64| next_ns.saturating_sub(cursor.last_ns) < PAUSE_NS;
            // Texts may be far from each other.
            let is_text = self.media.tracks().get(cursor.track).is_some_and(|track| track.codec.is_text());
            cursor.next.is_none() && next_ns.is_none_or(|next_ns| !is_text && is_near(next_ns))
        };
        self.cursors.iter().any(lacks)
    }

    /// Whether it is of this index.
    pub fn is_of(&self, media: &Arc<Media>) -> bool {
        Arc::ptr_eq(&self.media, media)
    }
}

impl TrackCursor {
    fn advance(&mut self, media: &Media) {
        let track = &media.tracks()[self.track];
        let entry = if self.at.number() < self.end { track.index().next(&mut self.at) } else { None };
        self.next = entry.map(|entry| {
            let decode_ns = track.time_base().nanoseconds(entry.decode);
            Next { decode_ns, entry }
        });
    }
}

impl Iterator for Plan {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        let due = |cursor: &&mut TrackCursor| cursor.next.as_ref().map_or(i64::MAX, |next| next.decode_ns);
        let cursor = self.cursors.iter_mut().min_by_key(due)?;
        let Next { decode_ns, entry } = cursor.next.take()?;
        cursor.last_ns = decode_ns;
        cursor.advance(&self.media);
        let track = &self.media.tracks()[cursor.track];
        let (at, packing) = track.packed(&entry);
        Some(Sample {
            track: cursor.track,
            at,
            decode_ns,
            presentation_ns: track.time_base().nanoseconds(entry.presentation),
            timestamp: track.time_base().on_clock(entry.presentation, track.codec.clock_rate()),
            packing,
            is_sync: entry.is_sync,
            next_ns: cursor.next.as_ref().map(|next| next.decode_ns),
        })
    }
}
