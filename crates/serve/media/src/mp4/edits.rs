//! Edit lists (ISO/IEC 14496-12, 8.6.6): which parts of a track are presented, in which order, and with which pauses.
//!
//! ```text
//!   edits   | nothing, 2 s | media from 5 s, 3 s | media from 0 s, 1 s | ...
//!   time    0              2                     5                     6
//! ```
//!
//! Of pictures that the list cuts away, the index has those that a decoder needs for pictures of the part. A part begins with the
//! last key frame by its beginning. Pictures beyond the edge of a part come at the edge, all at once, and take no time:
//!
//! ```text
//!   file    | key frame | p | p | p | ...          | p | p beyond | b | ...
//!   part                      ^ begins here                           ^ ends here
//!   time                      | key frame, p, p | p | ...         | b | p beyond
//! ```
//!
//! Pictures that are decoded after the key frame and seen before it are left out: they may need what was cut away.

use mp4_atom::Elst;

use crate::error::Result;
use crate::index::{Builder, Entry, Index, spend};
use crate::time::TimeBase;

/// How often a list may show all samples.
const SHOWN_MAX: u64 = 16;

/// How many pictures may be decoded before one that is seen earlier: more than H.264 and H.265 allow.
const REORDERED_MAX: usize = 32;

/// A part of the media, in ticks of the track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// When it is presented.
    at: i64,
    /// From where to where in the media.
    from: i64,
    until: i64,
    /// One picture, for as long as the next segment takes to come.
    is_still: bool,
}

/// The edit list of a track.
#[derive(Clone, Debug, Default)]
pub(super) struct Edits {
    segments: Vec<Segment>,
    /// When the last one is over; `None` if it lasts to the end of the media.
    end: Option<i64>,
    is_sound: bool,
    roll: i64,
}

impl Edits {
    /// Of sound, `roll_ns` is how much a decoder needs before what is heard first.
    pub fn new(list: &Elst, movie_ticks: u32, time_base: TimeBase, roll_ns: Option<i64>) -> Self {
        let in_track = |duration: u64| {
            let base = TimeBase::per_second(movie_ticks);
            let ticks = i64::try_from(duration).unwrap_or(i64::MAX);
            base.map_or(0, |base| time_base.ticks(base.nanoseconds(ticks)))
        };
        let (mut segments, mut at) = (Vec::new(), 0_i64);
        for edit in &list.entries {
            let lasts = in_track(edit.segment_duration);
            if let Some(from) = edit.media_time {
                let from = i64::try_from(from).unwrap_or(i64::MAX);
                let is_still = edit.media_rate.integer() == 0 && edit.media_rate.decimal() == 0;
                let until = from.saturating_add(if is_still { 1 } else { lasts });
                segments.push(Segment { at, from, until, is_still });
            }
            at = at.saturating_add(lasts);
        }
        let (is_sound, roll) = (roll_ns.is_some(), time_base.ticks(roll_ns.unwrap_or_default()));
        let mut edits = Self { segments, end: Some(at), is_sound, roll };
        // Where the end was not known yet, the list says 0.
        if list.entries.last().is_none_or(|last| last.segment_duration == 0) {
            edits.last_to_the_end();
        }
        edits
    }

    /// Makes the last segment last to the end of the media: the list of a fragmented file was written before its fragments.
    pub fn last_to_the_end(&mut self) {
        self.end = None;
        if let Some(last) = self.segments.last_mut().filter(|last| !last.is_still) {
            last.until = i64::MAX;
        }
    }

    /// The index of what is presented of all samples.
    pub fn apply(&self, mut index: Index) -> Result<Index> {
        let [first, rest @ ..] = self.segments.as_slice() else { return Ok(index) };
        // A sample is presented for as long as this, more or less.
        let frame = index.end().saturating_sub(index.begin()) / (index.count().max(1) as i64);
        let before = self.roll.max(frame - 1);
        let is_whole = rest.is_empty()
            && !first.is_still
            && first.until >= index.last()
            && first.from.saturating_sub(before) <= index.begin();
        if is_whole {
            index.shift(first.at.saturating_sub(first.from));
            return Ok(index);
        }
        let (mut builder, mut left) = (Builder::default(), index.count().saturating_mul(SHOWN_MAX));
        for segment in &self.segments {
            let before = if builder.is_empty() { self.roll.max(frame - 1) } else { frame - 1 };
            if !(segment.is_still && self.is_sound) {
                segment.add(&index, self.is_sound, before, &mut builder, &mut left)?;
            }
        }
        let step = self.end.map(|end| end.saturating_sub(builder.latest()));
        Ok(builder.finish(step).unwrap_or_default())
    }
}

