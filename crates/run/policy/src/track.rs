//! The off-track detector: how many stalls the original has before a live speculation counts as off track.
//!
//! # Model
//!
//! Each stall that the speculation did not prevent is a *miss*. Each hint that the original used cancels one. So does
//! each page that the speculator skipped to get ahead (`lookahead.rs`): the original waited there as expected, so both take the same
//! course. Skipped pages alone prevent no stall, so they count up to [`LEFT_OUT_MAX`] times the hinted pages.
//!
//! A speculation is *off track* when the misses exceed the price of finding out. That is twice the time of another fork, and at least
//! [`MISSES_MIN`] stalls. At half of the price its checkpoint may take over, if there is one, because that costs about half as much.
//!
//! Misses do not count during a *settling time* of 1/100 s. It follows a fork, with twice the fork's time on top, because the
//! speculator's page tables need as much work. It also follows a repair, and a stretch without misses.
//!
//! A speculator with fewer than [`AHEAD_MIN`] calls or pages ahead of the original is *late*. When it gets ahead for the first time, it
//! is *due*: what was missed before tells nothing of its course, and misses count anew. Where stalls are short beside a fork, the
//! original passes many pages while the speculator starts. There a late one is not off track, and it is due after three settling times
//! at the latest. No predicted value is blamed for lateness.
//!
//! Times are in ticks.

use crate::price::{AHEAD_FREE, GRACE_US, LATE_GRACES, LEFT_OUT_MAX, ticks};

/// Misses after which a speculation may have strayed, at least.
pub const MISSES_MIN: u32 = AHEAD_FREE as u32;
/// One that has fewer calls or pages ahead of the original is late.
pub const AHEAD_MIN: u64 = AHEAD_FREE / 2;

/// How a live speculation stands at a stall that it did not prevent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It goes on.
    Kept,
    /// It has strayed, or has ended.
    Strayed {
        /// It may be late only.
        is_late: bool,
        /// So far that no checkpoint need carry on: another fork may.
        is_lost: bool,
    },
}

/// Pages that the original has come to, and that the speculator had come to before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreseen {
    /// It had hinted them.
    pub hinted: u64,
    /// It had left them to the original.
    pub left_out: u64,
}

impl Foreseen {
    /// Misses that they make up for.
    const fn makes_up_for(self) -> u64 {
        let most = self.hinted.saturating_mul(LEFT_OUT_MAX);
        self.hinted.saturating_add(if self.left_out < most { self.left_out } else { most })
    }
}

/// The patience with the live speculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    grace: u64,
    misses: u32,
    misses_max: u32,
    /// Since the fork, or the repair.
    foreseen: Foreseen,
    /// None is given up before, and none because it is late.
    patient_until: u64,
    late_until: u64,
    /// The speculation has been ahead of the original, or has had its time to get there.
    is_due: bool,
    /// Among the next faults may be some from before the fork.
    is_new: bool,
}

impl Track {
    /// There is no speculation.
    #[must_use]
    pub const fn new(ticks_per_second: u64) -> Self {
        Self {
            grace: ticks(GRACE_US * 1_000, ticks_per_second),
            misses: 0,
            misses_max: MISSES_MIN,
            foreseen: Foreseen { hinted: 0, left_out: 0 },
            patient_until: 0,
            late_until: 0,
            is_due: true,
            is_new: false,
        }
    }

    /// The original was forked where no fault hurries it.
    pub const fn on_fork(&mut self) {
        self.misses = 0;
        self.misses_max = MISSES_MIN;
        self.foreseen = Foreseen { hinted: 0, left_out: 0 };
        self.is_due = false;
        self.is_new = true;
    }

    /// The original was forked at a fault, until `now`, which took it `fork`; faults take `stall` each.
    pub fn on_fork_at_fault(&mut self, now: u64, fork: u64, stall: u64) {
        let price = fork.saturating_mul(2);
        self.misses_max = u32::try_from(price / stall.max(1)).unwrap_or(u32::MAX).max(MISSES_MIN);
        self.is_new = false;
        self.begin(now.saturating_add(price));
    }

    /// A checkpoint carries on, from `now`; a fork takes `fork`.
    pub fn on_repair(&mut self, now: u64, fork: u64) {
        self.begin(now.saturating_add(fork));
    }

    /// What was missed is over.
    pub const fn forgive(&mut self) {
        self.misses = 0;
    }

    /// So many `stalls` were not prevented, until `now`, and so many pages were foreseen.
    pub fn on_stalls(&mut self, now: u64, stalls: u64, foreseen: Foreseen) {
        let stalls = if self.is_new { stalls.min(1) } else { stalls };
        self.is_new = false;
        let before = self.foreseen.makes_up_for();
        self.foreseen.hinted = self.foreseen.hinted.saturating_add(foreseen.hinted);
        self.foreseen.left_out = self.foreseen.left_out.saturating_add(foreseen.left_out);
        let made_up_for = self.foreseen.makes_up_for().saturating_sub(before);
        let missed = u64::from(self.misses).saturating_add(stalls).saturating_sub(made_up_for);
        self.misses = u32::try_from(missed).unwrap_or(u32::MAX);
        if self.misses == 0 {
            self.be_patient(now);
        }
    }

