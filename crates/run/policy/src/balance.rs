//! What a live speculation may take, before and after its hints have proved useful.
//!
//! # Model
//!
//! A speculation costs the original in three ways: pages that the original copies at their first write, pages that the speculator
//! takes for itself, and hints for nothing. It begins with some stalls, and each one that is saved adds to them:
//!
//! ```text
//!     copied * copy price   <=   PAGES_STALLS * stall + spared * worth
//!     taken * own price     <=   PAGES_STALLS * stall + hinted * worth
//!     hinted - used         <=   AHEAD_FREE + used               (AHEAD_PROVEN where savings pay)
//! ```
//!
//! `spared` is how many stalls the used hints saved: the kernel reads several pages at a stall, and hints of all of them save one.
//! `worth` is the believed part of a stall (`trial.rs`). Where memory is short, the copy price is a copy and what a displaced page
//! costs, and the own price 1/[`OWN_PART`] of the latter. Elsewhere a copied page costs the copy, and a page of the speculator's
//! own costs nothing here.
//!
//! The first two end the speculation. The third makes the speculator wait for the original, so the hints under way double each
//! time that all of them were used.
//!
//! A speculator also spends processor time and fresh memory ([`Idleness`]). Since its last hint it may spend what
//! [`IDLE_STALLS`] stalls take: a later hint could hardly make up for more.

use crate::price::{
    AHEAD_FREE, BANKED_STAKES, CATCHING_UP, IDLE_STALLS, OWN_PART, PAGE_PRICE_FIRST, PAGE_US, PAGES_STALLS,
    PRICE_ONE, SHORT_PART, TICK_US,
};

/// Pages that may be hinted and not yet used where savings pay: for as many speculations as savings can be kept.
pub const AHEAD_PROVEN: u64 = BANKED_STAKES * AHEAD_FREE;

/// What a live speculation pays and earns, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// A stall of the original.
    pub stall: u64,
    /// What of it a used hint is believed to save.
    pub worth: u64,
    /// A page that the original copies.
    pub copy: u64,
    /// A page that is displaced by one that is taken; 0 where memory is not short.
    pub displaced: u64,
}

impl Prices {
    /// What a page costs that the original copies.
    #[must_use]
    pub const fn copied(&self) -> u64 {
        self.copy.saturating_add(self.displaced)
    }

    /// What a page costs that the speculator takes for itself.
    #[must_use]
    pub const fn own(&self) -> u64 {
        self.displaced / OWN_PART
    }
}

/// The balance of a live speculation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// See there.
    pub prices: Prices,
    /// Hints.
    pub hinted: u64,
    /// Hints that the original used.
    pub used: u64,
    /// Stalls that those saved.
    pub spared: u64,
    /// Savings pay for the speculations of this program.
    pub is_proven: bool,
}

impl Balance {
    /// Whether it covers so many pages that the original has copied.
    #[must_use]
    pub const fn covers_copies(&self, pages: u64) -> bool {
        self.covers(pages, self.prices.copied(), PAGES_STALLS, self.spared)
    }

    /// Whether it covers so many pages of the speculator's own.
    #[must_use]
    pub const fn covers_own(&self, pages: u64) -> bool {
        self.covers(pages, self.prices.own(), PAGES_STALLS, self.hinted)
    }

    const fn covers(&self, pages: u64, price: u64, stalls: u64, hints: u64) -> bool {
        let free = stalls as u128 * self.prices.stall as u128;
        pages as u128 * price as u128 <= free.saturating_add(hints as u128 * self.prices.worth as u128)
    }

    /// Pages that may be hinted and not yet used.
    #[must_use]
    pub const fn ahead_max(&self) -> u64 {
        let free = if self.is_proven { AHEAD_PROVEN } else { AHEAD_FREE };
        free.saturating_add(self.used)
    }
}

/// What a speculator may have where memory is short, in pages, of what its limit allows it elsewhere. It always has what it may
/// take before it hinted anything, if its limit allows that.
#[must_use]
pub const fn limit_where_short(pages: u64) -> u64 {
    const LEAST: u64 = PAGES_STALLS * OWN_PART * (PRICE_ONE / PAGE_PRICE_FIRST) as u64;
    let part = pages / SHORT_PART;
    let part = if part < LEAST { LEAST } else { part };
    if part < pages { part } else { pages }
}

/// What a speculator has spent since its last hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idleness {
    allowed_us: u64,
    ticks: u64,
    /// Hints, and pages that it had taken, when it began.
    hints: u64,
    pages: u64,
}

impl Idleness {
    /// Of a speculator whose original stalls for so long each time.
    #[must_use]
    pub fn new(stall_us: u64) -> Self {
        let allowed_us = stall_us.saturating_mul(IDLE_STALLS);
        // Less than two ticks cannot be told from one.
        Self { allowed_us: allowed_us.max(2 * TICK_US), ticks: 0, hints: 0, pages: 0 }
    }

    /// What was spent until now does not count: with so many hints, and pages taken.
    pub const fn restart(&mut self, hints: u64, pages: u64) {
        (self.ticks, self.hints, self.pages) = (0, hints, pages);
    }

