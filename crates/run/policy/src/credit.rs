//! What a speculation may take, before and after its hints have proved useful.
//!
//! # Model
//!
//! Where memory is short each page that a speculation takes evicts another, and the original waits for some of those again.
//! A speculation takes pages in three ways. The original copies pages that it writes after the fork. The speculator has pages
//! of its own. Its hints read pages whether the original uses them or not. The policy of forks weighs all that at the end of a
//! speculation, but a useless one would have evicted thousands of pages by then.
//!
//! So each of the three has a budget, in pages, that grows with the hints that the original has used:
//!
//! ```text
//!     copies of the original      COPIES_FREE + COPIES_A_HINT * used
//!     the speculator's own        OWN_FREE    + OWN_A_HINT    * hinted
//!     hinted and not yet used     AHEAD_FREE  +                 used     (AHEAD_PROVEN where speculations before
//!                                                                        have yielded well)
//! ```
//!
//! The first two end the speculation. The third makes the speculator wait for the original, so the number of hints under way
//! doubles each time that all of them were used. That bounds the second as well: a speculator with hints to give may go on
//! before their use is known.
//!
//! The third also holds for pages where memory is not short. A program that follows pointers through a mapped file makes
//! speculators guess, and wrong hints delay the reads that the program waits for.

/// Copies of the original's that are allowed before any hint was used.
pub const COPIES_FREE: u64 = 256;
/// And more of them for each.
pub const COPIES_A_HINT: u64 = 8;
/// Pages of the speculator's own before it hinted anything; it has about a hundred before it does
/// anything, and as many again after a checkpoint.
pub const OWN_FREE: u64 = 512;
/// And more of them for each hint.
pub const OWN_A_HINT: u64 = 16;
/// Pages hinted and not yet used, before any was.
pub const AHEAD_FREE: u64 = 16;
/// And where speculations before have shown what they are good for.
pub const AHEAD_PROVEN: u64 = 64;

/// What a speculation may take before it has shown what it is good for.
pub const TAKEN_FREE: u64 = COPIES_FREE + OWN_FREE;

/// Part of its limit that a speculator may have where memory is short.
pub const SHORT_PART: u64 = 4;

/// What a speculator may have where memory is short, in pages, of what its limit allows it elsewhere: there each page
/// takes the place of another one. It always has what it may have before it hinted anything, if its limit allows that.
#[must_use]
pub const fn limit_where_short(pages: u64) -> u64 {
    let part = pages / SHORT_PART;
    let part = if part < OWN_FREE { OWN_FREE } else { part };
    if part < pages { part } else { pages }
}

/// The credit of a speculation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Hints.
    pub hinted: u64,
    /// Hints used.
    pub used: u64,
    /// Speculations before have yielded well.
    pub is_proven: bool,
}

impl Credit {
    /// Whether it covers so many pages that the original has copied.
    #[must_use]
    pub const fn covers_copies(self, pages: u64) -> bool {
        pages <= COPIES_FREE.saturating_add(self.used.saturating_mul(COPIES_A_HINT))
    }

    /// Whether it covers so many pages of the speculator's own.
    #[must_use]
    pub const fn covers_own(self, pages: u64) -> bool {
        pages <= OWN_FREE.saturating_add(self.hinted.saturating_mul(OWN_A_HINT))
    }

    /// Pages that may be hinted and not yet used.
    #[must_use]
    pub const fn ahead_max(self) -> u64 {
        let free = if self.is_proven { AHEAD_PROVEN } else { AHEAD_FREE };
        free.saturating_add(self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speculation_that_finds_nothing_takes_little() {
        let credit = Credit::default();
        assert!(credit.covers_copies(COPIES_FREE) && !credit.covers_copies(COPIES_FREE + 1));
        assert!(credit.covers_own(OWN_FREE) && !credit.covers_own(OWN_FREE + 1));
        assert_eq!(credit.ahead_max(), AHEAD_FREE);
    }

    #[test]
    fn where_memory_is_short_a_speculator_has_a_part_of_its_limit() {
        let ample = 64 * OWN_FREE;
        assert_eq!(limit_where_short(ample), ample / SHORT_PART);
        assert_eq!(limit_where_short(2 * OWN_FREE), OWN_FREE, "enough to begin with");
        assert_eq!(limit_where_short(OWN_FREE / 2), OWN_FREE / 2, "never more than its limit");
        assert!(Credit::default().covers_own(limit_where_short(2 * OWN_FREE)));
        assert_eq!(limit_where_short(u64::MAX), u64::MAX / SHORT_PART);
    }

    #[test]
    fn what_is_under_way_doubles_each_time_that_all_of_it_was_used() {
        for (is_proven, first) in [(false, AHEAD_FREE), (true, AHEAD_PROVEN)] {
            let mut credit = Credit { is_proven, ..Credit::default() };
            for times in [2, 4, 8, 16, 32] {
                credit.used += credit.ahead_max();
                assert_eq!(credit.ahead_max(), times * first);
            }
        }
    }

    #[test]
    fn the_credit_of_many_hints_has_no_end() {
        let credit = Credit { hinted: u64::MAX, used: u64::MAX, is_proven: true };
        assert!(credit.covers_copies(u64::MAX) && credit.covers_own(u64::MAX));
        assert_eq!(credit.ahead_max(), u64::MAX);
    }
}
