//! What is played: one file or several after each other, once or for ever, from some position on.

use std::ops::Range;
use std::sync::Arc;

use forebay_media::{Media, Plan, Track};
use forebay_rtsp::presentation::{Codec, ticks};

/// A sample of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which file of the program.
    pub file: usize,
    /// Which track, as the number among those that were chosen.
    pub sender: u8,
    /// Where it lies in the file.
    pub at: Range<u64>,
    /// When it is to be sent, in nanoseconds of the program.
    pub decode_ns: i64,
    /// Its presentation on the codec's clock, from the beginning of the program; wraps around.
    pub ticks: u32,
    /// Whether decoding can begin here.
    pub is_sync: bool,
}

/// Files that are played after each other. All have the same tracks.
#[derive(Clone, Debug)]
pub struct Playlist {
    items: Vec<Arc<Media>>,
    is_endless: bool,
}

/// What part of a playlist is played, and how.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The numbers of the tracks: at most 255.
    pub tracks: Vec<usize>,
    /// Until where, in nanoseconds; `None`: the end.
    pub until_ns: Option<u64>,
    /// Only pictures that need no others, and no sound: for fast motion.
    pub is_sync_only: bool,
}

impl Playlist {
    /// `None` without files, or if they differ in what a decoder has to know before.
    pub fn new(items: Vec<Arc<Media>>, is_endless: bool) -> Option<Self> {
        let first = items.first()?;
        let is_like_first = |media: &Arc<Media>| {
            let (tracks, expected) = (media.tracks(), first.tracks());
            let are_alike =
                |(one, other): (&Track, &Track)| one.codec == other.codec && one.format == other.format;
            tracks.len() == expected.len() && tracks.iter().zip(expected).all(are_alike)
        };
        let are_alike = items.iter().all(is_like_first);
        // Without a duration it would be played infinitely often at once.
        let is_endless = is_endless && items.iter().all(|media| media.duration_ns() > 0);
        are_alike.then_some(Self { items, is_endless })
    }

    /// Its files.
    pub fn items(&self) -> &[Arc<Media>] {
        &self.items
    }

    /// `None` if it has no end.
    pub fn duration_ns(&self) -> Option<u64> {
        (!self.is_endless).then(|| self.round_ns())
    }

    /// How long all files take once.
    fn round_ns(&self) -> u64 {
        self.items.iter().map(|media| media.duration_ns()).sum()
    }

    /// The file at a position, and where it begins.
    fn at(&self, position_ns: u64) -> (usize, u64) {
        let round_ns = self.round_ns().max(1);
        let mut begin_ns = if self.is_endless { position_ns / round_ns * round_ns } else { 0 };
        for (number, media) in self.items.iter().enumerate() {
            let end_ns = begin_ns.saturating_add(media.duration_ns());
            if position_ns < end_ns || number + 1 == self.items.len() {
                return (number, begin_ns);
            }
            begin_ns = end_ns;
        }
        (0, 0)
    }

    /// Where playing can begin for a client that asks for `position_ns`.
    pub fn seek(&self, tracks: &[usize], position_ns: u64) -> u64 {
        let (item, begin_ns) = self.at(position_ns);
        begin_ns.saturating_add(self.items[item].seek(tracks, position_ns - begin_ns))
    }

    /// What is to be sent from a position on, which [`Playlist::seek`] has given.
    pub fn program(self: &Arc<Self>, choice: Choice, position_ns: u64) -> Program {
        let (item, begin_ns) = self.at(position_ns);
        let plan = self.items[item].plan(&choice.tracks, position_ns - begin_ns);
        Program { playlist: self.clone(), choice, item, begin_ns, plan }
    }
}

/// An iterator over samples in the order of sending.
#[derive(Clone, Debug)]
pub struct Program {
    playlist: Arc<Playlist>,
    choice: Choice,
    item: usize,
    begin_ns: u64,
    plan: Plan,
}

impl Program {
    /// Goes on to the next file; `None` at the end.
    fn turn(&mut self) -> Option<()> {
        self.begin_ns = self.begin_ns.checked_add(self.playlist.items[self.item].duration_ns())?;
        self.item += 1;
        if self.item == self.playlist.items.len() {
            if !self.playlist.is_endless {
                self.item -= 1;
                return None;
            }
            self.item = 0;
        }
        self.plan = self.playlist.items[self.item].plan(&self.choice.tracks, 0);
        Some(())
    }
}

impl Iterator for Program {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        // A round without a sample that is wanted ends it, and no file is without samples.
        let mut turns_left = self.playlist.items.len() + 1;
        loop {
            let Some(sample) = self.plan.next() else {
                turns_left = turns_left.checked_sub(1)?;
                self.turn()?;
                continue;
            };
            let track = &self.playlist.items[self.item].tracks()[sample.track];
            let is_wanted = !self.choice.is_sync_only || (sample.is_sync && is_video(&track.codec));
            if !is_wanted {
                continue;
            }
            // What lies beyond all numbers would be due at the same time, all of it: nothing comes after the last one.
            let decode_ns = sample.decode_ns.checked_add_unsigned(self.begin_ns)?;
            let until_ns = self.choice.until_ns.unwrap_or(u64::MAX);
            if u64::try_from(decode_ns).is_ok_and(|decode_ns| decode_ns >= until_ns) {
                return None;
            }
            let begin_ticks = ticks(self.begin_ns, track.codec.clock_rate());
            return Some(Planned {
                file: self.item,
                sender: self.choice.tracks.iter().position(|one| *one == sample.track)? as u8,
                at: sample.at,
                decode_ns,
                // Clocks wrap around.
                ticks: (begin_ticks as u32).wrapping_add(sample.timestamp as u32),
                is_sync: sample.is_sync,
            });
        }
    }
}

/// Whether its samples are pictures, which are large and can be spread in time.
pub fn is_video(codec: &Codec) -> bool {
    matches!(codec, Codec::H264 { .. } | Codec::H265 { .. })
}
