//! Files that are played after each other, once or for ever. Their indices may still grow while they are played.
//!
//! ```text
//!   file     | first ............ | second, of which the index has come to here | ?
//!   until    known: it is whole     a position up to here can be played           then what follows waits for the index
//! ```

use std::sync::{Arc, OnceLock};

use forebay_media::{Growing, Media, PAUSE_NS, Stage, Track};

use crate::backwards::Backwards;
use crate::program::{Choice, Program};

/// A file of a playlist.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its index as it was at first.
    first: Arc<Media>,
    /// The same with the samples that were found since, unless all were known at once.
    growing: Option<Arc<Growing>>,
    /// All of it, once that is known. It stays as it was then: the rounds of a loop are equally long.
    whole: OnceLock<Arc<Media>>,
}

impl From<Arc<Media>> for Member {
    fn from(media: Arc<Media>) -> Self {
        Self { first: media, growing: None, whole: OnceLock::new() }
    }
}

impl From<Arc<Growing>> for Member {
    fn from(growing: Arc<Growing>) -> Self {
        Self { first: growing.latest(), growing: Some(growing), whole: OnceLock::new() }
    }
}

impl Member {
    /// All of it; `None` until its index has come to `end`.
    fn whole(&self, end: Stage) -> Option<&Arc<Media>> {
        let Some(growing) = &self.growing else { return Some(&self.first) };
        // In this order: once nothing more comes, the latest index has all.
        let is_whole = self.whole.get().is_some() || growing.stage() >= end;
        is_whole.then(|| self.whole.get_or_init(|| growing.latest()))
    }

    /// Its index as it is now.
    fn latest(&self) -> Arc<Media> {
        let growing = self.growing.as_ref().filter(|_| self.whole.get().is_none());
        growing.map_or_else(|| self.whole.get().unwrap_or(&self.first).clone(), |growing| growing.latest())
    }

    fn is_behind(&self) -> bool {
        self.growing.as_ref().is_some_and(|growing| growing.stage() == Stage::Behind)
    }
}

/// Files that are played after each other. All have the same tracks.
#[derive(Clone, Debug)]
pub struct Playlist {
    members: Vec<Member>,
    is_endless: bool,
    /// What has to be known of a file that others follow, or that is played again. A recording alone is played to its very end.
    end: Stage,
    /// From where to where a round is played, if its files are so long: what lies before and after does not exist.
    start_ns: u64,
    until_ns: u64,
}

/// A position in a playlist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Which file.
    pub member: usize,
    /// How long all rounds before took.
    pub rounds_ns: i64,
    /// Where the beginning of the file is.
    pub begin_ns: i64,
}

impl Playlist {
    /// `None` without files, or if they differ in what a decoder has to know before.
    pub fn new(members: Vec<Member>, is_endless: bool) -> Option<Self> {
        let expected = members.first()?.first.tracks();
        let is_like_first = |member: &Member| {
            let tracks = member.first.tracks();
            let are_alike =
                |(one, other): (&Track, &Track)| one.codec == other.codec && one.format == other.format;
            tracks.len() == expected.len() && tracks.iter().zip(expected).all(are_alike)
        };
        let are_alike = members.iter().all(is_like_first);
        // Without a duration it would be played infinitely often at once.
        let is_endless = is_endless && members.iter().all(|member| member.latest().duration_ns() > 0);
        let end = if members.len() == 1 && !is_endless { Stage::Over } else { Stage::Following };
        are_alike.then_some(Self { members, is_endless, end, start_ns: 0, until_ns: u64::MAX })
    }

    /// Only the part from `start_ns`, or the last key frame before, to `end_ns`. Positions stay as they are. `None` if nothing
    /// is left, or it ends before. Indices have to have come to `start_ns`: [`Playlist::reaches`].
    pub fn within(mut self, start_ns: u64, end_ns: Option<u64>) -> Option<Self> {
        let tracks: Vec<usize> = (0..self.first().tracks().len()).collect();
        if start_ns > 0 && start_ns >= self.end_ns() {
            return None;
        }
        self.start_ns = self.seek(&tracks, start_ns);
        self.until_ns = end_ns.unwrap_or(u64::MAX);
        (self.start_ns < self.end_ns() || end_ns.is_none()).then_some(self)
    }

    /// The first file, as its index was at first: all files have its tracks.
    pub fn first(&self) -> &Arc<Media> {
        &self.members[0].first
    }

    /// The index of the only file as it is now, and how far it has come; `None` if all samples were known from the beginning.
    pub fn latest(&self) -> Option<(Arc<Media>, Stage)> {
        let [Member { growing: Some(growing), .. }] = &self.members[..] else { return None };
        // In this order: once nothing more comes, the latest index has all.
        let stage = growing.stage();
        Some((growing.latest(), stage))
    }

    /// Whether its file was seen to grow.
    pub fn is_recorded(&self) -> bool {
        self.members.iter().filter_map(|member| member.growing.as_ref()).any(|growing| growing.is_recorded())
    }

    /// Whether it is played again and again.
    pub fn is_endless(&self) -> bool {
        self.is_endless
    }

