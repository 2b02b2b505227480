//! What a machine fetched in an epoch, and whether what was foretold for it was needed.

use std::ops::Range;

use crate::message::{Access, Minipage};

/// What is noted of an epoch there is room for at first, and at most. An epoch with more tells nothing.
const NOTES: usize = 1 << 12;
const NOTES_MAX: usize = 1 << 16;

/// A minipage, and what of it.
pub type Fetch = (Minipage, Access);

/// An epoch that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// What was fetched in it, each minipage once, in their order.
    pub fetches: Vec<Fetch>,
    /// How often it was right to foretell such an epoch.
    pub tally: Tally,
}

impl Epoch {
    /// Without minipages of these numbers.
    pub fn forget(&mut self, numbers: &Range<u32>) {
        forget(&mut self.fetches, numbers);
    }
}

/// Leaves out what is said of minipages of these numbers.
fn forget<T>(said: &mut Vec<(Minipage, T)>, numbers: &Range<u32>) {
    said.retain(|(minipage, _)| !numbers.contains(&minipage.0));
}

/// How often it was right of late to foretell a minipage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    right: u32,
    of: u32,
}

impl Tally {
    /// Beyond so many, what was long ago counts less.
    const MAX: u32 = 64;

    fn add(&mut self, is_right: bool) {
        if self.of == Self::MAX {
            (self.right, self.of) = (self.right / 2, self.of / 2);
        }
        self.right += u32::from(is_right);
        self.of += 1;
    }

    /// Of two sets, of which one foretold the other: so many of so many.
    pub const fn of(right: usize, of: usize) -> Self {
        if right * 10 < of * 9 { Self { right: 0, of: 0 } } else { Self { right: 1, of: 1 } }
    }

    /// Whether nothing is known.
    pub const fn is_new(self) -> bool {
        self.of == 0
    }

    /// Right nine times of ten at least.
    pub const fn is_good(self) -> bool {
        self.of > 0 && self.right * 10 >= self.of * 9
    }
}

/// What happened in an epoch, in the order in which it did.
#[derive(Clone, Debug)]
pub struct Log {
    notes: Vec<(Minipage, Note)>,
    is_full: bool,
    /// The machine waits at the barrier that ends the epoch.
    has_arrived: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Fetched(Access),
    Lost,
}

impl Log {
    pub fn new() -> Self {
        Self { notes: Vec::with_capacity(NOTES), is_full: false, has_arrived: false }
    }

    pub fn fetched(&mut self, minipage: Minipage, access: Access) {
        self.push(minipage, Note::Fetched(access));
    }

    pub fn lost(&mut self, minipage: Minipage) {
        if !self.has_arrived {
            self.push(minipage, Note::Lost);
        }
    }

    pub const fn arrived(&mut self) {
        self.has_arrived = true;
    }

    fn push(&mut self, minipage: Minipage, note: Note) {
        if self.notes.len() < self.notes.capacity() {
            self.notes.push((minipage, note));
        } else {
            self.is_full = true;
        }
    }

    /// What became of each minipage, in their order, if all of it is known; and begins the next epoch.
    pub fn take(&mut self) -> Option<Vec<(Minipage, Story)>> {
        self.has_arrived = false;
        if std::mem::take(&mut self.is_full) {
            self.notes.clear();
            self.notes.reserve(NOTES_MAX.min(2 * self.notes.capacity()));
            return None;
        }
        let stories = stories(&mut self.notes);
        self.notes.clear();
        Some(stories)
    }

    /// Leaves minipages of these numbers out.
    pub fn forget(&mut self, numbers: &Range<u32>) {
        forget(&mut self.notes, numbers);
    }

    /// How much is noted.
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    /// What became of each minipage since so much was noted, in their order, if all of it is known. What was fetched since is
    /// forgotten.
    pub fn take_since(&mut self, len: usize) -> Option<Vec<(Minipage, Story)>> {
        if self.is_full || len > self.notes.len() {
            return None;
        }
        let mut since = self.notes.split_off(len);
        self.notes.extend(since.iter().filter(|(_, note)| *note == Note::Lost));
        Some(stories(&mut since))
    }
}

