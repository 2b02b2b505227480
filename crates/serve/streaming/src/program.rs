//! What is sent of a playlist from some position on.

use std::ops::Range;
use std::sync::Arc;

use forebay_media::{Packing, Plan, Sample};
use forebay_rtsp::presentation::{Codec, ticks};
use forebay_rtsp::replay::Frames;

use crate::playlist::{Place, Playlist};

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
    /// What is to be done with it when it has been read.
    pub packing: Packing,
    /// Whether decoding can begin here.
    pub is_sync: bool,
    /// What begins and ends here.
    pub edges: Edges,
}

/// What begins and ends with a sample, in the order of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges(u8);

impl Edges {
    /// It does not follow the track's sample before.
    pub const APART: Self = Self(1);
    /// After it nothing is there of the track.
    pub const END: Self = Self(2);
    /// After it nothing is wanted of the track.
    pub const LAST: Self = Self(4);

    /// Whether it has those.
    pub fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// With those too, if that is so.
    pub fn with(self, others: Self, is_so: bool) -> Self {
        if is_so { Self(self.0 | others.0) } else { self }
    }
}

/// What part of a playlist is played, and how.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The numbers of the tracks: at most 255.
    pub tracks: Vec<usize>,
    /// Until where, in nanoseconds; `None`: the end.
    pub until_ns: Option<u64>,
    /// Which pictures: for fast motion, only those that need no others, and no sound. Which ones no other needs is seen in their
    /// content only, so [`Frames::Predicted`] is all of them here.
    pub frames: Frames,
    /// Whether decoders begin there, and so are given what they need before, or have had what comes before.
    pub is_beginning: bool,
}

/// An iterator over samples in the order of sending. After its end, or where the index of a file has to come further first, it gives
/// nothing; then it goes on when there is more ([`Playlist::may_go_on`]).
#[derive(Clone, Debug)]
pub struct Program {
    playlist: Arc<Playlist>,
    choice: Choice,
    /// Which file is played, and where it and its round begin.
    place: Place,
    /// The latest presentation so far, and that in the files before, by the numbers of the chosen tracks.
    latest_ns: Vec<i64>,
    before_ns: Vec<i64>,
    /// When the first sample is decoded that is not only there for decoders to begin with.
    first_ns: i64,
    plan: Plan,
}

/// What a file has next.
enum Found {
    Sample(Sample),
    /// Nothing more, or nothing more of the round.
    End,
    /// Nothing before its index has come further.
    NotYet,
}

impl Program {
    pub(crate) fn new(playlist: Arc<Playlist>, choice: Choice, position_ns: u64) -> Self {
        let place = playlist.at(position_ns);
        let in_member_ns = position_ns.saturating_sub(place.begin_ns.max(0) as u64);
        let media = playlist.member(place.member);
        let first_ns = media.begin_ns(&choice.tracks, in_member_ns).saturating_add(place.begin_ns);
        let plan = if choice.is_beginning {
            media.plan(&choice.tracks, in_member_ns)
        } else {
            media.plan_on(&choice.tracks, in_member_ns)
        };
        let before_ns = vec![i64::MIN; choice.tracks.len()];
        let latest_ns = before_ns.clone();
        Self { playlist, choice, place, latest_ns, before_ns, first_ns, plan }
    }

    /// When the first sample is decoded that is not only there for decoders to begin with.
    pub(crate) fn first_ns(&self) -> i64 {
        self.first_ns
    }

    /// Which pictures were chosen.
    pub(crate) fn frames(&self) -> Frames {
        self.choice.frames
    }

    /// Whether nothing comes after it.
    pub(crate) fn goes_to_the_end(&self) -> bool {
        self.choice.until_ns.is_none()
    }

    /// Whether more may come when there is nothing now.
    pub(crate) fn may_go_on(&self) -> bool {
        self.playlist.may_go_on(self.choice.until_ns)
    }

    /// Where the round ends at the latest.
    fn cut_ns(&self) -> i64 {
        self.place.rounds_ns.saturating_add_unsigned(self.playlist.until_ns())
    }

    /// Goes on to the next file; `None` at the end.
    fn turn(&mut self) -> Option<()> {
        let Place { member, rounds_ns, begin_ns } = self.place;
        let duration_ns = self.playlist.member(member).duration_ns();
        let end_ns = begin_ns.checked_add_unsigned(duration_ns)?;
        let is_last = member == self.playlist.last() || end_ns >= self.cut_ns();
        let in_member_ns = if !is_last {
            self.place = Place { member: member + 1, rounds_ns, begin_ns: end_ns };
            0
        } else if self.playlist.is_endless() {
            let start_ns = self.playlist.start_ns();
            let (member, offset_ns) = self.playlist.member_at(start_ns);
            // The end of one round is the start of the next.
            let rounds_ns = rounds_ns.checked_add_unsigned(self.playlist.round_ns()?)?;
            let begin_ns = rounds_ns.checked_add_unsigned(offset_ns)?;
            self.place = Place { member, rounds_ns, begin_ns };
            start_ns - offset_ns
        } else {
            return None;
        };
        self.plan = self.playlist.member(self.place.member).plan(&self.choice.tracks, in_member_ns);
        self.before_ns.clone_from(&self.latest_ns);
        Some(())
    }

