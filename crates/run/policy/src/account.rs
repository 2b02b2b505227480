//! The costs of a process's speculations so far, what they saved, and the expected cost of another.
//!
//! # Model
//!
//! A speculation costs the original the fork, `F` ticks, and afterwards a copy of each page that it writes first. It saves
//! about one stall for each hint that the original used in time, and a part of one for each late hint:
//!
//! ```text
//!     cost  C = F' + F / 2 + 50 us      F' = F, or what of F exceeded a mean stall when the fork was
//!                                       made while the stalled read was in flight
//! ```
//!
//! `C` is an exponentially weighted mean (weight 1/4) of the costs seen. Before the first fork `F` is 100 us. `C` is never
//! below the caller's estimate from the size of the process. That estimate has a fork of so much memory, and the copies: the
//! part of the pages that was copied after earlier forks, and all pages that are new since.
//!
//! Where memory is short, a copy evicts a page, as do the speculator's own pages, and the original faults some of them in
//! again. After the first three speculations, one page in 32 counts as another stall without hints in the queue. What one
//! speculation takes is limited ([`crate::credit`]). The expected cost also contains the delay of reads by hints: an
//! exponentially weighted mean (weight 1/2) over earlier speculations (`delay.rs`).
//!
//! # Bound
//!
//! A fork is justified only while
//!
//! ```text
//!     sum of all C so far + delays + signals + C expected
//!         <=  1.46 % of the time elapsed + 3/4 of the stall time saved + 1 ms
//! ```
//!
//! A saved stall counts with its time without hints in the queue. So forks and delays take less than 1.5 % of the elapsed
//! time beyond what they saved, with three exceptions. One millisecond for each process lets short processes begin. The last
//! fork may exceed its estimate. So may the first fork that took much longer than others of its size: where memory is short,
//! the kernel can block the caller until pages are written. Signals of faults reduce the budget for forks; `quiet.rs` limits
//! their number.
//!
//! Times are in ticks; yields have 8 fractional bits.

use crate::credit::{COPIES_FREE, OWN_FREE};
use crate::delay::Delay;
use crate::mean::mean;
use crate::stalls::Stalls;

/// Speculations before what they drive out counts.
const TRIALS: u64 = 3;
/// Pages, copies of the original's and such as speculators have for a while, of which one takes the place of something
/// that is missed later.
const DISPLACED_PART: u64 = 32;
/// Times what its size makes of it, and a tenth of a millisecond, that a fork took which says nothing of others.
const SLOW_TIMES: u64 = 16;

/// One hint used, as a yield.
pub const ONE: u64 = 1 << 8;
/// Less is no yield at all.
pub const YIELD_MIN: u64 = ONE / 2;

/// What the size of a process makes of a fork of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pages that are copied when they are first written to after a fork.
    pub pages: u64,
    /// What the fork takes, in ticks: about 16 us for each resident MiB.
    pub fork: u64,
    /// What one copy takes, in ticks.
    pub copy: u64,
    /// Memory is short: a copy takes the place of something else.
    pub displaces: bool,
    /// What a speculator takes for each page of the original that it touches and that the original has in memory, by how
    /// many of those there are to one that the original waits for.
    pub detour: u64,
    /// Stalls that a fork of no use is taken to cost then.
    pub risk_stalls: u64,
    /// Pages of its own that the process has no room for in memory, while there is no speculation; more than any process
    /// has where that is not what it waits for.
    pub lacks: u64,
}

/// The account of one process.
#[derive(Clone, Debug)]
pub struct Account {
    ticks_per_second: u64,
    /// The stalls that nothing was prefetched for.
    stalls: Stalls,
    /// What hints in the queue had the original wait, and how long those of a speculation did before the last one.
    delay: Delay,
    delay_mean: u64,
    /// What the size of the process makes of a fork.
    size: Size,
    forks: u64,
    /// Mean cost of a speculation, copied pages included.
    cost_mean: u64,
    /// Pages at the last fork.
    forked_pages: u64,
    /// What of the pages is copied after a fork, and whether that was seen yet.
    copied_part: u64,
    copies_seen: bool,
    /// Mean of the pages that speculators took for themselves.
    taken_mean: u64,
    /// Copies that the last fork was charged with.
    charged_copies: u64,
    /// A fork was excused for having been slow.
    was_slow: bool,
    spent: u64,
    saved: u64,
}