impl Segment {
    /// Adds its samples, those that begin up to `before` ticks before it, and pictures that these need.
    fn add(
        &self,
        index: &Index,
        is_sound: bool,
        before: i64,
        builder: &mut Builder,
        left: &mut u64,
    ) -> Result<()> {
        let from = self.from.saturating_sub(before.max(0));
        let shift = self.at.saturating_sub(self.from);
        let end = self.until.saturating_add(shift);
        let first = index.sync_at(if is_sound { from } else { self.from });
        let mut key_frame = None;
        // Those beyond the end wait for one of the part that may need them.
        let mut beyond = Vec::new();
        for entry in index.entries_from(first) {
            let begun_at = *key_frame.get_or_insert(entry.presentation);
            if entry.presentation < begun_at || (is_sound && entry.presentation < from) {
                spend(left)?;
                continue;
            }
            let mut moved = Entry {
                decode: entry.decode.saturating_add(shift),
                presentation: entry.presentation.saturating_add(shift),
                ..entry
            };
            if entry.presentation >= self.until {
                if is_sound || beyond.len() == REORDERED_MAX {
                    break;
                }
                moved.presentation = end;
                beyond.push(moved);
                continue;
            }
            for moved in beyond.drain(..) {
                push(moved, builder, left)?;
            }
            if !is_sound {
                moved.presentation = moved.presentation.max(self.at);
                moved.decode = if begun_at < from { moved.decode.max(self.at) } else { moved.decode };
            }
            push(moved, builder, left)?;
        }
        Ok(())
    }
}

