//! How long the original's own reads wait for hints in the queue of a device.
//!
//! # Model
//!
//! Where a device serves one request at a time, the original waits for every hint that is in the queue before its own read.
//! Useless hints have no other effect. So each stall without a prefetch is compared with stalls *alone*, while there is no
//! speculation:
//!
//! ```text
//!     delay = sum of stalls beside a speculation - their number * the time of one alone      if that is positive
//! ```
//!
//! The time of one alone is an exponentially weighted mean (1/16). While there are fewer than sixteen, it counts as at least 5/4
//! of the *usual* stall, which is near the median of all. In a queue, a single stall absorbs most of the waiting. The stalls
//! after a speculation are better evidence than those before the first one, so the delay is settled when the next one begins.
//! A stall counts as at most [`QUEUE_MAX`] alone: a longer one waits for something else.
//!
//! Times are in ticks.

use crate::mean::mean;

/// Stalls alone that one stall may be taken for, at most: as many as there are hints in a queue.
pub const QUEUE_MAX: u64 = 128;
/// Stalls alone that tell what one takes.
const ALONE_MIN: u32 = 16;
/// Stalls that tell which is the usual one, at least.
const USUAL_MIN: u32 = 4;
/// Stalls of one duration that count, at most.
const ALIKE_MAX: u64 = 16;

/// The stalls of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// Mean stall alone, and how many there were.
    alone: u64,
    alone_count: u32,
    /// The usual stall, and how many there were of all.
    usual: u64,
    usual_count: u32,
    /// Stalls beside the last speculation, and what they took.
    beside: u64,
    waited: u64,
    /// The delays of those before.
    settled: u64,
}

impl Delay {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self { alone: 0, alone_count: 0, usual: 0, usual_count: 0, beside: 0, waited: 0, settled: 0 }
    }

    /// `count` stalls took `duration` each, alone or `beside` a speculation.
    pub fn on_stalls(&mut self, count: u64, duration: u64, beside: bool) {
        for _ in 0..count.min(ALIKE_MAX) {
            self.see(duration, beside);
        }
        if beside {
            let counted = duration.min(self.usual.saturating_mul(QUEUE_MAX));
            self.beside = self.beside.saturating_add(count);
            self.waited = self.waited.saturating_add(counted.saturating_mul(count));
        }
    }

    /// How much longer those beside the last speculation took.
    pub fn ticks(&self) -> u64 {
        let alone = match (self.alone_count, self.usual_count) {
            (ALONE_MIN.., _) => self.alone,
            (_, USUAL_MIN..) => self.alone.max(self.usual.saturating_add(self.usual / 4)),
            _ => return 0,
        };
        self.waited.saturating_sub(alone.saturating_mul(self.beside))
    }

    /// The delays of all speculations.
    pub fn total(&self) -> u64 {
        self.settled.saturating_add(self.ticks())
    }

    /// Another speculation begins.
    pub fn settle(&mut self) {
        self.settled = self.total();
        (self.beside, self.waited) = (0, 0);
    }

    fn see(&mut self, duration: u64, beside: bool) {
        let step = self.usual / if self.usual_count < USUAL_MIN { 2 } else { 16 };
        self.usual = match self.usual_count {
            0 => duration,
            _ => duration.max(self.usual.saturating_sub(step)).min(self.usual.saturating_add(step)),
        };
        self.usual_count = self.usual_count.saturating_add(1);
        if !beside {
            self.alone = if self.alone_count == 0 { duration } else { mean(self.alone, duration, 4) };
            self.alone_count = self.alone_count.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn stalls_that_take_what_they_take_alone_are_no_delay() {
        let mut delay = Delay::new();
        for number in 0..200 {
            let jitter = [MS, MS * 9 / 10, MS * 11 / 10, MS][number % 4];
            delay.on_stalls(1, jitter, number >= 100);
        }
        assert!(delay.ticks() < 3 * MS, "{}", delay.ticks());
    }

    #[test]
    fn one_stall_behind_the_queue_is_told_from_those_around_it() {
        let mut delay = Delay::new();
        delay.on_stalls(1, MS, false);
        for duration in [MS, 50 * MS, MS, MS, MS, MS, MS, MS] {
            delay.on_stalls(1, duration, true);
        }
        assert!((46 * MS..50 * MS).contains(&delay.ticks()), "{}", delay.ticks());
        let total = delay.total();
        for _ in 0..2 {
            delay.settle();
            assert_eq!((delay.ticks(), delay.total()), (0, total), "once");
        }
    }

    #[test]
    fn what_all_stalls_wait_for_beside_a_speculation_is_a_delay() {
        let mut delay = Delay::new();
        delay.on_stalls(20, MS, false);
        for _ in 0..50 {
            delay.on_stalls(1, 3 * MS, true);
        }
        assert_eq!(delay.ticks(), 100 * MS);
    }

    #[test]
    fn stalls_that_are_longer_afterwards_too_were_not_delayed() {
        let mut delay = Delay::new();
        delay.on_stalls(20, MS / 10, false);
        delay.on_stalls(20, MS, true);
        assert!(delay.ticks() > 17 * MS);
        delay.on_stalls(16, MS, false);
        delay.on_stalls(16, MS, false);
        delay.on_stalls(16, MS, false);
        assert!(delay.ticks() < 2 * MS, "{}", delay.ticks());
    }

    #[test]
    fn one_wait_of_minutes_is_not_the_queue() {
        let mut delay = Delay::new();
        delay.on_stalls(20, MS, false);
        delay.on_stalls(1, 100_000 * MS, true);
        assert!(delay.ticks() <= 2 * QUEUE_MAX * MS);
    }
}
