//! When a process forks a speculator: what that is expected to cost, and what it did cost and save.
//!
//! # Model
//!
//! A fork may be made when the program's account (`account.rs`) covers its stake, the expected cost. A speculation costs
//!
//! ```text
//!     fork + copied * copy price + taken * own price + ran * processor price + delay + ended
//! ```
//!
//! `fork` is what the fork took that no stall hid. `copied` and `taken` are pages that the original copied and that the speculator
//! took, at the prices of `balance.rs`. `ran` is the processor time of speculators ([`Ran`]). `delay` is what
//! stalls took longer while hints were in flight on their device. `ended` is what the original spent on the end of the speculation.
//!
//! The stake is the mean cost of the program's speculations, and at least what the size of the process makes of a fork, by how long
//! its forks took. The processor time of those that gained is left out: the longer they gain, the more they run. Before the
//! first speculation it is the fork of a small process and [`COPIES_FIRST`] copies, or what `balance.rs` lets a useless one take.
//!
//! Some costs show later. First writes after the end of the speculation do: the kernel handles a fault for each, without a copy.
//! So does what the original waits for until a speculator is gone, where its program ends or executes another one.
//!
//! What a copy takes is seen at each fork ([`ForkPolicy::on_copy`]), because machines differ.
//!
//! All costs are taken out of the account as they happen. A speculation is judged by the same figures when it ends.
//!
//! Times are in ticks.

use crate::account::{Account, Outcome};
use crate::balance::Prices;
use crate::price::{
    BESIDE_PRICE, COPIES_FIRST, FIRST_WRITE_PART, FORK_NS, MEAN_WEIGHT, PACE_MAX, PAGES_STALLS, PRICE_ONE,
    STALL_TIMES_MAX, STRAYED_STALLS, mean, ticks,
};

/// [`PRICE_ONE`], as a number of ticks has it.
const ONE: u64 = PRICE_ONE.unsigned_abs();

/// Where the original is when a speculator is forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a read that the device has started on: the fork takes place while the device works.
    Read,
    /// After another call that stalled.
    Call,
    /// After a page fault that stalled.
    Fault,
}

/// What the size of a process makes of a fork of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Pages that are copied when they are first written to after a fork.
    pub pages: u64,
    /// What the fork takes, in ticks.
    pub fork: u64,
    /// What one copy takes, in ticks.
    pub copy: u64,
    /// What a page costs that another one displaces, in 1/[`PRICE_ONE`] of a stall; 0 where memory is not short.
    pub displaced: u64,
}

impl Size {
    /// Whether memory is short, so that a page that is taken displaces another one.
    #[must_use]
    pub const fn displaces(&self) -> bool {
        self.displaced > 0
    }
}

/// What a speculation took, besides the original's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Pages that the original copied.
    pub copied: u64,
    /// Pages that its speculators took.
    pub taken: u64,
    /// Processor time of its speculators.
    pub ran: Ran,
}

/// Processor time of speculators, and how dear that was. They run on time that nothing else wants, at idle priority. But where
/// processors are busy, caches and quotas are shared. And a processor that is busy besides the original's slows the original down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// So many ticks.
    pub ticks: u64,
    /// Which part of the time some task waited for a processor, in 1/[`PRICE_ONE`].
    pub busy: u32,
    /// Which part of the time the original itself ran, in 1/[`PRICE_ONE`].
    pub beside: u64,
}

