//! How long the stalls of a process take where nothing was prefetched.
//!
//! # Model
//!
//! There are three exponentially weighted means, each for its own question:
//!
//! * *recent* (weight 1/8): the next stall. Hints in the queue of the device are part of it.
//! * *alone* (1/8): a later miss of an evicted page, without hints in the queue. The first few speculations count as well, or a
//!   process that forks at once would have none.
//! * *lasting* (1/64, and at first nearly equal weights): the kind of device. On a fast device some stalls wait ten times as long
//!   for something else. Such a stall must not make the device a slow one.
//!
//! One wait of seconds says nothing of the stalls to come, so each counts as at most eight times the recent mean.
//!
//! Times are in ticks.

use crate::mean::mean;

/// Weights, as powers of 1/2.
const RECENT: u32 = 3;
const LASTING: u32 = 6;
/// How much longer than recent ones a stall may count as.
const TIMES_MAX: u64 = 8;
/// What any stall may count as, as a shift of a second: 61 us.
const ALWAYS: u32 = 14;

/// The means, and how many stalls there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    count: u64,
    recent: u64,
    alone: u64,
    lasting: u64,
    lasting_count: u32,
}

impl Stalls {
    /// There were none.
    pub const fn new() -> Self {
        Self { count: 0, recent: 0, alone: 0, lasting: 0, lasting_count: 0 }
    }

    /// One took `duration`, `behind_hints` that may have been in the queue before it; it is a `lesson` if it is one of the
    /// first.
    pub fn on_stall(&mut self, duration: u64, behind_hints: bool, lesson: bool, ticks_per_second: u64) {
        let is_first = self.recent == 0;
        if is_first {
            (self.recent, self.alone) = (duration, duration);
        }
        let most = self.recent.saturating_mul(TIMES_MAX).max(ticks_per_second >> ALWAYS);
        let counted = duration.min(most);
        if !is_first {
            self.recent = mean(self.recent, counted, RECENT);
            if !behind_hints || lesson {
                self.alone = mean(self.alone, counted, RECENT);
            }
        }
        if !behind_hints {
            self.lasting_count = self.lasting_count.saturating_add(1);
            self.lasting = mean(self.lasting, counted, self.lasting_count.ilog2().min(LASTING));
        }
        self.count = self.count.saturating_add(1);
    }

    /// There were `count` more, of which the mean is told of by another.
    pub const fn on_unseen(&mut self, count: u64) {
        self.count = self.count.saturating_add(count);
    }

    /// How many there were.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// What the next one takes; 0 before the first.
    pub const fn recent(&self) -> u64 {
        self.recent
    }

    /// What one takes where no hints are in the queue.
    pub const fn alone(&self) -> u64 {
        self.alone
    }

    /// The same, as the device has it in the long run.
    pub const fn lasting(&self) -> u64 {
        self.lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const US: u64 = 1_000;
    const MS: u64 = 1_000 * US;

    fn after(durations: impl IntoIterator<Item = u64>) -> Stalls {
        let mut stalls = Stalls::new();
        durations.into_iter().for_each(|duration| stalls.on_stall(duration, false, false, SECOND));
        stalls
    }

    #[test]
    fn the_first_stall_is_what_they_take() {
        let stalls = after([MS]);
        assert_eq!((stalls.count(), stalls.recent(), stalls.alone(), stalls.lasting()), (1, MS, MS, MS));
    }

    #[test]
    fn those_that_nobody_saw_before_it_do_not_make_the_first_one_short() {
        let mut stalls = Stalls::new();
        stalls.on_unseen(7);
        stalls.on_stall(MS, false, false, SECOND);
        assert_eq!((stalls.count(), stalls.recent(), stalls.lasting()), (8, MS, MS));
    }

    #[test]
    fn one_long_wait_makes_no_slow_device() {
        let mut durations = [40 * US; 100];
        durations[99] = 320 * US;
        let stalls = after(durations);
        assert!(stalls.recent() > 70 * US, "{stalls:?}");
        assert!(stalls.lasting() < 46 * US, "{stalls:?}");
    }

    #[test]
    fn another_device_is_known_after_some_more_stalls() {
        let stalls = after([40 * US; 1_000].into_iter().chain([MS; 100]));
        assert!(stalls.recent() > 990 * US && stalls.lasting() > 700 * US, "{stalls:?}");
    }

    #[test]
    fn stalls_behind_hints_are_none_of_those_alone() {
        let mut stalls = after([MS; 20]);
        for _ in 0..100 {
            stalls.on_stall(4 * MS, true, false, SECOND);
        }
        assert_eq!((stalls.alone(), stalls.lasting()), (MS, MS));
        assert!(stalls.recent() > 3 * MS);
        stalls.on_stall(4 * MS, true, true, SECOND);
        assert!(stalls.alone() > MS && stalls.lasting() == MS, "a lesson");
    }

    #[test]
    fn a_wait_of_minutes_counts_as_a_few() {
        let stalls = after([MS, 100 * SECOND]);
        assert_eq!(stalls.recent(), MS + 7 * MS / 8);
    }
}
