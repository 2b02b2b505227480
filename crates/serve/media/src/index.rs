//! Where the samples of a track lie, and when they are due: a few bytes for each.
//!
//! A sample is a byte of flags, its length, and what differs from what the one before lets expect:
//!
//! ```text
//!   +-------+--------+---------------------+--------------------+-------------------------+
//!   | flags | length | gap before it, if   | time since the one | time from decoding to   |
//!   |       |        | there is one        | before, if another | presentation, if another|
//!   +-------+--------+---------------------+--------------------+-------------------------+
//! ```
//!
//! Before each 64th, what there is to expect is noted: a *page*, from which one can go on.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The most samples that a file may have in all its tracks: a week of sound and pictures.
pub const SAMPLES_MAX: u64 = 1 << 24;

/// The most samples of a file of that size: each has a byte in it at least, if only in a table. So an index is never much
/// larger than its file.
pub fn samples_max(file_bytes: u64) -> u64 {
    SAMPLES_MAX.min(file_bytes)
}

/// Counts a sample that a file tells of, whether it becomes a part of an index or not.
pub(crate) fn spend(samples_left: &mut u64) -> Result<()> {
    let what = "more samples than bytes, or more than the 16 million that there may be";
    *samples_left = samples_left.checked_sub(1).ok_or(Error::TooLarge { what })?;
    Ok(())
}

/// Times beyond this are nothing that anybody recorded, and sums of them might not fit.
const TICKS_MAX: i64 = 1 << 60;

const PAGE_SAMPLES: u64 = 64;

/// A sample as its container tells of it. Times are in ticks of the track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where in the file it begins.
    pub at: u64,
    /// How long it is.
    pub bytes: u32,
    /// When it is to be with the decoder.
    pub decode: i64,
    /// When it is seen or heard.
    pub presentation: i64,
    /// Whether decoding can begin here.
    pub is_sync: bool,
}

/// A position in a track: the sample that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    number: u64,
    code_at: usize,
    expected: Expected,
}

impl Cursor {
    /// How many samples come before it.
    pub(crate) fn number(self) -> u64 {
        self.number
    }
}

/// What the sample before lets expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Expected {
    at: u64,
    decode: i64,
    step: i64,
    delay: i64,
}

/// What there is of an index beside its codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub codes_bytes: usize,
    shift: i64,
    lead: i64,
    /// How long the last sample lasts.
    step: i64,
}

/// All samples of a track, in the order of decoding.
#[derive(Clone, Debug, Default)]
pub struct Index {
    pages: Vec<Page>,
    codes: Vec<u8>,
    count: u64,
    payload_bytes: u64,
    sync_bytes: u64,
    /// What is added to all times.
    shift: i64,
    /// How much earlier samples are decoded than the codes say.
    lead: i64,
    /// The earliest and the latest presentation, the latter with its duration.
    begin: i64,
    last: i64,
    end: i64,
    /// The least time from decoding to presentation.
    delay_min: i64,
    is_all_sync: bool,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    cursor: Cursor,
    has_sync: bool,
}

const SYNC: u8 = 1;
const GAP: u8 = 2;
const STEP: u8 = 4;
const DELAY: u8 = 8;

impl Index {
    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many bytes they have together.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// How many of those are of samples that decoding can begin at.
    pub fn sync_bytes(&self) -> u64 {
        self.sync_bytes
    }

    /// The first time at which something is presented; 0 without samples.
    pub fn begin(&self) -> i64 {
        self.begin + self.shift
    }

    /// The last time at which something is presented; 0 without samples.
    pub(crate) fn last(&self) -> i64 {
        self.last + self.shift
    }

    /// When the last presentation is over; 0 without samples.
    pub fn end(&self) -> i64 {
        self.end + self.shift
    }

    /// When the last sample is to be with the decoder; `None` without samples.
    pub(crate) fn last_decode(&self) -> Option<i64> {
        let last = self.samples_of(self.pages.last()?).last();
        last.map(|(_, entry)| entry.decode)
    }