/// Adds a sample: nothing is decoded before what comes before it.
fn push(entry: Entry, builder: &mut Builder, left: &mut u64) -> Result<()> {
    let decode = entry.decode.min(entry.presentation);
    let decode = decode.max(builder.last_decode().min(entry.presentation));
    builder.push(Entry { decode, ..entry }, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Cursor, SAMPLES_MAX};
    use mp4_atom::{ElstEntry, FixedPoint};

    const TICKS: u32 = 1000;

    /// A picture each 40 ticks, every tenth of which needs no other.
    fn pictures(count: i64) -> Index {
        let mut builder = Builder::default();
        for number in 0..count {
            let time = 40 * number;
            let entry = Entry {
                at: 10 * number as u64,
                bytes: 10,
                decode: time,
                presentation: time,
                is_sync: number % 10 == 0,
            };
            builder.push(entry, &mut SAMPLES_MAX.clone()).expect("room");
        }
        builder.finish(Some(40)).expect("samples")
    }

    /// When which pictures come, after a list of how long and from where.
    fn shown(list: &[(u64, Option<u64>, i16)], index: Index) -> (Vec<(i64, u64)>, i64) {
        let entry = |(segment_duration, media_time, rate): &(u64, Option<u64>, i16)| ElstEntry {
            segment_duration: *segment_duration,
            media_time: *media_time,
            media_rate: FixedPoint::new(*rate, 0),
        };
        let list = Elst { entries: list.iter().map(entry).collect() };
        let base = TimeBase::per_second(TICKS).expect("a rate");
        let index = Edits::new(&list, TICKS, base, None).apply(index).expect("an index");
        let all = index.entries_from(Cursor::default()).map(|one| (one.presentation, one.at / 10));
        (all.collect(), index.end())
    }

    #[test]
    fn what_is_cut_away_at_the_end_is_not_shown() {
        let (all, end) = shown(&[(2000, Some(0), 1)], pictures(100));
        assert_eq!((all.len(), all[49], end), (50, (1960, 49), 2000));
    }

    #[test]
    fn what_is_cut_away_at_the_beginning_is_not_shown_and_pictures_begin_with_a_key_frame() {
        let (all, end) = shown(&[(2000, Some(800), 1)], pictures(100));
        assert_eq!((all.len(), all[0], end), (50, (0, 20), 2000));
        // The pictures before its beginning that others need come at once.
        let (all, _) = shown(&[(2000, Some(840), 1)], pictures(100));
        assert_eq!((all[0], all[1], all[2], all[11], all.len()), ((0, 20), (0, 21), (40, 22), (400, 31), 51));
        let (all, _) = shown(&[(200, Some(840), 1)], pictures(100));
        assert_eq!((all[0], all[1], all[2], all.len()), ((0, 20), (0, 21), (40, 22), 6));
    }

    #[test]
    fn pictures_that_are_there_to_be_decoded_only_take_no_time() {
        let entries =
            [ElstEntry { segment_duration: 80, media_time: Some(720), media_rate: FixedPoint::new(1, 0) }];
        let base = TimeBase::per_second(TICKS).expect("a rate");
        let edits = Edits::new(&Elst { entries: entries.to_vec() }, TICKS, base, None);
        let index = edits.apply(pictures(100)).expect("an index");
        let all = index.entries_from(Cursor::default()).map(|one| (one.decode, one.presentation));
        let expected = [0; 9].into_iter().chain([40]).map(|time| (time, time));
        assert_eq!(all.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    /// Pictures of which two are decoded after each key frame and seen before it, as open groups of pictures have them.
    fn open_groups() -> Index {
        let mut builder = Builder::default();
        for number in 0..30 {
            let place = number % 10;
            // In the order of decoding: the key frame, then the two before it, then the others.
            let seen = 40 * (number + [2, -1, -1, 0, 0, 0, 0, 0, 0, 0][place as usize]);
            let (decode, is_sync) = (40 * number - 80, place == 0);
            let entry = Entry { at: 10 * number as u64, bytes: 10, decode, presentation: seen, is_sync };
            builder.push(entry, &mut SAMPLES_MAX.clone()).expect("room");
        }
        builder.finish(Some(40)).expect("samples")
    }

    #[test]
    fn pictures_that_need_what_was_cut_away_are_not_shown() {
        // The cut lies between a key frame and the pictures that are decoded after it and seen before.
        let (all, _) = shown(&[(600, Some(480), 1)], open_groups());
        assert_eq!((all[0], all[1], all.len()), ((0, 10), (40, 13), 15));
        // A track's first key frame has nothing before it.
        let (all, _) = shown(&[(600, Some(0), 1)], open_groups());
        assert_eq!((all[0], all[1]), ((80, 0), (120, 3)));
    }

    #[test]
    fn all_pictures_of_a_part_are_shown_with_what_they_need_at_its_edges() {
        // From the two pictures before the second key frame to the one before the third: each edge is before its key frame.
        let (all, end) = shown(&[(440, Some(400), 1)], open_groups());
        let numbers =
            |time: i64| all.iter().filter(move |one| one.0 == time).map(|one| one.1).collect::<Vec<_>>();
        assert_eq!(
            (numbers(0), numbers(40), numbers(80)),
            (vec![0, 3, 4, 5, 6, 7, 8, 9, 11], vec![12], vec![10])
        );
        assert_eq!((numbers(400), numbers(440), end), (vec![21], vec![20], 440));
    }

    #[test]
    fn parts_come_in_the_order_of_the_list_with_pauses_between_them() {
        let list = [
            (1000, None, 1),
            (400, Some(400), 1),
            (600, None, 1),
            (400, Some(0), 1),
            (300, Some(800), 0),
            (80, Some(1200), 1),
        ];
        let (all, end) = shown(&list, pictures(100));
        let of =
            |from: i64, at: i64, count: i64| (0..count).map(move |one| (at + 40 * one, (from + one) as u64));
        let expected: Vec<_> =
            of(10, 1000, 10).chain(of(0, 2000, 10)).chain(of(20, 2400, 1)).chain(of(30, 2700, 2)).collect();
        assert_eq!((all, end), (expected, 2780));
    }

    #[test]
    fn a_list_without_durations_shifts_all() {
        let (all, end) = shown(&[(500, None, 1), (0, Some(0), 1)], pictures(20));
        assert_eq!((all.len(), all[0], end), (20, (500, 0), 1300));
    }
}
