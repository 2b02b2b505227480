//! How many page faults should have a signal.
//!
//! # Model
//!
//! The kernel sends a process a signal for a page fault that waits, so that the process can fork a speculator. A signal takes some
//! microseconds. It may take half of what the waiting for the fault pays into the program's account (`account.rs`):
//!
//! ```text
//!     period  =  2 * WAITED_PART * signal * 2^f / stall
//! ```
//!
//! `signal` is what a signal takes ([`price_us`]): the kernel interrupts the processor to cause one, which takes 1 us on some
//! machines and 12 us on others. One fault in a period has a signal. `f` is the number of failures in a row; a live speculation counts none, because signals
//! show whether it is on track. Of faults without a signal the process knows later how many there were.
//!
//! The process tells the supervisor the period. An event of the kernel costs each switch to the process, and each from it. So
//! beyond [`EVENT_PERIOD_MAX`] there is no event until the process has had as many faults as the period says.

use core::time::Duration;

use crate::price::{EVENT_PERIOD_MAX, FAILURE, FAILURES_MAX, SIGNAL_US, SIGNAL_US_MAX, WAITED_PART};

/// What a signal takes where the kernel takes so long to cause one, in microseconds.
#[must_use]
pub fn price_us(caused: Duration) -> u32 {
    let caused_us = u64::try_from(caused.as_micros()).unwrap_or(u64::MAX);
    u32::try_from(SIGNAL_US.saturating_add(caused_us)).unwrap_or(u32::MAX).min(SIGNAL_US_MAX)
}

/// One fault in so many should have a signal, where stalls take `stall_us` each, a signal takes `signal_us` and the account counts
/// so many quarters of failures.
#[must_use]
pub fn period(stall_us: u64, signal_us: u32, failures: u32) -> u32 {
    let cost = (2 * WAITED_PART * u64::from(signal_us)) << (failures.min(FAILURES_MAX) / FAILURE);
    u32::try_from(cost.div_ceil(stall_us.max(1))).unwrap_or(u32::MAX - 1).max(1)
}

/// The same by how many faults waited in a time, before the process itself has seen one.
#[must_use]
pub fn period_of(faults: u64, elapsed: Duration, signal_us: u32) -> u32 {
    let longest_us = elapsed.as_micros() / u128::from(faults.max(1));
    event_period(period(u64::try_from(longest_us).unwrap_or(u64::MAX), signal_us, 0))
}

/// What an event has as its period, where the process wishes for such a period.
#[must_use]
pub fn event_period(wish: u32) -> u32 {
    wish.clamp(1, EVENT_PERIOD_MAX)
}

/// Whether a period is so long that an event costs more than it is worth.
#[must_use]
pub const fn is_pause(wish: u32) -> bool {
    wish > EVENT_PERIOD_MAX
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const SIGNAL: u32 = SIGNAL_US as u32;

    #[test]
    fn the_shorter_the_stalls_the_fewer_the_signals() {
        assert_eq!(
            [12_000, 1_000, 128, 60, 20, 1].map(|stall_us| period(stall_us, SIGNAL, 0)),
            [1, 1, 2, 5, 13, 256]
        );
        assert_eq!(period(0, SIGNAL, 0), period(1, SIGNAL, 0), "stalls that take no time are short ones");
        assert_eq!(period(128, 2 * SIGNAL, 0), 4, "dearer signals are fewer");
    }

    #[test]
    fn each_failure_halves_the_signals() {
        for stall_us in [1, 20, 60, 300, 1_000] {
            let periods: Vec<_> = (0..80)
                .step_by(FAILURE as usize)
                .map(|failures| period(stall_us, SIGNAL, failures))
                .collect();
            assert!(periods.is_sorted(), "{periods:?}");
            assert!(periods.windows(2).all(|pair| pair[1] <= 2 * pair[0]), "{periods:?}");
        }
        assert!(is_pause(period(60, SIGNAL, FAILURES_MAX)) && !is_pause(period(1_000, SIGNAL, 16)));
    }

    /// Signals take at most half of what the account gets.
    #[test]
    fn signals_leave_half_of_the_income() {
        for (stall_us, signal_us) in
            (1..2_000).flat_map(|stall_us| [1, 8, 20, 100].map(|signal| (stall_us, signal)))
        {
            for failures in (0..FAILURES_MAX).step_by(FAILURE as usize) {
                let waited = u64::from(period(stall_us, signal_us, failures)) * stall_us;
                assert!(
                    (waited / WAITED_PART) >> (failures / FAILURE) >= 2 * u64::from(signal_us),
                    "{stall_us} {signal_us} {failures}"
                );
            }
        }
    }

    #[test]
    fn many_faults_in_a_time_are_short_ones() {
        let look = Duration::from_millis(100);
        assert_eq!([0, 90, 2_000].map(|faults| period_of(faults, look, SIGNAL)), [1, 1, 6]);
        assert_eq!(period_of(1_000, look * 10, SIGNAL), 1, "they may have been long all the same");
        assert_eq!(period_of(u64::MAX, look, SIGNAL), EVENT_PERIOD_MAX);
    }

    #[test]
    fn a_signal_takes_what_it_takes_to_cause_it_and_more() {
        let [none, some, interrupted] = [0, 12, 60_000_000].map(|us| price_us(Duration::from_micros(us)));
        assert_eq!((none, some, interrupted), (SIGNAL, SIGNAL + 12, SIGNAL_US_MAX));
        assert_eq!(price_us(Duration::MAX), SIGNAL_US_MAX);
    }
}