    /// After another tick of processor time, with so many hints and pages taken: whether it has spent too much.
    pub const fn on_tick(&mut self, hints: u64, pages: u64, is_catching_up: bool) -> bool {
        if hints != self.hints {
            self.restart(hints, pages);
        }
        self.ticks += 1;
        let processor_us = self.ticks.saturating_mul(TICK_US);
        let spent_us = processor_us.saturating_add(pages.saturating_sub(self.pages).saturating_mul(PAGE_US));
        let times = if is_catching_up { CATCHING_UP } else { 1 };
        spent_us > self.allowed_us.saturating_mul(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Prices = Prices { stall: 1_000, worth: 1_000, copy: 0, displaced: 100 };
    const AMPLE: Prices = Prices { stall: 1_000, worth: 1_000, copy: 10, displaced: 0 };

    fn most(covers: impl Fn(u64) -> bool) -> u64 {
        (0..1_000_000).take_while(|&pages| covers(pages)).count() as u64 - 1
    }

    #[test]
    fn a_speculation_without_a_used_hint_takes_little() {
        let copies = |prices| most(|pages| Balance { prices, ..Balance::default() }.covers_copies(pages));
        assert_eq!(copies(SHORT), PAGES_STALLS * 10);
        assert_eq!(copies(AMPLE), PAGES_STALLS * 1_000 / 10);
        assert_eq!(
            most(|pages| Balance { prices: SHORT, ..Balance::default() }.covers_own(pages)),
            PAGES_STALLS * 10 * OWN_PART
        );
        assert!(Balance { prices: AMPLE, ..Balance::default() }.covers_own(u64::MAX));
    }

    #[test]
    fn a_stall_saved_pays_for_what_a_stall_takes() {
        let copies = |prices, spared| {
            most(|pages| {
                Balance { prices, spared, used: 8 * spared, ..Balance::default() }.covers_copies(pages)
            })
        };
        assert_eq!(copies(SHORT, 10) - copies(SHORT, 0), 10 * 10);
        let half = Prices { worth: SHORT.worth / 2, ..SHORT };
        assert_eq!(copies(half, 10) - copies(half, 0), 10 * 10 / 2, "as far as it is believed");
        assert_eq!(copies(AMPLE, 10) - copies(AMPLE, 0), 10 * 1_000 / 10);
    }

    #[test]
    fn where_memory_is_short_a_speculator_has_a_part_of_its_limit() {
        let least = PAGES_STALLS * OWN_PART * 64;
        assert_eq!(limit_where_short(64 * least), 64 * least / SHORT_PART);
        assert_eq!(limit_where_short(2 * least), least, "enough to begin with");
        assert_eq!(limit_where_short(least / 2), least / 2, "never more than its limit");
        assert_eq!(limit_where_short(u64::MAX), u64::MAX / SHORT_PART);
    }

    #[test]
    fn what_is_under_way_doubles_each_time_that_all_of_it_was_used() {
        for (is_proven, first) in [(false, AHEAD_FREE), (true, AHEAD_PROVEN)] {
            let mut balance = Balance { is_proven, ..Balance::default() };
            for times in [2, 4, 8, 16, 32] {
                balance.used += balance.ahead_max();
                assert_eq!(balance.ahead_max(), times * first);
            }
        }
    }

    #[test]
    fn no_figures_overflow() {
        let prices = Prices { stall: u64::MAX, worth: u64::MAX, copy: u64::MAX, displaced: u64::MAX };
        let balance = Balance { prices, hinted: u64::MAX, used: u64::MAX, spared: u64::MAX, is_proven: true };
        assert!(balance.covers_copies(u64::MAX) && balance.covers_own(u64::MAX));
        assert_eq!(balance.ahead_max(), u64::MAX);
    }

    /// Ticks until it has spent too much, where it takes so many pages in each, of which one in so many has a hint.
    fn ticks(stall_us: u64, pages_a_tick: u64, ticks_a_hint: u64, is_catching_up: bool) -> Option<u64> {
        let mut idleness = Idleness::new(stall_us);
        idleness.restart(7, 100);
        (1..=10_000)
            .find(|tick| idleness.on_tick(7 + tick / ticks_a_hint, 100 + tick * pages_a_tick, is_catching_up))
    }

    #[test]
    fn a_speculator_that_only_computes_has_the_time_of_twenty_stalls() {
        assert_eq!(ticks(1_000, 0, u64::MAX, false), Some(9));
        assert_eq!(ticks(12_000, 0, u64::MAX, false), Some(97));
        assert_eq!(ticks(1, 0, u64::MAX, false), Some(3), "never less than this");
        assert_eq!(ticks(1_000, 0, u64::MAX, true), Some(33), "while it catches up");
    }

    #[test]
    fn a_speculator_that_fills_memory_is_stopped_soon() {
        // Two thousand pages in each tick, beside stalls of 12 ms.
        let filled = ticks(12_000, 2_000, u64::MAX, false).unwrap() * 2_000;
        assert!((20_000..30_000).contains(&filled), "{filled}");
    }

    #[test]
    fn a_hint_makes_up_for_all_before() {
        assert_eq!(ticks(1_000, 200, 5, false), None);
        assert_eq!(ticks(1_000, 2_000, 5, false), Some(2), "but for no more than may be spent for one");
    }
}
