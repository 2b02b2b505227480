//! What is played: one file or several after each other, once or for ever, from some position on.

use std::ops::Range;
use std::sync::Arc;

use forebay_media::{Growing, Media, Packing, Plan, Sample, Stage, Track};
use forebay_rtsp::presentation::{Codec, ticks};
use forebay_rtsp::replay::Frames;

use crate::backwards::Backwards;

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

/// Files that are played after each other. All have the same tracks.
#[derive(Clone, Debug)]
pub struct Playlist {
    items: Vec<Arc<Media>>,
    is_endless: bool,
    /// From where to where it is played: what lies before and after does not exist.
    start_ns: u64,
    end_ns: u64,
    /// The index of the only file, if that may get more samples.
    growing: Option<Arc<Growing>>,
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
        let end_ns = items.iter().fold(0_u64, |sum, media| sum.saturating_add(media.duration_ns()));
        are_alike.then_some(Self { items, is_endless, start_ns: 0, end_ns, growing: None })
    }

    /// A file whose index may get more samples: what comes of it is played too, once.
    pub fn growing(growing: Arc<Growing>) -> Option<Self> {
        let playlist = Self::new(vec![growing.latest()], false)?;
        Some(Self { growing: Some(growing), ..playlist })
    }

    /// Whether a position can be played from: an index that is behind its file may not have it yet.
    pub fn reaches(&self, position_ns: u64) -> bool {
        self.growing.as_ref().is_none_or(|growing| {
            growing.stage() > Stage::Behind || growing.latest().duration_ns() > position_ns
        })
    }

    /// Whether more samples may come before `until_ns` than there are now.
    pub fn may_go_on(&self, until_ns: Option<u64>) -> bool {
        self.growing.as_ref().is_some_and(|growing| {
            growing.stage() < Stage::Over
                && until_ns.is_none_or(|until_ns| growing.latest().duration_ns() <= until_ns)
        })
    }

    /// The index of the only file as it is now, and how far it has come; `None` if all samples were known from the beginning.
    pub fn latest(&self) -> Option<(Arc<Media>, Stage)> {
        let growing = self.growing.as_ref()?;
        // In this order: once nothing more comes, the latest index has all.
        let stage = growing.stage();
        Some((growing.latest(), stage))
    }

    /// Whether its file was seen to grow.
    pub fn is_recorded(&self) -> bool {
        self.growing.as_ref().is_some_and(|growing| growing.is_recorded())
    }

    /// A file as its index is now.
    fn item(&self, number: usize) -> Arc<Media> {
        self.growing.as_ref().map_or_else(|| self.items[number].clone(), |growing| growing.latest())
    }

    /// Only the part from `start_ns`, or the last key frame before, to `end_ns`. Positions stay as they are. `None` if nothing
    /// is left, or it ends before.
    pub fn within(mut self, start_ns: u64, end_ns: Option<u64>) -> Option<Self> {
        let tracks: Vec<usize> = (0..self.items[0].tracks().len()).collect();
        if start_ns > 0 && start_ns >= self.end_ns {
            return None;
        }
        self.start_ns = self.seek(&tracks, start_ns);
        self.end_ns = self.end_ns.min(end_ns.unwrap_or(u64::MAX));
        (self.start_ns < self.end_ns || end_ns.is_none()).then_some(self)
    }

    /// Its files.
    pub fn items(&self) -> &[Arc<Media>] {
        &self.items
    }

    /// Where the first round begins.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Where the first round ends, as far as it is known.
    pub fn end_ns(&self) -> u64 {
        self.growing.as_ref().map_or(self.end_ns, |growing| growing.latest().duration_ns())
    }

    /// How long it is from there; `None` if it has no end.
    pub fn duration_ns(&self) -> Option<u64> {
        (!self.is_endless).then(|| self.round_ns())
    }

    /// How long all files take once.
    fn round_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// The file at a position, and where its own beginning is.
    fn at(&self, position_ns: u64) -> (usize, i64) {
        let since_ns = position_ns.saturating_sub(self.start_ns);
        let round_ns = self.round_ns().max(1);
        let rounds_ns = if self.is_endless { since_ns / round_ns * round_ns } else { 0 };
        let in_round_ns = position_ns - rounds_ns;
        let (item, offset_ns) = self.item_at(in_round_ns);
        (item, i64::try_from(rounds_ns.saturating_add(offset_ns)).unwrap_or(i64::MAX))
    }

    /// The file at a position of the first round, and where it begins.
    fn item_at(&self, position_ns: u64) -> (usize, u64) {
        let mut offset_ns = 0_u64;
        for (number, media) in self.items.iter().enumerate() {
            let end_ns = offset_ns.saturating_add(media.duration_ns());
            if position_ns < end_ns || number + 1 == self.items.len() {
                return (number, offset_ns);
            }
            offset_ns = end_ns;
        }
        (0, 0)
    }

    /// Where playing can begin for a client that asks for `position_ns`.
    pub fn seek(&self, tracks: &[usize], position_ns: u64) -> u64 {
        let (item, begin_ns) = self.at(position_ns);
        let begin_ns = begin_ns.max(0) as u64;
        let found_ns =
            begin_ns.saturating_add(self.item(item).seek(tracks, position_ns.saturating_sub(begin_ns)));
        found_ns.max(self.start_ns)
    }

    /// What is to be sent from a position backwards. What is played so is one file.
    pub fn backwards(self: &Arc<Self>, choice: Choice, position_ns: u64) -> Backwards {
        let start_ns = i64::try_from(self.start_ns).unwrap_or(i64::MAX);
        Backwards::new(self.item(0), choice, position_ns, start_ns)
    }

    /// What is to be sent from a position on, which [`Playlist::seek`] has given.
    pub fn program(self: &Arc<Self>, choice: Choice, position_ns: u64) -> Program {
        let (item, begin_ns) = self.at(position_ns);
        let in_item_ns = position_ns.saturating_sub(begin_ns.max(0) as u64);
        let plan = self.item(item).plan(&choice.tracks, in_item_ns);
        let round_end_ns = self.round_end_ns(position_ns);
        let before_ns = vec![i64::MIN; choice.tracks.len()];
        let latest_ns = before_ns.clone();
        Program { playlist: self.clone(), choice, item, begin_ns, round_end_ns, latest_ns, before_ns, plan }
    }

    /// Where the round ends that a position is in.
    fn round_end_ns(&self, position_ns: u64) -> i64 {
        let round_ns = self.round_ns().max(1);
        let rounds = if self.is_endless { position_ns.saturating_sub(self.start_ns) / round_ns } else { 0 };
        i64::try_from(self.end_ns.saturating_add(rounds.saturating_mul(round_ns))).unwrap_or(i64::MAX)
    }

    /// Whether it ends before its last file does.
    fn is_cut(&self) -> bool {
        self.end_ns < self.items.iter().fold(0, |sum: u64, media| sum.saturating_add(media.duration_ns()))
    }
}

