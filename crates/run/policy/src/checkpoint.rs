//! When a speculator makes a checkpoint of itself: a stopped copy from before a predicted value.
//!
//! # Model
//!
//! Where a prediction is wrong and matters, the speculation goes off track, and the original would have to fork again. That
//! takes the *original* 16 ms for each GiB, and copies of pages afterwards. The checkpoint waits for the true value instead,
//! and catches up. It costs only the speculator time: one fork of its own.
//!
//! There is one checkpoint at a time. The oldest one that the original has not passed is kept, because it can also repair what
//! goes wrong further ahead. A checkpoint is *due* when the original has passed the last one, and
//!
//! * a site predicts its first value in this speculation, or
//! * [`VALUES_MAX`] values were predicted since the last one, so that it does not get too far behind.
//!
//! # Bound
//!
//! A checkpoint is made only while all of them took less than 1/[`SPENT_PART`] of the speculator's time. The next one counts
//! with the cost of the last. So checkpoints slow a speculator down by that part at most. The first one is free, unless the
//! original would have more than [`AHEAD_PROVEN`] stalls meanwhile: the speculator would have lost its lead.

use crate::balance::AHEAD_PROVEN;
use crate::price::{SPENT_PART, VALUES_MAX};

/// What the first checkpoint is taken to cost, in ticks, where a fork takes `fork` and a stall of the original `stall`.
#[must_use]
pub const fn first_price(fork: u64, stall: u64) -> u64 {
    if fork <= stall.saturating_mul(AHEAD_PROVEN) { 0 } else { fork }
}

/// The checkpoints of one speculator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    begun: u64,
    made: u32,
    values: u32,
    spent: u64,
    last: u64,
}

impl Plan {
    /// A speculator begins at `now`, in ticks. Its first checkpoint is taken to cost `first_price`; see there.
    #[must_use]
    pub const fn new(now: u64, first_price: u64) -> Self {
        Self { begun: now, made: 0, values: 0, spent: 0, last: first_price }
    }

    /// A value is about to be made up, for a site that made up none before in this speculation if `first`. Whether a
    /// checkpoint is due, if the original has passed the last one.
    pub fn is_due(&mut self, now: u64, first: bool) -> bool {
        self.values = self.values.saturating_add(1);
        if !first && self.values < VALUES_MAX && self.made > 0 {
            return false;
        }
        let elapsed = now.saturating_sub(self.begun);
        self.spent.saturating_add(self.last) <= elapsed / SPENT_PART
    }

    /// A checkpoint was made, in so many ticks.
    pub fn on_made(&mut self, ticks: u64) {
        self.made = self.made.saturating_add(1);
        self.values = 0;
        self.spent = self.spent.saturating_add(ticks);
        self.last = ticks;
    }
}