    /// Whether decoding can begin at every sample.
    pub fn is_all_sync(&self) -> bool {
        self.is_all_sync
    }

    /// Whether decoding can begin anywhere at all.
    pub fn has_sync(&self) -> bool {
        self.pages.iter().any(|page| page.has_sync)
    }

    /// What it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.codes.capacity() + self.pages.capacity() * size_of::<Page>()
    }

    /// The sample at `cursor`, which is moved on; `None` at the end.
    pub fn next(&self, cursor: &mut Cursor) -> Option<Entry> {
        let mut rest = self.codes.get(cursor.code_at..)?;
        let (&flags, after) = rest.split_first()?;
        rest = after;
        let bytes = read_number(&mut rest);
        let mut signed = |flag| if flags & flag != 0 { unfold(read_number(&mut rest)) } else { 0 };
        let Expected { at, decode, step, delay } = cursor.expected;
        let at = at.wrapping_add_signed(signed(GAP));
        // Codes that were stored may be of anything; their reader checks the sums.
        let step = step.wrapping_add(signed(STEP));
        let decode = decode.wrapping_add(step);
        let delay = delay.wrapping_add(signed(DELAY));
        *cursor = Cursor {
            number: cursor.number + 1,
            code_at: self.codes.len() - rest.len(),
            expected: Expected { at: at.wrapping_add(bytes), decode, step, delay },
        };
        Some(Entry {
            at,
            bytes: bytes as u32,
            decode: decode.wrapping_add(self.shift).wrapping_sub(self.lead),
            presentation: decode.wrapping_add(self.shift).wrapping_add(delay),
            is_sync: flags & SYNC != 0,
        })
    }

    /// All samples from `cursor` on.
    pub fn entries_from(&self, mut cursor: Cursor) -> impl Iterator<Item = Entry> {
        std::iter::from_fn(move || self.next(&mut cursor))
    }

    /// The last sample, of those where decoding can begin, that is presented at `time` or before; the first of them if
    /// there is none before; the very first if decoding can begin nowhere.
    pub fn sync_at(&self, time: i64) -> Cursor {
        let time = time.saturating_sub(self.shift);
        // What is presented by then was decoded by then, but for the time from decoding to presentation.
        let decoded_by = time.saturating_sub(self.delay_min);
        let pages = self.pages.partition_point(|page| page.cursor.expected.decode < decoded_by);
        let before =
            self.pages[..pages.max(1).min(self.pages.len())].iter().rev().filter(|page| page.has_sync);
        let found = before.map(|page| self.syncs_of(page).take_while(|sync| sync.1 <= time).last());
        let first = || {
            let page = self.pages.iter().find(|page| page.has_sync)?;
            self.syncs_of(page).next()
        };
        found.flatten().next().or_else(first).map_or_else(Cursor::default, |(cursor, _)| cursor)
    }

    /// The cursor of the same sample in this index, which has the samples of the cursor's own one and more.
    pub(crate) fn cursor_like(&self, other: Cursor) -> Cursor {
        let page = usize::try_from(other.number / PAGE_SAMPLES).ok().and_then(|page| self.pages.get(page));
        let mut cursor = page.or(self.pages.last()).map_or_else(Cursor::default, |page| page.cursor);
        while cursor.number < other.number && self.next(&mut cursor).is_some() {}
        cursor
    }

    /// The last sample before that with a number, of those where decoding can begin.
    pub(crate) fn sync_before(&self, number: u64) -> Option<Cursor> {
        let pages = usize::try_from(number.div_ceil(PAGE_SAMPLES)).unwrap_or(usize::MAX);
        let before = self.pages[..pages.min(self.pages.len())].iter().rev().filter(|page| page.has_sync);
        let mut last = before.filter_map(|page| {
            let syncs = self.samples_of(page).filter(|(_, entry)| entry.is_sync).map(|(at, _)| at);
            syncs.take_while(|at| at.number < number).last()
        });
        last.next()
    }

    /// The first sample from that with a number on, of those where decoding can begin.
    pub(crate) fn sync_after(&self, number: u64) -> Option<Cursor> {
        let page = usize::try_from(number / PAGE_SAMPLES).ok()?;
        self.first_sync(page, |at, _| at.number >= number)
    }

    /// The first sample that is decoded at `time` or later, of those where decoding can begin.
    pub(crate) fn sync_from(&self, time: i64) -> Option<Cursor> {
        let expected = time.saturating_sub(self.shift).saturating_add(self.lead);
        // The first page expects nothing yet.
        let rest = self.pages.get(1..).unwrap_or_default();
        let page = rest.partition_point(|page| page.cursor.expected.decode < expected);
        self.first_sync(page, |_, entry| entry.decode >= time)
    }

    fn first_sync(&self, page: usize, is_it: impl Fn(Cursor, Entry) -> bool) -> Option<Cursor> {
        let pages = self.pages.get(page..)?.iter().filter(|page| page.has_sync);
        let mut samples = pages.flat_map(|page| self.samples_of(page));
        samples.find(|(at, entry)| entry.is_sync && is_it(*at, *entry)).map(|(at, _)| at)
    }

    /// The samples of a page, each with where it is.
    fn samples_of(&self, page: &Page) -> impl Iterator<Item = (Cursor, Entry)> {
        let mut cursor = page.cursor;
        (0..PAGE_SAMPLES).map_while(move |_| {
            let at = cursor;
            self.next(&mut cursor).map(|entry| (at, entry))
        })
    }

    /// The sync samples of a page, each with when it is presented, before the shift.
    fn syncs_of(&self, page: &Page) -> impl Iterator<Item = (Cursor, i64)> {
        let syncs = self.samples_of(page).filter(|(_, entry)| entry.is_sync);
        syncs.map(|(at, entry)| (at, entry.presentation - self.shift))
    }

    /// The codes of all samples.
    pub(crate) fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// What is needed beside the codes to make it again.
    pub(crate) fn stored(&self) -> Stored {
        let Self { codes, shift, lead, last, end, .. } = self;
        Stored { codes_bytes: codes.len(), shift: *shift, lead: *lead, step: end - last }
    }

    /// The index of these codes, of a file of so many bytes; `None` if they tell of samples that cannot be.
    pub(crate) fn of_stored(stored: &Stored, codes: &[u8], file_bytes: u64) -> Option<Self> {
        let told = Self { codes: codes.to_vec(), ..Self::default() };
        let (mut builder, mut left) = (Builder::default(), samples_max(file_bytes));
        for entry in told.entries_from(Cursor::default()) {
            entry.at.checked_add(entry.bytes.into()).filter(|end| *end <= file_bytes)?;
            builder.push(entry, &mut left).ok()?;
        }
        let mut index = builder.finish(Some(stored.step))?;
        let bounds = -TICKS_MAX..=TICKS_MAX;
        if !bounds.contains(&stored.shift) || !bounds.contains(&stored.lead) || index.codes != codes {
            return None;
        }
        (index.shift, index.lead) = (stored.shift, stored.lead);
        Some(index)
    }

    /// Has samples decoded so much earlier that none is presented before; returns how much.
    pub(crate) fn lead(&mut self) -> i64 {
        self.lead = self.delay_min.min(0).saturating_neg();
        self.lead
    }

    /// Moves all of it in time.
    pub(crate) fn shift(&mut self, ticks: i64) {
        self.shift = self.shift.saturating_add(ticks).clamp(-TICKS_MAX, TICKS_MAX);
    }
}

