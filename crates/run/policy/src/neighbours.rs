//! Which files a program may need of a folder in which it has opened others.
//!
//! The contents of a file often tell which file comes next: a module names those that it imports. No speculator gets there before
//! the contents do. But such files lie in few folders, and many files of a folder are needed.
//!
//! # Model
//!
//! A wait for a file takes `w` on average, and the device serves `d` requests at once. A file that is read ahead costs
//!
//! ```text
//!     c = NEIGHBOUR_US + w / d
//! ```
//!
//! and one that the program opens later saves what its read was ahead, `w` at most. Of a folder of which `t` files were read ahead
//! and `u` were opened later, another file is opened with the probability `(u + 1) / (t + 2)`. It is worth its cost while
//!
//! ```text
//!     3/4 w (u + 1) / (t + 2)  >=  c
//! ```
//!
//! and is read when the [account](crate::account) of all folders covers `c`. A folder that is not worth another one is a failure,
//! and a file that was ahead by twice its cost a success.
//!
//! # Bound
//!
//! That of the account: a program whose files tell nothing of each other loses at most 1/16 of its waiting, and less after each
//! folder. On a device that serves one request at a time `c` is more than `3/4 w`, so nothing is read ahead.
//!
//! Times are in ticks.

use forebay_protocol::layout;

use crate::account::{Account, Outcome};
use crate::price::{
    MEAN_WEIGHT, NEIGHBOUR_US, NEIGHBOURS_BANKED, NEIGHBOURS_FIRST, SAVED_QUARTERS, WORTH_TIMES, mean,
};

/// What neighbours cost and earn in a run.
#[derive(Debug)]
pub struct Neighbours {
    account: layout::Account,
    processor: u64,
    wait: u64,
}

/// What is known of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    taken: u32,
    used: u32,
    is_left: bool,
}

impl Neighbours {
    /// Where the processor counts so many ticks in a second.
    #[must_use]
    pub fn new(ticks_per_second: u64) -> Self {
        Self { account: layout::Account::default(), processor: ticks_per_second / 1_000_000 * NEIGHBOUR_US, wait: 0 }
    }

    /// The program waited so often for files, on a device that serves `depth` requests at once, and so long in all.
    pub fn on_waits(&mut self, waits: u64, waited: u64, depth: u32) {
        let Some(wait) = waited.checked_div(waits) else { return };
        self.wait = if self.wait == 0 { wait } else { mean(self.wait, wait, MEAN_WEIGHT) };
        self.account().on_wait(waited, self.cost(depth));
    }

    /// How many files of this folder are to be read ahead now, if the account covers each.
    #[must_use]
    pub fn room(&mut self, folder: &mut Folder, depth: u32) -> u32 {
        if self.wait == 0 {
            return 0;
        }
        let (cost, worth) = (u128::from(self.cost(depth)), u128::from(self.wait / 4 * SAVED_QUARTERS));
        if worth * u128::from(folder.used + 1) >= cost * u128::from(folder.taken + 2) {
            return NEIGHBOURS_FIRST.saturating_add(folder.used.saturating_mul(2));
        }
        if !folder.is_left {
            folder.is_left = true;
            let cost = self.cost(depth).saturating_mul(folder.taken.into());
            let saved = self.wait.saturating_mul(folder.used.into());
            let _ = self.account().on_outcome(outcome(saved, cost));
        }
        0
    }

    /// Whether the account covers another file, or a list of names, which is paid then.
    pub fn pay(&mut self, depth: u32) -> bool {
        let cost = self.cost(depth);
        let may = self.account().may(cost);
        if may {
            self.account().on_cost(cost);
        }
        may
    }

    /// The program opened a file of this folder that was read ahead, `ahead` earlier, of what its read took.
    pub fn on_used(&mut self, folder: &mut Folder, ahead: u64, depth: u32) {
        folder.used = folder.used.saturating_add(1);
        let cost = self.cost(depth);
        self.account().on_saved(ahead, cost.saturating_mul(NEIGHBOURS_BANKED));
        if ahead / WORTH_TIMES >= cost {
            let _ = self.account().on_outcome(outcome(ahead, cost));
        }
    }

    fn account(&self) -> Account<'_> {
        Account::new(&self.account, self.processor)
    }

    fn cost(&self, depth: u32) -> u64 {
        self.processor.saturating_add(self.wait / u64::from(depth.max(1)))
    }
}

impl Folder {
    /// A file of it is read ahead.
    pub const fn on_taken(&mut self) {
        self.taken = self.taken.saturating_add(1);
    }
}

const fn outcome(saved: u64, cost: u64) -> Outcome {
    Outcome { saved, cost, expected: cost, displaces: false, taught: false }
}