    /// Whether a position can be played from: an index that is behind its file may not have it yet.
    pub fn reaches(&self, position_ns: u64) -> bool {
        let (sum_ns, is_all) = self.measured();
        is_all || sum_ns > position_ns || sum_ns >= self.until_ns
    }

    /// Whether more samples may come before `until_ns` than there are now.
    pub fn may_go_on(&self, until_ns: Option<u64>) -> bool {
        let mut left_ns = until_ns.unwrap_or(u64::MAX).min(self.until_ns);
        for member in &self.members {
            let Some(whole) = member.whole(self.end) else {
                let latest = member.latest();
                let is_far = latest.duration_ns() > left_ns.saturating_add(PAUSE_NS.unsigned_abs());
                return !latest.has_all_before(left_ns) && !is_far;
            };
            let Some(after_ns) = left_ns.checked_sub(whole.duration_ns()) else { return false };
            left_ns = after_ns;
        }
        false
    }

    /// Where the first round begins.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Where the first round ends, as far as it is known.
    pub fn end_ns(&self) -> u64 {
        self.measured().0.min(self.until_ns)
    }

    /// How long it is from there. `None` if it has no end, or nothing tells where that is.
    pub fn duration_ns(&self) -> Option<u64> {
        if self.is_endless {
            return None;
        }
        let end_ns = if self.measured().0 >= self.until_ns {
            self.until_ns
        } else {
            let told_ns = |member: &Member| match (member.whole(self.end), &member.growing) {
                (None, Some(growing)) => growing.duration_ns(),
                _ => Some(member.latest().duration_ns()),
            };
            let mut all = self.members.iter().map(told_ns);
            all.try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)))?.min(self.until_ns)
        };
        Some(end_ns.saturating_sub(self.start_ns))
    }

    /// How long a round takes, once that is known.
    pub(crate) fn round_ns(&self) -> Option<u64> {
        let (sum_ns, is_all) = self.measured();
        (is_all || sum_ns >= self.until_ns).then(|| sum_ns.min(self.until_ns).saturating_sub(self.start_ns))
    }

    /// How long its files are together, up to where the first index that is behind its file has come, and whether there is none.
    fn measured(&self) -> (u64, bool) {
        let mut sum_ns = 0_u64;
        for member in &self.members {
            // In this order: an index that is not behind has all.
            let is_behind = member.whole(self.end).is_none() && member.is_behind();
            sum_ns = sum_ns.saturating_add(member.latest().duration_ns());
            if is_behind {
                return (sum_ns, false);
            }
        }
        (sum_ns, true)
    }

    pub(crate) fn at(&self, position_ns: u64) -> Place {
        let since_ns = position_ns.saturating_sub(self.start_ns);
        let round_ns = self.round_ns().filter(|_| self.is_endless).map(|ns| ns.max(1));
        let rounds_ns = round_ns.map_or(0, |round_ns| since_ns / round_ns * round_ns);
        let (member, offset_ns) = self.member_at(position_ns - rounds_ns);
        let in_program = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let begin_ns = in_program(rounds_ns.saturating_add(offset_ns));
        Place { member, rounds_ns: in_program(rounds_ns), begin_ns }
    }

    /// The file at a position of the first round, and where it begins.
    pub(crate) fn member_at(&self, position_ns: u64) -> (usize, u64) {
        let mut offset_ns = 0_u64;
        for (number, member) in self.members.iter().enumerate() {
            let has_end = member.whole(self.end).is_some() && number + 1 < self.members.len();
            let end_ns = offset_ns.saturating_add(member.latest().duration_ns());
            if !has_end || position_ns < end_ns {
                return (number, offset_ns);
            }
            offset_ns = end_ns;
        }
        (0, 0)
    }

    /// The number of its last file.
    pub(crate) fn last(&self) -> usize {
        self.members.len() - 1
    }

    /// The index of a file as it is now.
    pub(crate) fn member(&self, number: usize) -> Arc<Media> {
        self.members[number].latest()
    }

    /// All of a file, once it is known.
    pub(crate) fn whole(&self, number: usize) -> Option<&Arc<Media>> {
        self.members[number].whole(self.end)
    }

    /// Where a round ends at the latest, counted from its beginning.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Where playing can begin for a client that asks for `position_ns`.
    pub fn seek(&self, tracks: &[usize], position_ns: u64) -> u64 {
        let Place { member, begin_ns, .. } = self.at(position_ns);
        let begin_ns = begin_ns.max(0) as u64;
        let in_member_ns = self.member(member).seek(tracks, position_ns.saturating_sub(begin_ns));
        begin_ns.saturating_add(in_member_ns).max(self.start_ns)
    }

    /// What is to be sent from a position backwards. What is played so is one file.
    pub fn backwards(self: &Arc<Self>, choice: Choice, position_ns: u64) -> Backwards {
        let start_ns = i64::try_from(self.start_ns).unwrap_or(i64::MAX);
        Backwards::new(self.member(0), choice, position_ns, start_ns)
    }

    /// What is to be sent from a position on, which [`Playlist::seek`] has given.
    pub fn program(self: &Arc<Self>, choice: Choice, position_ns: u64) -> Program {
        Program::new(self.clone(), choice, position_ns)
    }
}