/// Makes an index, sample by sample.
#[derive(Clone, Debug)]
pub(crate) struct Builder {
    index: Index,
    expected: Expected,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            index: Index {
                is_all_sync: true,
                begin: i64::MAX,
                end: i64::MIN,
                delay_min: i64::MAX,
                ..Index::default()
            },
            expected: Expected::default(),
        }
    }
}

impl Builder {
    /// Whether it has no sample yet.
    pub fn is_empty(&self) -> bool {
        self.index.count == 0
    }

    /// When the last sample that was pushed is decoded; long ago without samples.
    pub fn last_decode(&self) -> i64 {
        if self.index.count == 0 { i64::MIN } else { self.expected.decode }
    }

    /// The last time at which something is presented so far.
    pub fn latest(&self) -> i64 {
        self.index.end
    }

    /// The next sample in the order of decoding. `samples_left` are those that the file may still have. One without bytes is left
    /// out: it has nothing to be decoded, and formats of packets and of segments have none such.
    pub fn push(&mut self, entry: Entry, samples_left: &mut u64) -> Result<()> {
        spend(samples_left)?;
        let bounds = -TICKS_MAX..=TICKS_MAX;
        if !bounds.contains(&entry.decode) || !bounds.contains(&entry.presentation) {
            return Err(Error::Damaged("a sample is due thousands of years from now"));
        }
        if entry.bytes == 0 {
            return Ok(());
        }
        let index = &mut self.index;
        if index.count.is_multiple_of(PAGE_SAMPLES) {
            let cursor = Cursor { number: index.count, code_at: index.codes.len(), expected: self.expected };
            index.pages.push(Page { cursor, has_sync: false });
        }
        let (before, delay) = (self.expected, entry.presentation - entry.decode);
        let step = entry.decode - before.decode;
        let mut flags = if entry.is_sync { SYNC } else { 0 };
        let differences = [
            (GAP, entry.at.wrapping_sub(before.at) as i64),
            (STEP, step - before.step),
            (DELAY, delay - before.delay),
        ];
        for (flag, difference) in differences {
            flags |= if difference == 0 { 0 } else { flag };
        }
        index.codes.push(flags);
        write_number(entry.bytes.into(), &mut index.codes);
        for (_, difference) in differences.iter().filter(|(_, difference)| *difference != 0) {
            write_number(fold(*difference), &mut index.codes);
        }
        self.expected =
            Expected { at: entry.at.wrapping_add(entry.bytes.into()), decode: entry.decode, step, delay };

        index.count += 1;
        index.payload_bytes += u64::from(entry.bytes);
        index.sync_bytes += if entry.is_sync { u64::from(entry.bytes) } else { 0 };
        index.begin = index.begin.min(entry.presentation);
        index.end = index.end.max(entry.presentation);
        index.delay_min = index.delay_min.min(delay);
        index.is_all_sync &= entry.is_sync;
        if let Some(page) = index.pages.last_mut() {
            page.has_sync |= entry.is_sync;
        }
        Ok(())
    }