impl Account {
    /// Nothing has been spent.
    pub const fn new(ticks_per_second: u64) -> Self {
        Self {
            ticks_per_second,
            stalls: Stalls::new(),
            delay: Delay::new(),
            delay_mean: 0,
            size: Size { pages: 0, fork: 0, copy: 0, displaces: false, detour: 0, risk_stalls: 0, lacks: 0 },
            forks: 0,
            // 100 us, half as much again, and 50 us.
            cost_mean: ticks_per_second / 5_000,
            forked_pages: 0,
            copied_part: ONE,
            copies_seen: false,
            taken_mean: 0,
            charged_copies: 0,
            was_slow: false,
            spent: 0,
            saved: 0,
        }
    }

    /// How large the process is from now on.
    pub const fn expect(&mut self, size: Size) {
        self.size = size;
    }

    /// A stall took `duration`, `behind_hints` that may have been in the queue before it.
    pub fn on_stall(&mut self, duration: u64, behind_hints: bool) {
        self.delay.on_stalls(1, duration, behind_hints);
        // The first ones say what stalls take at all.
        self.stalls.on_stall(duration, behind_hints, self.forks <= TRIALS, self.ticks_per_second);
    }

    /// There were `count` more, of `duration` each.
    pub fn on_unseen_stalls(&mut self, count: u64, duration: u64, behind_hints: bool) {
        self.delay.on_stalls(count, duration, behind_hints);
        self.stalls.on_unseen(count);
    }

    /// A fork took `cost`, `hidden` behind a read that was in flight.
    pub fn on_fork(&mut self, cost: u64, hidden: bool) {
        self.delay_mean = self.delay_expected();
        self.delay.settle();
        let cost = self.counted(cost);
        let visible = if hidden { cost.saturating_sub(self.stalls.recent()) } else { cost };
        let allowance = self.allowance(cost);
        let charge = visible.saturating_add(allowance);
        self.spent = self.spent.saturating_add(charge);
        self.cost_mean = if self.forks == 0 { charge } else { mean(self.cost_mean, charge, 2) };
        self.forks = self.forks.saturating_add(1);
        self.charged_copies = allowance;
        self.forked_pages = self.size.pages;
    }

    /// Something that is of use only if there are speculations took `cost`: a fork that was refused, a signal of a fault.
    pub const fn on_expense(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
    }

    /// The original copied so many pages for a speculation, and speculators took `theirs` since the last one. What the
    /// allowance of the fork does not cover is spent.
    pub fn on_copies(&mut self, pages: u64, theirs: u64) {
        let missed = if self.displaces() { self.missed(pages.saturating_add(theirs)) } else { 0 };
        let cost = pages.saturating_mul(self.size.copy).saturating_add(missed);
        let more = cost.saturating_sub(self.charged_copies);
        self.spent = self.spent.saturating_add(more);
        self.cost_mean = self.cost_mean.saturating_add(more / 4);
        let part = u128::from(pages) * u128::from(ONE) / u128::from(self.forked_pages.max(1));
        let part = u64::try_from(part).unwrap_or(ONE).min(ONE);
        if self.forked_pages > 0 {
            self.taken_mean = if self.copies_seen { mean(self.taken_mean, theirs, 1) } else { theirs };
            self.copied_part = if self.copies_seen { mean(self.copied_part, part, 1) } else { part };
            self.copies_seen = true;
        }
    }

    /// A speculation yielded so much.
    pub fn on_yield(&mut self, gained: u64) {
        self.saved = self.saved.saturating_add(scaled(gained, self.stalls.alone()));
    }

    /// The stalls that nothing was prefetched for.
    pub const fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// What the size of the process makes of a fork.
    pub const fn size(&self) -> &Size {
        &self.size
    }

    /// How many forks there were.
    pub const fn forks(&self) -> u64 {
        self.forks
    }

    /// What forks took that no stall hid, and signals, and what was copied and driven out because of forks, so far.
    pub const fn spent(&self) -> u64 {
        self.spent
    }

    /// What hints spared the original, so far.
    pub const fn saved(&self) -> u64 {
        self.saved
    }

    /// What another speculation is taken to cost.
    pub fn cost(&self) -> u64 {
        // Of pages that it had at the last fork that part is copied; of those since then nobody knows.
        let known = self.size.pages.min(self.forked_pages);
        let copied = scaled(self.copied_part, known).saturating_add(self.size.pages - known);
        // One that nothing comes of is ended when it has taken its credit.
        let missed = || self.missed(copied.min(COPIES_FREE).saturating_add(self.taken_mean.min(OWN_FREE)));
        let missed = if self.displaces() { missed() } else { 0 };
        let copies = copied.saturating_mul(self.size.copy).saturating_add(missed);
        self.cost_mean.max(self.size.fork.saturating_add(copies)).saturating_add(self.delay_expected())
    }

