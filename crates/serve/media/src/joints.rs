//! Times that go on where those of a file do not: at the joints of streams that were put one after the other, and where its clock
//! starts again.
//!
//! Each stream is decoded in the order of its file, so a time well behind the one before is of another recording. So is one that is
//! far ahead of all streams. All streams of a file jump together, but not at once: for a while, times of either side come in turns.

use std::mem;

/// A joint is a step back by more than this part of a second: less of it is rounding, or pictures that tell only when they are seen.
const BACKS_PER_SECOND: i64 = 2;
/// What is taken to lie between two streams that were joined: a part of a second.
const JOINTS_PER_SECOND: i64 = 25;

/// The times of all streams of a file, in ticks.
#[derive(Debug)]
pub(crate) struct Times {
    /// Ticks of a second.
    second: i64,
    /// A step ahead by more than this is a joint, if all streams take it.
    ahead_max: i64,
    /// After how many ticks the clock starts again.
    round: Option<i64>,
    /// What is added to times as they are, now and before the last joint.
    offsets: [i64; 2],
    last: Option<i64>,
    /// Whether the next time is of another recording.
    is_another: bool,
}

impl Times {
    pub fn new(second: i64, ahead_max: i64, round: Option<i64>) -> Self {
        Self { second, ahead_max, round, offsets: [0; 2], last: None, is_another: false }
    }

    /// The latest of all streams.
    pub fn now(&self) -> Option<i64> {
        self.last
    }

    /// Something has a time of its own, which a joint comes after.
    pub fn reach(&mut self, time: i64) {
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    /// Another recording begins, as the file says. Its times go on from here, unless they do so by themselves.
    pub fn begin_another(&mut self) {
        self.is_another = self.last.is_some();
    }

    /// A time that goes on after `before`, the one before in the same stream.
    pub fn go_on(&mut self, told: i64, before: Option<i64>) -> i64 {
        let Some(latest) = before.max(self.last) else {
            self.last = Some(told);
            return told;
        };
        let near = before.unwrap_or(latest);
        // A stream that has just begun may lie before the others.
        let back_max = if before.is_some() { self.second / BACKS_PER_SECOND } else { self.ahead_max };
        let least = if mem::take(&mut self.is_another) { latest } else { near.saturating_sub(back_max) };
        let goes_on = |time: &i64| {
            let is_near = [near, latest].iter().any(|near| time.saturating_sub(*near) <= self.ahead_max);
            is_near && *time >= least
        };
        let candidates = self.offsets.map(|offset| self.nearest(told.saturating_add(offset), near));
        // Of the two sides of a joint, it is the one that the streams are at.
        let found = candidates.into_iter().filter(goes_on).min_by_key(|time| time.abs_diff(latest));
        let time = found.unwrap_or_else(|| {
            // All streams go on after what the furthest of them has.
            let time = latest.saturating_add(self.second / JOINTS_PER_SECOND);
            self.offsets = [time.saturating_sub(told), self.offsets[0]];
            time
        });
        self.reach(time);
        time
    }

    /// The time nearest to `near` that differs by rounds of the clock.
    fn nearest(&self, time: i64, near: i64) -> i64 {
        let Some(round) = self.round else { return time };
        let half = round / 2;
        near + (time - near + half).rem_euclid(round) - half
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: i64 = 1 << 33;
    const SECOND: i64 = 90_000;

    fn times() -> Times {
        Times::new(SECOND, 10 * SECOND, Some(ROUND))
    }

    #[test]
    fn the_clock_starts_again_and_times_go_on() {
        let mut times = times();
        assert_eq!(times.go_on(ROUND - 10, None), ROUND - 10);
        // Sound comes later in the file, and may lie before.
        assert_eq!(times.go_on(ROUND - 500, None), ROUND - 500);
        assert_eq!(times.go_on(5, Some(ROUND - 10)), ROUND + 5);
        assert_eq!(times.go_on(ROUND - 400, Some(ROUND - 500)), ROUND - 400);
    }

    #[test]
    fn a_stream_that_pauses_is_no_joint() {
        let mut times = times();
        let unit = times.go_on(1_000, None);
        let picture = (0..100).fold(1_000, |before, number| times.go_on(number * 90_000, Some(before)));
        assert_eq!(times.go_on(picture + 7, Some(unit)), picture + 7);
        assert_eq!(times.go_on(picture + 90_000, Some(picture)), picture + 90_000);
    }

    #[test]
    fn streams_that_were_joined_go_on_together_however_short_they_are() {
        for first in [100_000, 200_000, 1_000_000] {
            let mut times = times();
            let (picture, sound) = (times.go_on(first, None), times.go_on(first + 500, None));
            let picture = times.go_on(50_000, Some(picture));
            assert_eq!(picture, first + 500 + SECOND / 25);
            // Sound of the first one that comes after the joint, and of the second one.
            let sound = times.go_on(first + 2_000, Some(sound));
            assert_eq!(sound, first + 2_000);
            assert_eq!(times.go_on(51_000, Some(sound)), picture + 1_000);
            assert_eq!(times.go_on(53_600, Some(picture)), picture + 3_600);
        }
    }

    #[test]
    fn a_recording_that_is_told_of_goes_on_however_short_the_one_before_was() {
        let mut times = times();
        let before = times.go_on(0, None);
        times.reach(SECOND / 2);
        times.begin_another();
        let joined = times.go_on(0, Some(before));
        assert_eq!(joined, SECOND / 2 + SECOND / 25);
        assert_eq!(times.go_on(7_200, Some(joined)), joined + 7_200);
        // Times that go on by themselves stay as they are.
        times.begin_another();
        assert_eq!(times.go_on(10_800, Some(joined + 7_200)), joined + 10_800);
    }

    #[test]
    fn one_time_that_is_wrong_has_no_others_follow_it() {
        for wrong in [600 * SECOND, 2 * SECOND] {
            let mut times = times();
            let before = times.go_on(5 * SECOND, None);
            let broken = times.go_on(wrong, Some(before));
            assert_eq!(broken, before + SECOND / 25);
            assert_eq!(times.go_on(5 * SECOND + 7_200, Some(broken)), before + 7_200);
        }
    }
}
