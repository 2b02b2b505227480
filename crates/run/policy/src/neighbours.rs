//! What a program may need of a place in which it has needed something else: files of a folder, folders of a tree, blocks of a large file.
//!
//! What is read often tells what is read next: a module names those that it imports, an index where its table's rows are. No speculator
//! gets there before the contents do. But such files lie in few folders and such blocks in few files, and many of these are needed.
//!
//! # Model
//!
//! A wait takes `w` on average, the device serves `d` requests at once, and the processor time of a read ahead costs `p`. That is
//! [`NEIGHBOUR_US`] until the executor has measured it ([`Ran`](crate::fork::Ran)). A file or block that is read ahead costs
//!
//! ```text
//!     c = p + w / d
//! ```
//!
//! and one that the program needs later saves what its read was ahead, `w` at most. Of a place of which `t` were read ahead and `u`
//! were needed later, another one is needed with the probability `(u + 1) / (t + 2)`. But a program that looks rows up in no order needs
//! most blocks late. So each of the `n` waits in the place pays for it, too. Another read is worth its cost while
//!
//! ```text
//!     3/4 w (u + 1) + w n / 16  >=  c (t + 2)
//! ```
//!
//! and is made when the [account](crate::account) of all places covers `c`. Waiting pays for four reads at once. Of a file that is read
//! in sequence, four are made or none. A place that is not worth another read is a failure. A read
//! that was ahead by twice its cost is a success. Once a read is done, the account is charged with what it really cost, and
//! with `w / d` only where it asked the device.
//!
//! # Bound
//!
//! That of the account: a program whose needs tell nothing of each other loses at most 1/16 of its waiting, and less after each
//! place. On a device that serves one request at a time `c` is more than `3/4 w`, so nothing is read ahead.
//!
//! Times are in ticks.

use forebay_protocol::layout;

use crate::account::{Account, Outcome};
use crate::price::{
    MEAN_WEIGHT, NEIGHBOUR_US, NEIGHBOURS_BANKED, NEIGHBOURS_FIRST, NEIGHBOURS_TOGETHER, SAVED_QUARTERS,
    WAITED_PART, WORTH_TIMES, mean,
};

/// What neighbours cost and earn in a run.
#[derive(Debug)]
pub struct Neighbours {
    account: layout::Account,
    /// Of a program that has not waited: what the first read may cost.
    first: u64,
    /// What the processor time of a read costs on average.
    processor: u64,
    wait: u64,
}

/// What was paid for a read, before it was known what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    processor: u64,
    device: u64,
}

/// What is known of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    missed: u32,
    taken: u32,
    used: u32,
    is_left: bool,
}

impl Neighbours {
    /// Where the processor counts so many ticks in a second.
    #[must_use]
    pub fn new(ticks_per_second: u64) -> Self {
        let first = ticks_per_second / 1_000_000 * NEIGHBOUR_US;
        Self { account: layout::Account::default(), first, processor: first, wait: 0 }
    }

    /// The program waited so often for files, on a device that serves `depth` requests at once, and so long in all.
    pub fn on_waits(&mut self, waits: u64, waited: u64, depth: u32) {
        let Some(wait) = waited.checked_div(waits) else { return };
        self.wait = if self.wait == 0 { wait } else { mean(self.wait, wait, MEAN_WEIGHT) };
        self.account().on_wait(waited, self.cost(depth).saturating_mul(NEIGHBOURS_TOGETHER));
    }

    /// How long the program is to wait until the next look, of which it has waited `idle` since one that found something to read. A look
    /// takes as much of the processor as a read, and may take a sixteenth of the waiting. What comes later is found within a sixteenth.
    #[must_use]
    pub fn pause(&self, idle: u64) -> u64 {
        (self.processor.saturating_mul(WAITED_PART)).max(idle / WAITED_PART)
    }

    /// How much of this place is to be read ahead now, if the account covers each.
    #[must_use]
    pub fn room(&mut self, place: &mut Place, depth: u32) -> u32 {
        if self.wait == 0 {
            return 0;
        }
        let (cost, wait) = (u128::from(self.cost(depth)), u128::from(self.wait));
        let hoped = wait / 4 * u128::from(SAVED_QUARTERS) * (u128::from(place.used) + 1);
        let waited = wait / u128::from(WAITED_PART) * u128::from(place.missed);
        let may_pay = wait / 4 * u128::from(SAVED_QUARTERS) >= cost;
        if may_pay && hoped + waited >= cost * (u128::from(place.taken) + 2) {
            return NEIGHBOURS_FIRST.saturating_add(place.used.saturating_mul(2));
        }
        // One that the device's price alone rules out has failed in nothing.
        if !place.is_left && place.taken > 0 {
            place.is_left = true;
            let cost = self.cost(depth).saturating_mul(place.taken.into());
            let saved = self.wait.saturating_mul(place.used.into());
            let _ = self.account().on_outcome(outcome(saved, cost));
        }
        0
    }

    /// Whether the account covers so many more reads.
    #[must_use]
    pub fn may_pay(&self, count: u64, depth: u32) -> bool {
        self.account().may(self.cost(depth).saturating_mul(count))
    }

    /// Something is read ahead: a member of a place, or the names of a folder. What is paid for that.
    pub fn pay(&mut self, depth: u32) -> Paid {
        let paid = Paid { processor: self.processor, device: self.device(depth) };
        self.account().on_cost(paid.total());
        paid
    }

    /// What was `paid` for is done. Its processor time cost so much, and it `asked` a device or found all in memory.
    pub fn on_done(&mut self, paid: Paid, processor: u64, asked: bool) {
        self.processor = mean(self.processor, processor, MEAN_WEIGHT);
        self.account().on_unspent(paid.total());
        self.account().on_cost(processor.saturating_add(if asked { paid.device } else { 0 }));
    }

    /// What was `paid` for is not done, because the program was first.
    pub fn on_spared(&mut self, paid: Paid) {
        self.account().on_unspent(paid.total());
    }

    /// The program needed something of this place that was read ahead, `ahead` earlier, of what its read took.
    pub fn on_used(&mut self, place: &mut Place, ahead: u64, depth: u32) {
        place.used = place.used.saturating_add(1);
        let cost = self.cost(depth);
        self.account().on_saved(ahead, cost.saturating_mul(NEIGHBOURS_BANKED));
        if ahead / WORTH_TIMES >= cost {
            let _ = self.account().on_outcome(outcome(ahead, cost));
        }
    }

    fn account(&self) -> Account<'_> {
        Account::new(&self.account, self.first)
    }

    fn cost(&self, depth: u32) -> u64 {
        self.processor.saturating_add(self.device(depth))
    }

    /// What a read takes of the device.
    fn device(&self, depth: u32) -> u64 {
        self.wait / u64::from(depth.max(1))
    }
}

impl Paid {
    const fn total(self) -> u64 {
        self.processor.saturating_add(self.device)
    }
}

impl Place {
    /// The program waited for something of it that was not read ahead.
    pub const fn on_missed(&mut self) {
        self.missed = self.missed.saturating_add(1);
    }

    /// Something of it was in memory, which tells nothing of it.
    pub const fn on_idle(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    /// Something of it is read ahead.
    pub const fn on_taken(&mut self) {
        self.taken = self.taken.saturating_add(1);
    }
}

const fn outcome(saved: u64, cost: u64) -> Outcome {
    Outcome { saved, cost, expected: cost, displaces: false, taught: false }
}