    /// How long the hints of another one are taken to have the original wait.
    fn delay_expected(&self) -> u64 {
        let last = self.delay.ticks();
        if self.forks <= 1 { last } else { mean(self.delay_mean, last, 1) }
    }

    /// Whether such a yield is worth that.
    pub fn pays(&self, gained: u64) -> bool {
        gained >= YIELD_MIN && scaled(gained, self.stalls.recent()) > self.cost().saturating_mul(2)
    }

    /// The yield that is just worth it.
    pub fn enough(&self) -> u64 {
        self.cost().saturating_mul(2 * ONE).checked_div(self.stalls.recent()).unwrap_or(0)
    }

    /// Whether another speculation may be afforded when so much time has elapsed.
    #[inline]
    pub fn affords_another(&self, elapsed: u64) -> bool {
        let earned = ((elapsed >> 6) - (elapsed >> 10)).saturating_add(self.saved - self.saved / 4);
        let taken = self.spent.saturating_add(self.delay.total());
        taken.saturating_add(self.cost()) <= earned.saturating_add(self.ticks_per_second / 1_000)
    }

    /// Whether what drives something out is charged with it: the first speculations teach what to predict.
    const fn displaces(&self) -> bool {
        self.size.displaces && self.forks > TRIALS
    }

    /// What is waited for because so many pages took its place.
    fn missed(&self, pages: u64) -> u64 {
        (pages / DISPLACED_PART).saturating_mul(self.stalls.alone())
    }

    /// Ticks allowed for the pages that the original copies after a fork of this cost.
    const fn allowance(&self, cost: u64) -> u64 {
        (cost / 2).saturating_add(self.ticks_per_second / 20_000)
    }

    /// What a fork that took `cost` counts as: that the kernel had the process wait for memory says nothing of the next one,
    /// the first time.
    fn counted(&mut self, cost: u64) -> u64 {
        let expected = self.size.fork.saturating_add(self.ticks_per_second / 10_000);
        let is_slow = self.size.displaces && cost / SLOW_TIMES > expected;
        if is_slow && !core::mem::replace(&mut self.was_slow, true) { expected } else { cost }
    }
}

/// `ticks` times a yield.
#[inline]
pub fn scaled(gained: u64, ticks: u64) -> u64 {
    u64::try_from((u128::from(gained) * u128::from(ticks)) >> 8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = SECOND / 1_000;

    /// Of a process whose stalls take a millisecond, and of which one fork was made that took ten.
    fn after_a_fork() -> Account {
        let mut account = Account::new(SECOND);
        account.on_stall(MS, false);
        account.on_fork(10 * MS, false);
        account
    }

    #[test]
    fn three_quarters_of_what_was_saved_pay_for_forks() {
        // With the allowance for copies the first cost 15.05 ms, and so will the next; one millisecond is free.
        let affords = |hints: u64| {
            let mut account = after_a_fork();
            account.on_yield(hints * ONE);
            account.affords_another(0)
        };
        assert!(!affords(38) && affords(39));
    }

    #[test]
    fn who_waited_for_hints_is_taken_to_do_so_again() {
        let mut account = Account::new(SECOND);
        for _ in 0..16 {
            account.on_stall(MS, false);
        }
        account.on_fork(MS, true);
        let cost = account.cost();
        account.on_stall(17 * MS, true);
        assert_eq!(account.cost(), cost + 16 * MS, "all of it: nothing else is known");
        let spent = account.spent();
        account.on_fork(MS, true);
        assert!(
            account.cost().abs_diff(cost + 8 * MS) < MS,
            "half of it, where the next did not: {}",
            account.cost()
        );
        assert!(account.spent() - spent < MS, "and it is not paid twice");
        account.on_fork(MS, true);
        assert!(account.cost().abs_diff(cost + 4 * MS) < MS, "{}", account.cost());
    }

    #[test]
    fn time_pays_for_forks_too() {
        let account = after_a_fork();
        let needed = (30_100_000 - MS) * 1_000 / 15;
        assert!(!account.affords_another(needed) && account.affords_another(needed * 103 / 100));
    }
}