    fn next_of_file(&mut self) -> Found {
        let member = self.place.member;
        // In this order: what is not whole may have more by now.
        let whole = self.playlist.whole(member);
        if whole.is_none_or(|whole| !self.plan.is_of(whole)) && (whole.is_some() || self.plan.lacks_a_track())
        {
            let latest = whole.cloned().unwrap_or_else(|| self.playlist.member(member));
            if !self.plan.is_of(&latest) {
                self.plan.go_on_in(latest);
            }
            if whole.is_none() && self.plan.lacks_a_track() {
                return Found::NotYet;
            }
        }
        let sample = self.plan.next();
        let of_round = |one: &Sample| self.place.begin_ns.saturating_add(one.decode_ns) < self.cut_ns();
        sample.filter(of_round).map_or(Found::End, Found::Sample)
    }

    /// Whether nothing comes after a sample of a track that is followed by another one at `next_ns`.
    fn is_end(&self, next_ns: Option<i64>) -> bool {
        let Place { member, .. } = self.place;
        let is_of_all = || self.playlist.whole(member).is_some_and(|whole| self.plan.is_of(whole));
        let is_followed = |next_ns| next_ns < self.cut_ns();
        !self.playlist.is_endless()
            && next_ns.map_or_else(|| member == self.playlist.last() && is_of_all(), |ns| !is_followed(ns))
    }
}

impl Iterator for Program {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if self.place.begin_ns == i64::MAX {
            return None;
        }
        // A round without a sample that is wanted ends it, and no file is without samples.
        let mut turns_left = self.playlist.last() + 2;
        loop {
            let sample = match self.next_of_file() {
                Found::Sample(sample) => sample,
                Found::NotYet => return None,
                Found::End => {
                    turns_left = turns_left.checked_sub(1)?;
                    self.turn()?;
                    continue;
                }
            };
            let track = &self.playlist.first().tracks()[sample.track];
            let sender = self.choice.tracks.iter().position(|one| *one == sample.track)?;
            let Place { member, begin_ns, .. } = self.place;
            // What lies beyond all numbers would be due at the same time, all of it: nothing comes after the last one.
            let decode_ns = sample.decode_ns.checked_add(begin_ns)?;
            let presentation_ns = sample.presentation_ns.checked_add(begin_ns)?;
            // The sound that a decoder needs before a file begins was heard at the end of the file before.
            let is_heard = !track.codec.is_pictures() && presentation_ns <= self.before_ns[sender];
            let is_beyond = presentation_ns >= self.cut_ns();
            let since_ns = presentation_ns.saturating_sub(self.latest_ns[sender]);
            let is_wanted = is_wanted(&sample, &track.codec, self.choice.frames, since_ns);
            if !is_wanted || is_heard || is_beyond {
                continue;
            }
            let until_ns = self.choice.until_ns.unwrap_or(u64::MAX);
            if u64::try_from(decode_ns).is_ok_and(|decode_ns| decode_ns >= until_ns) {
                return None;
            }
            self.latest_ns[sender] = self.latest_ns[sender].max(presentation_ns);
            let next_ns = sample.next_ns.map(|next_ns| next_ns.saturating_add(begin_ns));
            let is_end = self.is_end(next_ns);
            let is_last = is_end
                || next_ns.is_some_and(|next_ns| u64::try_from(next_ns).is_ok_and(|ns| ns >= until_ns));
            // Clocks wrap around.
            let begin_ticks = ticks(begin_ns.unsigned_abs(), track.codec.clock_rate()) as u32;
            return Some(Planned {
                file: member,
                sender: sender as u8,
                at: sample.at,
                decode_ns,
                ticks: begin_ticks.wrapping_add(sample.timestamp as u32),
                packing: sample.packing,
                is_sync: sample.is_sync,
                edges: Edges::default().with(Edges::END, is_end).with(Edges::LAST, is_last),
            });
        }
    }
}

/// Whether a sample is among those that were chosen, which is presented so long after the one that was chosen before.
pub(crate) fn is_wanted(sample: &Sample, codec: &Codec, frames: Frames, since_ns: i64) -> bool {
    match frames {
        Frames::All | Frames::Predicted => true,
        Frames::Intra { interval_ns } => {
            let is_far = u64::try_from(since_ns).unwrap_or(0) >= interval_ns;
            sample.is_sync && is_video(codec) && is_far
        }
    }
}

/// Whether its samples are pictures, which are large and can be spread in time.
pub fn is_video(codec: &Codec) -> bool {
    codec.is_pictures()
}
