//! How many page faults should have a signal.
//!
//! # Model
//!
//! The kernel sends a process a signal for each page fault that waits, so that the process can fork a speculator. A signal takes
//! some microseconds. It may take half of what the waiting for the fault pays into the program's account (`account.rs`):
//!
//! ```text
//!     one fault in    2 * WAITED_PART * SIGNAL_US * 2^f / stall    has a signal
//! ```
//!
//! `f` is the number of failures in a row. Where that is more than [`PAUSE_PERIOD`], the process asks for a pause, in which there
//! are no signals at all. The supervisor grants it, for longer each time ([`Pauses`]). Of faults without a signal the process
//! knows later how many there were.

use core::time::Duration;

use crate::price::{FAILURE, FEW_PERIOD, PAUSE_MAX, PAUSE_MIN, PAUSE_PERIOD, SIGNAL_US, WAITED_PART};

/// Where signals are sampled, one fault in so many has one.
pub const FEW: u64 = FEW_PERIOD;

/// Which faults should have a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Each.
    Each,
    /// One in [`FEW`].
    Few,
    /// None for a while.
    Pause,
}

/// Which faults should have a signal, where stalls take `stall_us` each and the account counts so many quarters of failures.
#[must_use]
pub const fn sampling(stall_us: u64, failures: u32) -> Sampling {
    match period(stall_us, failures) {
        0..=1 => Sampling::Each,
        2..=PAUSE_PERIOD => Sampling::Few,
        _ => Sampling::Pause,
    }
}

const fn period(stall_us: u64, failures: u32) -> u64 {
    let doublings = failures / FAILURE;
    let cost = (2 * WAITED_PART * SIGNAL_US) << if doublings > 20 { 20 } else { doublings };
    cost / if stall_us == 0 { 1 } else { stall_us }
}

/// Whether a signal for one fault in [`FEW`] is enough, by how many faults waited in a time.
#[must_use]
pub fn are_few_enough_of(faults: u64, elapsed: Duration) -> bool {
    let longest_us = elapsed.as_micros() / u128::from(faults.max(1));
    sampling(u64::try_from(longest_us).unwrap_or(u64::MAX), 0) != Sampling::Each
}

/// The supervisor's side: how long the next pause takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: PAUSE_MIN }
    }
}

impl Pauses {
    /// The process asks for a pause: how long it takes.
    pub fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(PAUSE_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn beside_long_stalls_each_fault_has_a_signal() {
        assert_eq!(sampling(1_000, 0), Sampling::Each);
        assert_eq!(sampling(12_000, 16), Sampling::Each);
    }

    #[test]
    fn beside_short_stalls_few_faults_have_one() {
        assert_eq!(sampling(60, 0), Sampling::Few);
        assert_eq!(sampling(0, 0), Sampling::Pause, "beside none at all it is a loss");
    }

    #[test]
    fn failures_make_signals_rare() {
        for stall_us in [20, 60, 300, 1_000] {
            let rarer = (0..80).map(|failures| period(stall_us, failures)).collect::<Vec<_>>();
            assert!(rarer.is_sorted(), "{rarer:?}");
        }
        assert_eq!(sampling(60, 40), Sampling::Pause);
        assert_eq!(sampling(1_000, 16), Sampling::Few);
    }

    /// Signals take at most half of what the account gets.
    #[test]
    fn signals_leave_half_of_the_income() {
        for stall_us in 1..2_000 {
            for failures in (0..40).step_by(4) {
                let income = |faults: u64| (faults * stall_us / WAITED_PART) >> (failures / FAILURE);
                let faults = period(stall_us, failures) + 1;
                assert!(income(faults) + 1 >= SIGNAL_US, "{stall_us} {failures}");
            }
        }
    }

    #[test]
    fn pauses_get_longer_and_not_for_ever() {
        let mut pauses = Pauses::default();
        let milliseconds: Vec<_> = (0..5).map(|_| pauses.take().as_millis()).collect();
        assert_eq!(milliseconds, [500, 1000, 2000, 2000, 2000]);
    }

    #[test]
    fn many_faults_in_a_time_are_short_ones() {
        let look = Duration::from_millis(100);
        assert!(!are_few_enough_of(0, look));
        assert!(!are_few_enough_of(90, look), "a millisecond each");
        assert!(are_few_enough_of(2_000, look), "50 us each");
        assert!(!are_few_enough_of(1_000, look * 10), "they may have been long all the same");
    }
}