impl Ran {
    /// What it cost the original, in ticks.
    #[must_use]
    pub fn cost(&self) -> u64 {
        let price = u64::from(self.busy).saturating_add(self.beside.min(ONE) * BESIDE_PRICE / ONE).min(ONE);
        let cost = u128::from(self.ticks) * u128::from(price) / u128::from(ONE);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

/// The forks of one process.
#[derive(Clone, Debug)]
pub struct ForkPolicy {
    size: Size,
    /// Mean of recent stalls for which nothing was prefetched, and how many there were.
    recent: u64,
    stalls: u64,
    /// What a fork is taken to cost before there was one.
    fork_first: u64,
    /// How long forks take against what the size makes of them, in 1/[`PRICE_ONE`].
    pace: u64,
    /// What the copy of a page takes by what was seen of it; 0 before that.
    copy: u64,
    /// The mean cost of speculations is that of the last one alone.
    is_first: bool,
    /// The speculation that is to be judged: its cost, and the stalls before it.
    live: Option<Live>,
    /// What stalls took longer beside hints, since the last speculation was judged.
    delay: i64,
    delayed: u64,
    spent: u64,
    saved: u64,
    crossings: u64,
    crossings_futile: u64,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    cost: u64,
    stalls_before: u64,
}

impl ForkPolicy {
    /// The policy of a process that has not stalled yet.
    #[must_use]
    pub const fn new(ticks_per_second: u64) -> Self {
        let ticks_per_second = if ticks_per_second == 0 { 1_000_000_000 } else { ticks_per_second };
        Self {
            size: Size { pages: 0, fork: 0, copy: 0, displaced: 0 },
            recent: 0,
            stalls: 0,
            fork_first: ticks(FORK_NS, ticks_per_second),
            pace: ONE,
            copy: 0,
            is_first: false,
            live: None,
            delay: 0,
            delayed: 0,
            spent: 0,
            saved: 0,
            crossings: 0,
            crossings_futile: 0,
        }
    }

    /// How large the process is from now on.
    pub const fn expect(&mut self, size: Size) {
        self.size = size;
    }

    /// What the size of the process makes of a fork, by how long its forks took.
    #[must_use]
    pub fn size(&self) -> Size {
        let fork = u128::from(self.size.fork) * u128::from(self.pace) / u128::from(ONE);
        let copy = if self.copy == 0 { self.size.copy } else { self.copy };
        Size { fork: u64::try_from(fork).unwrap_or(u64::MAX), copy, ..self.size }
    }

    /// The first write to a page after a fork took so long, because the page was copied.
    pub fn on_copy(&mut self, took: u64) {
        let seen = took.min(self.size.copy.saturating_mul(PACE_MAX)).max(self.size.copy / PACE_MAX).max(1);
        self.copy = if self.copy == 0 { seen } else { mean(self.copy, seen, MEAN_WEIGHT) };
    }

    /// A fork took so long. Those of small processes say nothing of the size.
    fn learn_pace(&mut self, took: u64) {
        if self.size.fork > self.fork_first {
            let seen = u128::from(took) * u128::from(ONE) / u128::from(self.size.fork);
            let seen = u64::try_from(seen).unwrap_or(u64::MAX).clamp(ONE / PACE_MAX, ONE * PACE_MAX);
            self.pace = mean(self.pace, seen, MEAN_WEIGHT);
        }
    }

    /// The process waited for `duration`. `unforeseen` unless a prefetch for it was under way; `delay` is what it took longer than
    /// alone, where hints were in flight and that is known.
    pub fn on_stall(&mut self, account: &Account<'_>, duration: u64, unforeseen: bool, delay: Option<i64>) {
        account.on_wait(duration, self.stake(account));
        if !unforeseen {
            return;
        }
        self.delay = self.delay.saturating_add(delay.unwrap_or(0));
        let counted = if self.recent == 0 {
            duration
        } else {
            duration.min(self.recent.saturating_mul(STALL_TIMES_MAX))
        };
        self.recent = if self.recent == 0 { counted } else { mean(self.recent, counted, MEAN_WEIGHT) };
        self.stalls = self.stalls.saturating_add(1);
    }

    /// The last speculation cost so much more, as shows after its end.
    pub fn on_more_cost(&mut self, account: &Account<'_>, more: u64) {
        if more > 0 {
            account.on_more_cost(more, self.size.displaces(), self.is_first);
            self.spent = self.spent.saturating_add(more);
        }
    }

    /// The process waited for `count` pages, `duration` for each, and a signal told it of the last one. The cost of the signal comes
    /// before the income: taken from a balance that waiting fills to one stake, it would leave less than a stake for ever.
    pub fn on_faults(&mut self, account: &Account<'_>, count: u64, duration: u64, signal: u64) {
        self.charge(account, signal);
        let untold = count.saturating_sub(1);
        account.on_wait(duration.saturating_mul(untold), self.stake(account));
        self.stalls = self.stalls.saturating_add(untold);
        self.on_stall(account, duration, true, None);
    }

    /// Since the last speculation was judged, the original has first written to so many more pages of those that were forked.
    pub fn on_first_writes(&mut self, account: &Account<'_>, pages: u64) {
        self.on_more_cost(account, pages.saturating_mul(self.size().copy / FIRST_WRITE_PART));
    }

    /// The process did something that is only done for speculations, such as a look at its size, which took so long.
    pub fn on_upkeep(&mut self, account: &Account<'_>, took: u64) {
        self.charge(account, took);
    }

    /// What another speculation is expected to cost.
    #[must_use]
    pub fn stake(&self, account: &Account<'_>) -> u64 {
        let first = || self.fork_first.saturating_add(self.first_pages());
        let seen = account.cost(self.size.displaces()).unwrap_or_else(first);
        seen.max(self.size().fork.saturating_sub(self.recent))
    }

    /// What pages are taken to cost in the first speculation: no more than in one that saves nothing.
    fn first_pages(&self) -> u64 {
        self.pages_cost(Took { copied: COPIES_FIRST.min(self.size.pages), ..Took::default() })
            .min(self.harm_max())
    }

    /// What the claims of one speculation cost at most, where they are harm: it ends then.
    const fn harm_max(&self) -> u64 {
        self.recent.saturating_mul(PAGES_STALLS)
    }

    /// What pages cost that the original copied and that a speculator took.
    fn pages_cost(&self, took: Took) -> u64 {
        let prices = Prices { copy: self.size().copy, displaced: self.displaced(), ..Prices::default() };
        took.copied.saturating_mul(prices.copied()).saturating_add(took.taken.saturating_mul(prices.own()))
    }

    /// What a live speculation pays and earns.
    #[must_use]
    pub fn prices(&self, account: &Account<'_>) -> Prices {
        let (worth, _) = account.believed(self.recent);
        Prices { stall: self.recent, worth, copy: self.size().copy, displaced: self.displaced() }
    }

    /// What a page costs that another one displaces.
    fn displaced(&self) -> u64 {
        let price = u128::from(self.recent) * u128::from(self.size.displaced) / u128::from(ONE);
        u64::try_from(price).unwrap_or(u64::MAX)
    }

    /// Whether the live speculation, which claims to have saved so much, harms the program by more than a useless one may cost.
    #[must_use]
    pub fn is_harmful(&self, account: &Account<'_>, claimed: u64) -> bool {
        let (_, lost) = account.believed(claimed);
        self.live.is_some() && lost > self.harm_max()
    }

    /// Whether a stall now would justify a fork.
    #[must_use]
    #[inline]
    pub fn is_armed(&self, account: &Account<'_>) -> bool {
        self.stalls > 0 && account.may(self.stake(account))
    }

    /// The original started a speculator at that place, which took `took` of its time.
    pub fn on_spawn(&mut self, account: &Account<'_>, took: u64, place: Place) {
        // The device works on the read meanwhile.
        let cost = if place == Place::Read { took.saturating_sub(self.recent) } else { took };
        self.live = Some(Live { cost: 0, stalls_before: self.stalls });
        self.learn_pace(took);
        self.charge(account, cost);
    }

    /// The system refused a fork, which took `took` all the same.
    pub fn on_refusal(&mut self, account: &Account<'_>, took: u64) {
        self.charge(account, took);
        account.on_refusal();
    }

    /// Whether the live speculation has plainly strayed, and is to be judged even where no fork is justified.
    #[must_use]
    #[inline]
    pub fn judge_due(&self) -> bool {
        self.live.is_some_and(|live| self.stalls >= live.stalls_before.saturating_add(STRAYED_STALLS.into()))
    }

    /// A speculation is over. It claims to have saved the original so much stall time, and took what `took` says. `taught` where a
    /// call site predicts in another way because of it. Whether it saved more than it cost.
    pub fn on_end(&mut self, account: &Account<'_>, claimed: u64, took: Took, taught: bool) -> bool {
        let (saved, lost) = account.believed(claimed);
        self.saved = self.saved.saturating_add(saved);
        let cost = self.settle(account, lost.min(self.harm_max()), took);
        let displaces = self.size.displaces();
        let expected = if saved > cost { cost.saturating_sub(took.ran.cost()) } else { cost };
        self.is_first = account.cost(displaces).is_none();
        let is_off = account.on_outcome(Outcome { saved, cost, expected, displaces, taught });
        // What savings are kept for is what this one teaches.
        account.on_saved(saved, self.stake(account));
        self.crossings = self.crossings.saturating_add(is_off.into());
        self.crossings_futile = self.crossings_futile.saturating_add((is_off && saved == 0).into());
        saved > cost
    }

    fn settle(&mut self, account: &Account<'_>, lost: u64, took: Took) -> u64 {
        let delay = u64::try_from(core::mem::take(&mut self.delay)).unwrap_or(0);
        self.delayed = self.delayed.saturating_add(delay);
        let pages = self.pages_cost(took);
        let others = delay.saturating_add(lost).saturating_add(took.ran.cost());
        self.charge(account, pages.saturating_add(others));
        self.live.take().map_or(0, |live| live.cost)
    }

    fn charge(&mut self, account: &Account<'_>, cost: u64) {
        account.on_cost(cost);
        self.spent = self.spent.saturating_add(cost);
        if let Some(live) = &mut self.live {
            live.cost = live.cost.saturating_add(cost);
        }
    }

    /// Mean recent stall for which nothing was prefetched; 0 before the first.
    #[must_use]
    pub const fn stall_mean(&self) -> u64 {
        self.recent
    }

    /// What speculations cost the process so far.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.spent
    }

    /// The stall time that they saved it, as far as that is believed.
    #[must_use]
    pub const fn saved(&self) -> u64 {
        self.saved
    }

    /// What stalls took longer beside hints.
    #[must_use]
    pub const fn delayed(&self) -> u64 {
        self.delayed
    }

    /// Times that speculation went off after several failures.
    #[must_use]
    pub const fn crossings(&self) -> u64 {
        self.crossings
    }

    /// Those of [`Self::crossings`] where the last speculation saved nothing at all.
    #[must_use]
    pub const fn crossings_futile(&self) -> u64 {
        self.crossings_futile
    }
}