fn stories(notes: &mut [(Minipage, Note)]) -> Vec<(Minipage, Story)> {
    notes.sort_by_key(|(minipage, _)| *minipage);
    let each = notes.chunk_by(|(one, _), (other, _)| one == other);
    each.map(|notes| (notes[0].0, Story::of(notes.iter().map(|(_, note)| *note)))).collect()
}

/// What became of a minipage in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// What a thread first fetched it for.
    first: Option<Access>,
    is_written: bool,
    /// Another machine wanted it.
    is_lost: bool,
    /// A thread fetched it after that.
    is_fetched_again: bool,
}

impl Story {
    fn of(notes: impl Iterator<Item = Note>) -> Self {
        notes.fold(Self::default(), |story, note| match note {
            Note::Lost => Self { is_lost: true, ..story },
            Note::Fetched(access) => Self {
                first: story.first.or(Some(access)),
                is_written: story.is_written || access == Access::Write,
                is_fetched_again: story.is_lost,
                ..story
            },
        })
    }

    /// What to fetch in another such epoch, at its beginning. A minipage that two machines want in one epoch is written when its
    /// turn has come, and not at the beginning.
    const fn fetch(self) -> Option<Access> {
        match self.first {
            Some(_) if self.is_written && !self.is_lost => Some(Access::Write),
            Some(Access::Read) => Some(Access::Read),
            _ => None,
        }
    }

    /// The same of one that the machine had requested at the beginning, of which uses are not seen.
    fn fetch_foretold(self, requested: Access) -> Option<Access> {
        Self { first: Some(requested), is_written: self.is_written || requested == Access::Write, ..self }
            .fetch()
    }

    /// Whether a thread had to fetch so much of it.
    fn needed(self, access: Access) -> bool {
        self.first.is_some() && (access == Access::Read || self.is_written)
    }
}

/// What is known of what was foretold, when the epoch is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How much was not needed, as far as that is seen.
    pub unneeded: u64,
    /// More than half of the sample was not: the program does something else now.
    pub is_refuted: bool,
}

/// What was foretold for an epoch.
#[derive(Clone, Debug, Default)]
pub struct Foretold {
    /// What the machine requested.
    pub requested: Vec<Fetch>,
    /// What it left to threads.
    pub sample: Vec<Fetch>,
    /// How often that was right in earlier epochs like this.
    pub tally: Tally,
    /// Whether not all of it is sample.
    pub is_trusted: bool,
}

impl Foretold {
    /// Without minipages of these numbers.
    pub fn forget(&mut self, numbers: &Range<u32>) {
        forget(&mut self.requested, numbers);
        forget(&mut self.sample, numbers);
    }

    /// The epoch is over, and this became of the minipages.
    pub fn end(self, stories: Option<Vec<(Minipage, Story)>>) -> (Epoch, Verdict) {
        let Self { requested, sample, mut tally, is_trusted } = self;
        let Some(stories) = stories else { return Default::default() };
        let of = |minipage: Minipage| {
            let place = stories.binary_search_by_key(&minipage, |(minipage, _)| *minipage);
            place.map_or_else(|_| Story::default(), |place| stories[place].1)
        };
        let (mut unneeded, sampled) = (0, sample.len() as u64);
        for (minipage, access) in sample {
            let is_right = of(minipage).needed(access);
            tally.add(is_right);
            unneeded += u64::from(!is_right && is_trusted);
        }
        let is_refuted = 2 * unneeded > sampled;
        let mut fetches: Vec<Fetch> = vec![];
        for (minipage, access) in &requested {
            let story = of(*minipage);
            if story.is_fetched_again {
                tally.add(false);
                unneeded += 1;
            }
            fetches.extend(story.fetch_foretold(*access).map(|access| (*minipage, access)));
        }
        let is_other =
            |minipage| requested.binary_search_by_key(minipage, |(minipage, _)| *minipage).is_err();
        let others = stories.iter().filter(|(minipage, _)| is_other(minipage));
        fetches.extend(others.filter_map(|(minipage, story)| Some((*minipage, story.fetch()?))));
        fetches.sort_unstable();
        (Epoch { fetches, tally }, Verdict { unneeded, is_refuted })
    }
}