    /// The index; `None` without samples. The last sample lasts for `last_step`, or as long as the one before.
    pub fn finish(self, last_step: Option<i64>) -> Option<Index> {
        let Self { mut index, expected } = self;
        if index.count == 0 {
            return None;
        }
        let step = last_step.unwrap_or(if index.count > 1 { expected.step } else { 0 });
        index.last = index.end;
        index.end += step.clamp(0, TICKS_MAX);
        index.codes.shrink_to_fit();
        index.pages.shrink_to_fit();
        Some(index)
    }
}

/// Small for numbers near zero on either side.
fn fold(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unfold(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

/// Seven bits a byte, the lowest first, with the eighth set before more of them (LEB128).
fn write_number(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn read_number(from: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = from.split_first() else { break };
        *from = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn build(entries: &[Entry]) -> Index {
        let mut builder = Builder::default();
        let mut left = SAMPLES_MAX;
        entries.iter().for_each(|entry| builder.push(*entry, &mut left).expect("within bounds"));
        builder.finish(None).unwrap_or_default()
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let times = (-TICKS_MAX..TICKS_MAX, -TICKS_MAX..TICKS_MAX);
        (any::<u64>(), 1..=u32::MAX, times, any::<bool>()).prop_map(
            |(at, bytes, (decode, presentation), is_sync)| {
                // No sample ends after the largest offset.
                Entry { at: at >> 1, bytes, decode, presentation, is_sync }
            },
        )
    }

    /// Pictures with others that are decoded after them and seen before.
    fn film(pictures: i64, distance: i64) -> Vec<Entry> {
        let picture = |number: i64| Entry {
            at: 1000 * number as u64,
            bytes: 900,
            decode: 10 * number,
            presentation: 10 * number + [20, 50, 20, 0, 10][(number % 5) as usize],
            is_sync: number % distance == 0,
        };
        (0..pictures).map(picture).collect()
    }

    proptest! {
        #[test]
        fn what_was_put_in_comes_out(entries in prop::collection::vec(entry(), 0..300), from in 0..300_usize) {
            let index = build(&entries);
            prop_assert_eq!(index.entries_from(Cursor::default()).collect::<Vec<_>>(), entries.clone());
            let page = index.pages.get(from / PAGE_SAMPLES as usize).map(|page| page.cursor);
            if let Some(cursor) = page {
                let rest = &entries[cursor.number as usize..];
                prop_assert_eq!(index.entries_from(cursor).collect::<Vec<_>>(), rest);
            }
        }

        #[test]
        fn a_search_finds_what_looking_at_all_finds(
            pictures in 1..1000_i64, groups in 1..40_i64, time in -100..11_000_i64, shift in -50..50_i64,
        ) {
            let entries = film(pictures, 5 * groups);
            let mut index = build(&entries);
            index.shift(shift);
            let syncs = || entries.iter().filter(|entry| entry.is_sync);
            let expected = syncs().rfind(|entry| entry.presentation + shift <= time).or(syncs().next());
            let found = index.next(&mut index.sync_at(time));
            prop_assert_eq!(found.map(|found| found.at), expected.map(|entry| entry.at));
        }
    }

    #[test]
    fn a_film_of_two_hours_takes_a_few_megabytes() {
        let mut entries = film(2 * 3600 * 25, 50);
        // Lengths and gaps as between clusters and chunks.
        for (number, entry) in entries.iter_mut().enumerate() {
            entry.bytes = 9_000 + (number as u32 * 7919) % 20_000;
            entry.at = number as u64 * 30_000;
        }
        let bytes = build(&entries).memory_bytes();
        assert!(bytes < 2_000_000, "{bytes} bytes");
    }

    #[test]
    fn bytes_are_counted_apart_where_decoding_can_begin() {
        let index = build(&film(100, 10));
        assert_eq!((index.payload_bytes(), index.sync_bytes()), (90_000, 9_000));
    }

    #[test]
    fn what_has_no_bytes_is_left_out_and_the_others_keep_their_times() {
        let all = film(20, 10);
        let mut with_empty = all.clone();
        for place in [20, 10, 0] {
            with_empty.insert(place, Entry { bytes: 0, decode: 10 * place as i64, ..all[0] });
        }
        let index = build(&with_empty);
        assert_eq!(index.entries_from(Cursor::default()).collect::<Vec<_>>(), all);
        assert!(Index::of_stored(&index.stored(), index.codes(), 1 << 20).is_some());
    }

    #[test]
    fn there_is_an_end_to_samples() {
        let mut builder = Builder::default();
        let entry = Entry { at: 0, bytes: 1, decode: 0, presentation: 0, is_sync: true };
        let mut left = 2;
        builder.push(entry, &mut left).expect("the first");
        builder.push(entry, &mut left).expect("the second");
        assert!(matches!(builder.push(entry, &mut left), Err(Error::TooLarge { .. })));
        let far = Entry { decode: i64::MAX, ..entry };
        assert!(matches!(builder.push(far, &mut 1), Err(Error::Damaged(_))));
    }

    #[test]
    fn without_samples_there_is_nothing_to_find() {
        let index = Index::default();
        assert_eq!(index.next(&mut index.sync_at(0)), None);
        assert!(Builder::default().finish(None).is_none());
    }
}
