//! What the speculations of a program may cost: one account for each program of a run.
//!
//! # Model
//!
//! Waiting and savings are paid into the account, and all that speculations cost is taken out of it, as it happens:
//!
//! ```text
//!     balance = 1/4 ms + sum over waits of (wait / 16) 2^-f + 3/4 of the savings believed - costs
//! ```
//!
//! Savings are the stall time that hints saved, as far as trials of the whole run (`trial.rs`) have them believed. Where a trial
//! found harm, that part is negative, and savings that are claimed are costs. All other costs are what `fork.rs` counts.
//!
//! `f` counts failures in a row. A speculation *fails* when it saved less than it cost, and *succeeds* when it saved twice its
//! cost; then `f` is 0 again. A failure that changes what a call site predicts is a lesson, and counts a quarter. A failure after which
//! the balance covers another speculation was paid for by savings, and does not count.
//!
//! One rule decides about every action: it may be done when the balance covers its expected cost, its *stake*. Waiting pays
//! for one stake at most, and savings for [`BANKED_STAKES`].
//!
//! # Bound
//!
//! * A program that waits for `W` and never gains tries `1 + log2(1 + W / (16 stake))` times at most, up to ten, and then once in
//!   2^14 stakes of waiting. It loses at most 1/16 of its waiting, and after `f` failures `f / (16 (2^f - 1))` of it.
//! * After `f` failures it is tried again when it has waited for `16 2^f` stakes, about as long as it had waited so far.
//! * After a good phase at most [`BANKED_STAKES`] useless speculations follow each other, and the program waits for the next one as
//!   long as after a single failure.
//!
//! Processes of one executable share its account: a hundred short processes lose together what one may lose. The words lie in
//! shared memory, and processes add to them at the same time. Any contents are some valid account.
//!
//! Times are in ticks.

use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout;

use crate::price::{
    BANKED_STAKES, FAILURE, FAILURES_MAX, MEAN_WEIGHT, PRICE_ONE, SAVED_QUARTERS, WAITED_PART, WORTH_TIMES,
    mean,
};

/// What came of a speculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Stall time that its hints saved, as far as that is believed.
    pub saved: u64,
    /// What it cost in all.
    pub cost: u64,
    /// What of that another one is expected to cost, whatever comes of it.
    pub expected: u64,
    /// Memory was short.
    pub displaces: bool,
    /// A call site predicts in another way because of it.
    pub taught: bool,
}

/// The account of a program.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    words: &'a layout::Account,
    first: u64,
    /// The part of savings that is believed, in 1/[`PRICE_ONE`].
    believed: i64,
}

impl<'a> Account<'a> {
    /// The account in these words of shared memory; zeros are that of a new program, which may spend `first`.
    #[must_use]
    pub const fn new(words: &'a layout::Account, first: u64) -> Self {
        Self { words, first, believed: PRICE_ONE }
    }

    /// The account where such a part of savings is believed, in 1/[`PRICE_ONE`].
    #[must_use]
    pub const fn believing(self, part: i64) -> Self {
        let believed = if part < -PRICE_ONE || part > PRICE_ONE { PRICE_ONE } else { part };
        Self { believed, ..self }
    }

    /// What is believed of `claimed` savings: savings, or else costs.
    #[must_use]
    pub fn believed(&self, claimed: u64) -> (u64, u64) {
        let part = u128::from(claimed) * u128::from(self.believed.unsigned_abs())
            / u128::from(PRICE_ONE.unsigned_abs());
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        if self.believed < 0 { (0, part) } else { (part, 0) }
    }

    /// What there is to spend.
    #[must_use]
    pub fn balance(&self) -> i64 {
        let balance = self.words.balance.load(Relaxed).clamp(-MOST, MOST);
        balance + signed(self.first)
    }

    /// Whether an action may be done whose expected cost is `stake`.
    #[must_use]
    pub fn may(&self, stake: u64) -> bool {
        self.balance() >= signed(stake)
    }