/// An iterator over samples in the order of sending.
#[derive(Clone, Debug)]
pub struct Program {
    playlist: Arc<Playlist>,
    choice: Choice,
    item: usize,
    /// Where the beginning of the file is.
    begin_ns: i64,
    /// Where the round ends.
    round_end_ns: i64,
    /// The latest presentation so far, and that in the files before, by the numbers of the chosen tracks.
    latest_ns: Vec<i64>,
    before_ns: Vec<i64>,
    plan: Plan,
}

impl Program {
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

    /// Goes on to the next file; `None` at the end.
    fn turn(&mut self) -> Option<()> {
        let duration_ns = i64::try_from(self.playlist.items[self.item].duration_ns()).ok()?;
        let begin_ns = self.begin_ns.checked_add(duration_ns)?;
        let is_last = self.item + 1 == self.playlist.items.len() || begin_ns >= self.round_end_ns;
        let in_item_ns = if !is_last {
            (self.item, self.begin_ns) = (self.item + 1, begin_ns);
            0
        } else if self.playlist.is_endless {
            let (item, offset_ns) = self.playlist.item_at(self.playlist.start_ns);
            // The end of one round is the start of the next.
            let start_ns = self.round_end_ns;
            let in_item_ns = self.playlist.start_ns - offset_ns;
            let round_ns = i64::try_from(self.playlist.round_ns()).ok()?;
            self.round_end_ns = self.round_end_ns.checked_add(round_ns)?;
            (self.item, self.begin_ns) = (item, start_ns.checked_sub_unsigned(in_item_ns)?);
            in_item_ns
        } else {
            return None;
        };
        self.plan = self.playlist.items[self.item].plan(&self.choice.tracks, in_item_ns);
        self.before_ns.clone_from(&self.latest_ns);
        Some(())
    }

