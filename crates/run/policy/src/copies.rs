//! Estimates how many pages a process has copied at their first write since it was forked. The kernel does not tell.
//!
//! # Model
//!
//! A copy is a *minor* page fault, one that did not wait. Other minor faults are the first touch of a page, and the touch of a
//! page that was hinted or that the kernel read ahead. What is left of the minor faults since the fork are copies:
//!
//! ```text
//!     copies = minor - hinted - growth - ahead * major - churn * time
//! ```
//!
//! So the estimate counts first writes, whether the page is copied or not. After the speculator's end the kernel copies no
//! page: the count until then is that of copies, and the rest are faults without a copy.
//!
//! `ahead` and `churn` are measured before the fork, when nothing was copied, from the minor faults that did not make the
//! memory grow. Up to 7 of them for each major fault count as read ahead. The others are memory that the program frees and
//! takes again all the time. First writes after earlier forks are none of them.

/// Pages that the kernel reads ahead at most when one is waited for (`page-cluster` 3).
const AHEAD_MAX: u64 = 7;

/// Page faults of a process so far, and what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Those that did not wait.
    pub minor: u64,
    /// Those of them that are known to be first writes after forks.
    pub written: u64,
    /// Those that did.
    pub major: u64,
    /// Pages of its own, in memory or swapped out.
    pub pages: u64,
    /// Ticks since it began.
    pub ticks: u64,
}

/// First writes between `fork` and `now`, while the process came to so many pages that were `hinted`.
#[must_use]
pub fn first_writes(fork: &Faults, now: &Faults, hinted: u64) -> u64 {
    let again = fork.minor.saturating_sub(fork.pages).saturating_sub(fork.written);
    let ahead = again.min(fork.major.saturating_mul(AHEAD_MAX));
    let others = hinted
        .saturating_add(now.pages.saturating_sub(fork.pages))
        .saturating_add(part(ahead, now.major.saturating_sub(fork.major), fork.major))
        .saturating_add(part(again - ahead, now.ticks.saturating_sub(fork.ticks), fork.ticks));
    now.minor.saturating_sub(fork.minor).saturating_sub(others)
}

/// `of * by / to`
fn part(of: u64, by: u64, to: u64) -> u64 {
    let part = (u128::from(of) * u128::from(by)).checked_div(u128::from(to)).unwrap_or(0);
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has touched all of its memory, and waits a lot.
    const FORK: Faults = Faults { minor: 10_000, written: 0, major: 100, pages: 10_000, ticks: 1_000 };

    fn later(minor: u64, major: u64, pages: u64) -> Faults {
        Faults {
            minor: FORK.minor + minor,
            major: FORK.major + major,
            pages: FORK.pages + pages,
            ticks: 2 * FORK.ticks,
            ..FORK
        }
    }

    #[test]
    fn first_touches_long_ago_hide_no_copies() {
        assert_eq!(first_writes(&FORK, &later(3_000, 0, 0), 0), 3_000);
    }

    #[test]
    fn growth_and_pages_hinted_are_no_copies() {
        assert_eq!(first_writes(&FORK, &later(3_000, 0, 2_000), 300), 700);
        assert_eq!(first_writes(&FORK, &later(3_000, 0, 3_000), 300), 0);
    }

    #[test]
    fn pages_read_ahead_are_no_copies_as_far_as_they_were_before() {
        let sequential = Faults { minor: 10_700, ..FORK };
        let scattered = Faults { minor: 10_100, ..FORK };
        let after = |fork: &Faults| Faults { minor: fork.minor + 500, major: fork.major + 50, ..*fork };
        assert_eq!(first_writes(&sequential, &after(&sequential), 0), 150);
        assert_eq!(first_writes(&scattered, &after(&scattered), 0), 450);
    }

    #[test]
    fn memory_given_back_and_taken_again_is_no_copy() {
        let fork = Faults { minor: 15_000, major: 0, ..FORK };
        let now = Faults { minor: 20_000, ticks: 2 * fork.ticks, ..fork };
        assert_eq!(first_writes(&fork, &now, 0), 0);
        assert_eq!(first_writes(&fork, &Faults { minor: 20_400, ..now }, 0), 400);
    }

    #[test]
    fn first_writes_after_earlier_forks_hide_none() {
        let fork = Faults { minor: 15_000, written: 5_000, major: 0, ..FORK };
        let now = Faults { minor: 18_000, ticks: 2 * fork.ticks, ..fork };
        assert_eq!(first_writes(&fork, &now, 0), 3_000);
    }

    #[test]
    fn a_process_without_a_past_is_no_trouble() {
        assert_eq!(first_writes(&Faults::default(), &FORK, 0), 0);
        let most = Faults { minor: u64::MAX, written: 7, major: u64::MAX, pages: u64::MAX, ticks: u64::MAX };
        assert_eq!(first_writes(&Faults::default(), &most, u64::MAX), 0);
        assert_eq!(first_writes(&most, &FORK, 0), 0);
    }
}
