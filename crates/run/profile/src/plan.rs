//! What a replay fetches, in which order.
//!
//! First all look-ups, those of folders before those of what is in them; missing paths are looked up, too. Then data, by the
//! time of first need. Parts of a file with small holes between them are fetched at once, as long as few bytes are fetched for
//! nothing. A step says what to do if its file has changed.

use std::ops::Range;

use crate::need::{Identity, Kind};
use crate::profile::{Entry, Profile};
use crate::spans::PAGE_BYTES;

/// The longest piece of a file that one step fetches, in pages: 16 MiB.
pub const PIECE_PAGES_MAX: u64 = (16 << 20) / PAGE_BYTES;
/// Holes of fewer pages may be fetched with their neighbours: a device reads 128 KiB about as soon as a page.
const HOLE_PAGES_MAX: u64 = (128 << 10) / PAGE_BYTES;
/// What all holes may add, as a part of what is needed: half of the tenth that a replay may read for nothing.
const HOLES_PART: u64 = 20;

/// What one plan fetches at most, in pages: 1 TiB. More than the memory of a machine is of no use, and steps are many then.
const PLAN_PAGES_MAX: u64 = (1 << 40) / PAGE_BYTES;

/// One thing to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Of what.
    pub path: Vec<u8>,
    /// When a run first needed it, in microseconds since its start.
    pub at_us: u32,
    /// What to do.
    pub act: Act,
}

/// What a step does with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Looks it up, whether it is there or not.
    LookUp,
    /// Lists the directory.
    List,
    /// Reads the target of the symbolic link.
    ReadLink,
    /// Reads a part of the file ahead.
    Data {
        /// The file that was recorded.
        identity: Identity,
        /// Bytes.
        range: Range<u64>,
        /// Whether this step fetches the file's first block where the file has changed.
        first_block_if_changed: bool,
    },
}

impl Act {
    /// Which bytes to fetch of the file as it is found. Of a changed file the first block, once; of a missing one nothing.
    #[must_use]
    pub fn usable(&self, found: Option<&Identity>) -> Option<Range<u64>> {
        let Self::Data { identity, range, first_block_if_changed } = self else { return None };
        let found = found?;
        let range = if identity.is_unchanged(found) {
            range.clone()
        } else if *first_block_if_changed {
            0..PAGE_BYTES.min(found.size)
        } else {
            return None;
        };
        (!range.is_empty()).then_some(range)
    }
}

/// The steps of a replay, in order.
#[derive(Debug)]
pub struct Plan {
    entries: Vec<Entry>,
    /// Numbers of entries, with what to do.
    steps: std::vec::IntoIter<(usize, u32, Act)>,
}

impl Plan {
    /// What to fetch for a run of the profile's command.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let mut steps = Vec::new();
        let mut pieces = Vec::new();
        for (number, entry) in profile.entries().iter().enumerate() {
            if profile.offers(entry.uses) {
                steps.extend(look_ups(entry).map(|act| (number, entry.first_us, act)));
            }
        }
        let holes = Holes::affordable(&profile);
        let mut room = PLAN_PAGES_MAX;
        for (number, entry) in profile.entries().iter().enumerate() {
            let file = data(&profile, entry, &holes, &mut room);
            pieces.extend(file.map(|(at_us, act)| (number, at_us, act)));
        }
        pieces.sort_by_key(|(_, at_us, _)| *at_us);
        steps.append(&mut pieces);
        Self { entries: profile.entries, steps: steps.into_iter() }
    }

    /// Paths of the remaining steps, with what each does.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (&[u8], &Act)> {
        let path = |number: usize| self.entries.get(number).map_or(&[][..], |entry| &entry.path);
        self.steps.as_slice().iter().map(move |(number, _, act)| (path(*number), act))
    }

    /// Bytes that its remaining steps fetch, if no file has changed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of = |act: &Act| match act {
            Act::Data { range, .. } => range.end - range.start,
            _ => 0,
        };
        self.steps.as_slice().iter().map(|(_, _, act)| of(act)).sum()
    }
}

impl Iterator for Plan {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let (number, at_us, act) = self.steps.next()?;
        Some(Step { path: self.entries[number].path.clone(), at_us, act })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.steps.size_hint()
    }
}

impl ExactSizeIterator for Plan {}

/// How the path's inode, listing and target get into memory. Listing a directory looks it up as well.
fn look_ups(entry: &Entry) -> impl Iterator<Item = Act> {
    let (list, link) = (entry.kinds.has(Kind::Directory), entry.kinds.has(Kind::Link));
    let others = [Kind::Read, Kind::Mapped, Kind::LookUp, Kind::Missing, Kind::Executed];
    let look_up = !list && others.into_iter().any(|kind| entry.kinds.has(kind));
    let acts = [(link, Act::ReadLink), (look_up, Act::LookUp), (list, Act::List)];
    acts.into_iter().filter(|(is_due, _)| *is_due).map(|(_, act)| act)
}

/// Which holes are fetched: the smallest ones, as many as the bytes allow that may be fetched for nothing.
struct Holes {
    /// Holes below this size, in pages.
    below: u64,
}

impl Holes {
    fn affordable(profile: &Profile) -> Self {
        let mut needed = 0;
        // How many pages all holes of a size have together.
        let mut pages_by_size = [0; HOLE_PAGES_MAX as usize];
        for entry in profile.entries() {
            let mut end = None;
            for span in entry.spans.iter().filter(|span| profile.offers(span.uses)) {
                needed += span.pages.end - span.pages.start;
                let hole = end.map_or(0, |end| span.pages.start - end);
                if let Some(pages) = pages_by_size.get_mut(hole as usize) {
                    *pages += hole;
                }
                end = Some(span.pages.end);
            }
        }
        let mut total = 0;
        let is_affordable = |pages: &&u64| {
            total += **pages;
            total <= needed / HOLES_PART
        };
        Self { below: pages_by_size.iter().take_while(is_affordable).count() as u64 }
    }
}

/// The pieces of a file that are fetched, each with the time of its first need, while there is room for pages.
fn data(
    profile: &Profile,
    entry: &Entry,
    holes: &Holes,
    room: &mut u64,
) -> impl Iterator<Item = (u32, Act)> + use<> {
    let mut pieces: Vec<(Range<u64>, u32)> = Vec::new();
    for span in entry.spans.iter().filter(|span| profile.offers(span.uses)) {
        let mut start = span.pages.start;
        if let Some((pages, first_us)) = pieces.last_mut()
            && start - pages.end < holes.below
        {
            let end = span.pages.end.min(pages.start + PIECE_PAGES_MAX);
            if end > start {
                pages.end = end;
                *first_us = span.first_us.min(*first_us);
                start = end;
            }
        }
        let end = span.pages.end.min(start.saturating_add(*room));
        *room -= end.saturating_sub(start);
        while start < end {
            let piece_end = end.min(start + PIECE_PAGES_MAX);
            pieces.push((start..piece_end, span.first_us));
            start = piece_end;
        }
    }
    // The earliest step brings the first block of a file that has changed.
    let earliest = pieces.iter().map(|(_, first_us)| *first_us).zip(0_usize..).min().map(|(_, at)| at);
    let identity = entry.identity;
    pieces.into_iter().enumerate().filter_map(move |(at, (pages, first_us))| {
        let identity = identity?;
        let range = pages.start * PAGE_BYTES..(pages.end * PAGE_BYTES).min(identity.size);
        Some((first_us, Act::Data { identity, range, first_block_if_changed: Some(at) == earliest }))
    })
}