    /// The next sample of the round; `None` at the end of the file or the round.
    fn next_of_file(&mut self) -> Option<Sample> {
        if self.plan.lacks_a_track()
            && let Some((latest, stage)) = self.playlist.latest()
        {
            if !self.plan.is_of(&latest) {
                self.plan.go_on_in(latest);
            }
            if stage < Stage::Over && self.plan.lacks_a_track() {
                return None;
            }
        }
        self.next_of_plan()
    }

    /// Whether nothing comes after its file.
    fn is_last_round(&self) -> bool {
        !self.playlist.is_endless && self.item + 1 == self.playlist.items.len()
    }

    fn next_of_plan(&mut self) -> Option<Sample> {
        let is_cut = self.playlist.is_cut();
        self.plan
            .by_ref()
            .take_while(|one| !is_cut || self.begin_ns.saturating_add(one.decode_ns) < self.round_end_ns)
            .next()
    }
}

impl Iterator for Program {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if self.begin_ns == i64::MAX {
            return None;
        }
        // A round without a sample that is wanted ends it, and no file is without samples.
        let mut turns_left = self.playlist.items.len() + 1;
        loop {
            let Some(sample) = self.next_of_file() else {
                turns_left = turns_left.checked_sub(1)?;
                self.turn()?;
                continue;
            };
            let track = &self.playlist.items[self.item].tracks()[sample.track];
            let sender = self.choice.tracks.iter().position(|one| *one == sample.track)?;
            // What lies beyond all numbers would be due at the same time, all of it: nothing comes after the last one.
            let decode_ns = sample.decode_ns.checked_add(self.begin_ns)?;
            let presentation_ns = sample.presentation_ns.checked_add(self.begin_ns)?;
            // The sound that a decoder needs before a file begins was heard at the end of the file before.
            let is_heard = track.index().is_all_sync() && presentation_ns <= self.before_ns[sender];
            let is_beyond = self.playlist.is_cut() && presentation_ns >= self.round_end_ns;
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
            let next_ns = sample.next_ns.map(|next_ns| next_ns.saturating_add(self.begin_ns));
            let is_end = match next_ns {
                Some(next_ns) => {
                    self.is_last_round() && self.playlist.is_cut() && next_ns >= self.round_end_ns
                }
                None => self.is_last_round() && !self.playlist.may_go_on(None),
            };
            let is_last = is_end
                || next_ns.is_some_and(|next_ns| u64::try_from(next_ns).is_ok_and(|ns| ns >= until_ns));
            // Clocks wrap around.
            let begin_ticks = ticks(self.begin_ns.unsigned_abs(), track.codec.clock_rate()) as u32;
            let begin_ticks = if self.begin_ns < 0 { begin_ticks.wrapping_neg() } else { begin_ticks };
            return Some(Planned {
                file: self.item,
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