    /// The program waited for so long, where the next action takes `stake`.
    pub fn on_wait(&self, waited: u64, stake: u64) {
        let failures = self.failures();
        // Quarters of a failure are steps between two powers of 1/2.
        let eighths = u64::from(2 * FAILURE - failures % FAILURE);
        self.pay_in(((waited / WAITED_PART) >> (failures / FAILURE)).saturating_mul(eighths) / 8, stake);
    }

    /// Hints are believed to have saved the program so much stall time.
    pub fn on_saved(&self, saved: u64, stake: u64) {
        self.pay_in(saved / 4 * SAVED_QUARTERS, stake.saturating_mul(BANKED_STAKES));
    }

    /// A speculation, or what is only done for speculations, cost so much.
    pub fn on_cost(&self, cost: u64) {
        // A sum that overflows is some balance all the same.
        self.words.balance.fetch_sub(signed(cost), Relaxed);
    }

    /// So much of a cost that was taken was not spent.
    pub fn on_unspent(&self, cost: u64) {
        self.words.balance.fetch_add(signed(cost), Relaxed);
    }

    /// A speculation is over, and its cost is taken already. Whether speculation is off from now on, as statistics have it.
    pub fn on_outcome(&self, outcome: Outcome) -> bool {
        let Outcome { saved, cost, expected, displaces, taught } = outcome;
        let known = &self.words.costs[usize::from(displaces)];
        known.store(
            self.cost(displaces).map_or(expected, |before| mean(before, expected, MEAN_WEIGHT)).max(1),
            Relaxed,
        );
        if saved > 0 && saved / WORTH_TIMES >= cost {
            self.words.failures.store(0, Relaxed);
            return false;
        }
        // What savings have paid for another one, too, says little of the program as it is now.
        if saved > cost || self.cost(displaces).is_some_and(|stake| self.may(stake)) {
            return false;
        }
        let before = self.failures();
        let after = (before + if taught { 1 } else { FAILURE }).min(FAILURES_MAX);
        self.words.failures.store(after, Relaxed);
        before < OFF && after >= OFF
    }

    /// What a speculation of the program costs on average, once there was one.
    #[must_use]
    pub fn cost(&self, displaces: bool) -> Option<u64> {
        Some(self.words.costs[usize::from(displaces)].load(Relaxed)).filter(|cost| *cost > 0)
    }

    /// The last speculation cost so much more, as shows after its outcome. It `is_first` where the mean cost is its own.
    pub fn on_more_cost(&self, more: u64, displaces: bool, is_first: bool) {
        self.on_cost(more);
        let known = &self.words.costs[usize::from(displaces)];
        let part = if is_first { more } else { more >> MEAN_WEIGHT };
        known.store(known.load(Relaxed).saturating_add(part), Relaxed);
    }

    /// The system refused to fork.
    pub fn on_refusal(&self) {
        self.words.failures.store((self.failures() + FAILURE).min(FAILURES_MAX), Relaxed);
    }

    /// Quarters of failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.words.failures.load(Relaxed).min(FAILURES_MAX)
    }

    /// Whether speculations of the program have saved more than they cost of late.
    #[must_use]
    pub fn is_proven(&self, displaces: bool) -> bool {
        self.failures() == 0 && self.cost(displaces).is_some()
    }

    /// Adds an income, up to a balance of `most`.
    fn pay_in(&self, income: u64, most: u64) {
        let room = signed(most).saturating_sub(self.balance());
        if room > 0 {
            self.words.balance.fetch_add(signed(income).min(room), Relaxed);
        }
    }
}

/// Quarters of failures from which the statistics say that speculation is off: waiting pays an eighth of what it pays at first.
const OFF: u32 = 3 * FAILURE;

/// The largest amount: far below the largest number, so that sums of some stay in range.
const MOST: i64 = 1 << 60;

/// Ticks as a signed number.
const fn signed(ticks: u64) -> i64 {
    if ticks > MOST as u64 { MOST } else { ticks as i64 }
}