    /// Faults missed lately.
    #[must_use]
    pub const fn misses(&self) -> u32 {
        self.misses
    }

    /// Whether the speculation was ahead of the original at a stall, or has had its time to get there.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.is_due
    }

    /// Whether the speculation can be judged by what it took so far.
    #[must_use]
    pub const fn is_over(&self, now: u64) -> bool {
        now > self.patient_until
    }

    /// How a speculation stands that has, or has not, `ended`, and is ahead of the original by so many calls or pages.
    pub fn course(&mut self, now: u64, ended: bool, ahead: u64) -> Course {
        let stalls_are_short = self.misses_max > MISSES_MIN;
        let is_ahead = ahead >= AHEAD_MIN;
        let is_late = !ended && stalls_are_short && !is_ahead;
        if !self.is_due && (stalls_are_short || is_ahead) {
            if is_late && now < self.late_until {
                return Course::Kept;
            }
            self.is_due = true;
            self.misses = 0;
            self.be_patient(now);
        }
        let repairable = (self.misses_max / 2).max(MISSES_MIN);
        let strayed = self.misses >= repairable && self.is_over(now);
        if !ended && !strayed {
            return Course::Kept;
        }
        Course::Strayed { is_late, is_lost: ended || self.misses >= self.misses_max }
    }

    /// A speculator has to come to where the original is, from `now` on.
    fn begin(&mut self, now: u64) {
        self.be_patient(now);
        self.foreseen = Foreseen::default();
        self.late_until = now.saturating_add(LATE_GRACES.saturating_mul(self.grace));
        self.is_due = false;
    }

    fn be_patient(&mut self, now: u64) {
        self.patient_until = self.patient_until.max(now.saturating_add(self.grace));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000 * US;
    const SECOND: u64 = 1_000 * MS;
    const GRACE: u64 = 10 * MS;

    fn hinted(pages: u64) -> Foreseen {
        Foreseen { hinted: pages, left_out: 0 }
    }

    /// Faults, `stall` apart, until the course is another than [`Course::Kept`]: when, and the course.
    fn until_strayed(patience: &mut Track, from: u64, stall: u64, pages_ahead: u64) -> (u64, Course) {
        let mut now = from;
        for _ in 0..100_000 {
            now += stall;
            patience.on_stalls(now, 1, Foreseen::default());
            let course = patience.course(now, false, pages_ahead);
            if course != Course::Kept {
                return (now - from, course);
            }
        }
        panic!("never strayed");
    }

    #[test]
    fn where_stalls_are_long_few_misses_are_enough() {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, 2 * MS, MS);
        let (after, course) = until_strayed(&mut patience, 0, MS, 0);
        // Sixteen misses of a millisecond, but not before its fork has paid and a grace is over.
        assert_eq!(after, 16 * MS);
        assert_eq!(course, Course::Strayed { is_late: false, is_lost: true });
    }

    #[test]
    fn what_a_fork_takes_is_what_is_missed_before_another() {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, 4 * MS, 50 * US);
        let (after, course) = until_strayed(&mut patience, 0, 50 * US, AHEAD_MIN);
        // 80 misses are half the price, but it is given up after twice what the fork took, and a grace.
        assert!((8 * MS + GRACE..8 * MS + GRACE + 100 * US).contains(&after), "{after}");
        assert_eq!(course, Course::Strayed { is_late: false, is_lost: true });
        // A dear fork has more time to be missed in.
        let mut dear = Track::new(SECOND);
        dear.on_fork_at_fault(0, 40 * MS, 50 * US);
        let (longer, course) = until_strayed(&mut dear, 0, 50 * US, AHEAD_MIN);
        assert!(longer > 80 * MS, "{longer}");
        assert_eq!(course, Course::Strayed { is_late: false, is_lost: true });
    }

    #[test]
    fn a_checkpoint_carries_on_before_another_fork_may() {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, 20 * MS, 50 * US);
        // It was ahead, and spared the original all faults for a while.
        patience.on_stalls(50 * MS, 1, hinted(1_000));
        assert_eq!(patience.course(50 * MS, false, AHEAD_MIN), Course::Kept);
        let (after, course) = until_strayed(&mut patience, 60 * MS, 50 * US, AHEAD_MIN);
        assert_eq!(after, 20 * MS, "half of 800 misses");
        assert_eq!(course, Course::Strayed { is_late: false, is_lost: false });
        patience.forgive();
        patience.on_repair(80 * MS, 20 * MS);
        let (after, _) = until_strayed(&mut patience, 80 * MS, 50 * US, AHEAD_MIN);
        assert!(after >= 20 * MS + GRACE, "{after}");
    }

    #[test]
    fn late_ones_get_three_graces_and_what_they_missed_until_then_is_forgiven() {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, MS, 50 * US);
        let (after, course) = until_strayed(&mut patience, 0, 50 * US, AHEAD_MIN - 1);
        assert_eq!(course, Course::Strayed { is_late: true, is_lost: true });
        assert!((2 * MS + 4 * GRACE..2 * MS + 4 * GRACE + 3 * MS).contains(&after), "{after}");
    }

    #[test]
    fn whoever_is_of_use_is_kept() {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, MS, 50 * US);
        for fault in 1..10_000 {
            // A hint used for each fault that it misses.
            patience.on_stalls(fault * 100 * US, 1, hinted(1));
            assert_eq!(patience.misses(), 0);
            assert_eq!(patience.course(fault * 100 * US, false, AHEAD_MIN), Course::Kept);
        }
    }

    /// Of four pages one is hinted and the others are left out, and the speculator tells of a hundred at once.
    fn until_given_up(left_out_told: u64) -> Option<u64> {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, MS, 25 * US);
        (1..10_000u64).find(|round| {
            let now = round * 100 * US;
            patience.on_stalls(now, 3, Foreseen::default());
            if round.is_multiple_of(25) {
                patience.on_stalls(now, 0, Foreseen { hinted: 25, left_out: left_out_told });
            }
            patience.course(now, false, AHEAD_MIN) != Course::Kept
        })
    }

    #[test]
    fn whoever_leaves_pages_out_to_get_ahead_is_kept() {
        assert_eq!(until_given_up(75), None);
        assert!(until_given_up(25).is_some(), "it foresaw a third of them");
    }

    #[test]
    fn whoever_leaves_all_pages_out_is_not() {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, MS, 25 * US);
        let given_up = (1..10_000u64).find(|fault| {
            patience.on_stalls(fault * 25 * US, 1, Foreseen { hinted: 0, left_out: 1 });
            patience.course(fault * 25 * US, false, AHEAD_MIN) != Course::Kept
        });
        assert!(given_up.is_some_and(|fault| fault * 25 * US < 2 * MS + 2 * GRACE), "{given_up:?}");
    }

    #[test]
    fn one_that_has_ended_is_not_waited_for() {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, MS, 50 * US);
        patience.on_stalls(MS, 1, Foreseen::default());
        let gone = patience.course(MS, true, 1_000);
        assert_eq!(gone, Course::Strayed { is_late: false, is_lost: true });
    }

    #[test]
    fn after_a_fork_that_no_fault_led_to_sixteen_misses_are_enough() {
        let mut patience = Track::new(SECOND);
        patience.on_fork_at_fault(0, 40 * MS, 50 * US);
        patience.on_fork();
        // The first signal tells of faults from before the fork as well.
        patience.on_stalls(SECOND, 5_000, Foreseen::default());
        assert_eq!(patience.course(SECOND, false, 0), Course::Kept);
        let (after, _) = until_strayed(&mut patience, SECOND, 50 * US, 0);
        assert_eq!(after, 15 * 50 * US);
    }

    /// Calls of a file system where each takes 5 ms: a tree's folders are read abreast of the original, and then its files ahead.
    #[test]
    fn one_that_gets_ahead_is_judged_by_what_comes_after_that() {
        let mut patience = Track::new(SECOND);
        patience.on_fork();
        let before = u64::from(MISSES_MIN) - 1;
        for stall in 1..=before {
            patience.on_stalls(stall * 5 * MS, 1, Foreseen::default());
            assert_eq!(patience.course(stall * 5 * MS, false, 0), Course::Kept);
            assert!(!patience.is_due(), "it has only been late");
        }
        let (after, _) = until_strayed(&mut patience, before * 5 * MS, 5 * MS, AHEAD_MIN);
        assert!(patience.is_due());
        assert_eq!(after, 5 * MS + u64::from(MISSES_MIN) * 5 * MS);
        // It is given so much only once.
        let mut once = Track::new(SECOND);
        once.on_fork();
        once.on_stalls(MS, 10, Foreseen::default());
        let _ = once.course(MS, false, AHEAD_MIN);
        assert_eq!(until_strayed(&mut once, MS, 5 * MS, 0).0, u64::from(MISSES_MIN) * 5 * MS);
        once.on_stalls(SECOND, 10, Foreseen::default());
        assert_ne!(once.course(SECOND, false, 2 * AHEAD_MIN), Course::Kept);
    }

    #[test]
    fn no_figures_make_it_overflow() {
        let mut patience = Track::new(u64::MAX);
        patience.on_fork_at_fault(u64::MAX, u64::MAX, 0);
        patience.on_repair(u64::MAX, u64::MAX);
        patience.on_stalls(u64::MAX, u64::MAX, hinted(u64::MAX));
        assert_eq!(patience.course(u64::MAX, false, 0), Course::Kept);
        assert_eq!(Track::new(0).course(u64::MAX, false, 0), Course::Kept);
    }
}
