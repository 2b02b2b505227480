//! When signals of page faults cost more than they bring: fault sampling.
//!
//! The kernel sends a process a signal for each page fault that waits, so that it can fork a speculator. A signal takes some
//! microseconds, a sixth of a wait for a fast disk. There only one fault in [`FEW`] causes a signal. On slower disks that
//! begins after hundreds of useless signals. Where nothing is forked for long, the process asks for *quiet*: no signals for a
//! while. The supervisor grants it, for longer each time.

use core::time::Duration;

/// Faults in a row at which no speculation was justified, after which signals are not wanted for a while; those count
/// more at which there was no prospect of one either.
pub const FUTILE_MAX: u32 = 4096;
/// As how many a fault without a prospect counts.
pub const HOPELESS: u32 = 16;
/// After as many one fault in [`FEW`] has a signal, however long it is.
pub const IN_VAIN: u32 = 1024;
/// Beside longer stalls a few signals do not count.
pub const STALL_US_MAX: u64 = 300;
/// Where stalls are shorter, or nothing came of many, one fault in so many has a signal. Of the others it is known how many
/// they were.
pub const FEW: u64 = 8;
/// How long quiet is kept at first, and at most.
pub const QUIET_MIN: Duration = Duration::from_millis(500);
/// See [`QUIET_MIN`].
pub const QUIET_MAX: Duration = Duration::from_secs(2);

/// The process's side: faults since something came of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Futility {
    faults: u32,
}

impl Futility {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { faults: 0 }
    }

    /// A speculator was forked.
    pub const fn on_fork(&mut self) {
        self.faults = 0;
    }

    /// None was at the last `faults`, though one was to be if `prospect`; stalls take `stall_us` each. Whether to ask for
    /// quiet.
    pub const fn on_faults(&mut self, faults: u32, prospect: bool, stall_us: u64) -> bool {
        let count = if prospect { faults } else { faults.saturating_mul(HOPELESS) };
        self.faults = self.faults.saturating_add(count);
        if self.faults < FUTILE_MAX {
            return false;
        }
        let are_short = are_few_enough(stall_us);
        self.faults = if are_short { 0 } else { FUTILE_MAX };
        are_short
    }

    /// Whether a signal for one fault in [`FEW`] is enough, where stalls take `stall_us` each.
    #[must_use]
    pub const fn needs_few(&self, stall_us: u64) -> bool {
        are_few_enough(stall_us) || self.faults >= IN_VAIN
    }
}

/// Whether a signal for one fault in [`FEW`] is enough, where stalls take `stall_us` each.
#[must_use]
pub const fn are_few_enough(stall_us: u64) -> bool {
    stall_us < STALL_US_MAX
}

/// Whether that is so by how many waited in a time.
#[must_use]
pub fn are_few_enough_of(faults: u64, elapsed: Duration) -> bool {
    u128::from(faults).saturating_mul(STALL_US_MAX.into()) > elapsed.as_micros()
}

/// The supervisor's side: how long the next quiet is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: QUIET_MIN }
    }
}

impl Pauses {
    /// The process asks for quiet: for how long.
    pub fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(QUIET_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn faults_until_quiet(futility: &mut Futility, prospect: bool) -> u32 {
        (1..).find(|_| futility.on_faults(1, prospect, 100)).expect("quiet sooner or later")
    }

    #[test]
    fn signals_go_on_while_something_comes_of_them() {
        let mut futility = Futility::new();
        for _ in 0..10 {
            assert!((1..FUTILE_MAX).all(|_| !futility.on_faults(1, true, 100)));
            futility.on_fork();
        }
    }

    #[test]
    fn without_a_prospect_quiet_is_asked_for_sooner() {
        let mut futility = Futility::new();
        assert_eq!(faults_until_quiet(&mut futility, true), FUTILE_MAX);
        assert_eq!(faults_until_quiet(&mut futility, false), FUTILE_MAX / HOPELESS);
    }

    #[test]
    fn beside_long_stalls_signals_do_not_matter() {
        let mut futility = Futility::new();
        assert!((0..10 * FUTILE_MAX).all(|_| !futility.on_faults(1, false, STALL_US_MAX)));
    }

    #[test]
    fn beside_long_stalls_few_are_enough_where_they_were_in_vain() {
        let mut futility = Futility::new();
        let mut until_few = |prospect| {
            futility.on_fork();
            let faults = (1..).find(|_| {
                futility.on_faults(1, prospect, STALL_US_MAX);
                futility.needs_few(STALL_US_MAX)
            });
            faults.expect("sooner or later")
        };
        assert_eq!(until_few(true), IN_VAIN);
        assert_eq!(until_few(false), IN_VAIN / HOPELESS);
        let needs_few = (0..2 * FUTILE_MAX).all(|_| {
            futility.on_faults(1, true, STALL_US_MAX);
            futility.needs_few(STALL_US_MAX)
        });
        assert!(needs_few, "and it stays so");
        futility.on_fork();
        assert!(!futility.needs_few(STALL_US_MAX), "until there is a speculation");
    }

    #[test]
    fn quiet_is_kept_for_longer_each_time_and_not_for_ever() {
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
