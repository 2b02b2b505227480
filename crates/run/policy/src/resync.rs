//! When the original forks a speculator.
//!
//! # Model
//!
//! The account (`account.rs`) has the cost `C` of a speculation and its savings. This policy decides when one may begin, by
//! its yield `y`, in stalls `s`:
//!
//! ```text
//!     y = used - wrong / 16
//!     worth it:  y >= 1/2  and  y s > 2 C
//! ```
//!
//! `used` counts the hints that spared a stall. A hint that came late counts as the part of a mean stall that it spared.
//! Wrong hints occupied the device. When a speculation goes off track, at most its initial window of unused page hints counts
//! as wrong, because the original may still use the others. `y` and `s` are exponentially weighted means (weights 1/4, 1/8).
//! `stalls.rs` has other means of `s` for other questions. At first `y` is 8.
//!
//! # States
//!
//! * *Enabled* (at first): a fork is justified at a stall, except at a process's first, under two conditions. The means above
//!   say that it is worth it. Stalls took at least 2 % of the last 1/64 to 1/32 s or of the last 1/2 to 1 s, or of
//!   the process's life if that is shorter. The clock's rate sets these spans. Where memory is short the program must also explore, until a
//!   speculation was worth it (`daring.rs`). One that faults must then lack as many pages as a fork may take before it has
//!   proved useful.
//! * *Disabled*, by a **crossing**: a finished speculation leaves means that say it is not worth it, or [`FUTILE_MAX`]
//!   speculations in a row yielded less than half a stall. Stalls that become too short, or forks too expensive, disable too.
//!   (It is no crossing when no speculator was ever started.) One *probe* is made after `4 * 2^level` stalls and
//!   `2^level / 256` s. The level rises with each failed probe, up to 10. It rises up to 2 within the first 16 speculations,
//!   which teach the call sites what to predict. A probe that was worth it restores Enabled, with its own yield as the mean.
//!   The level is halved then, and is forgotten after [`STEADY`] good speculations in a row.
//! * *Saturated*, on top of both while the caller says so: one probe after 256 stalls and a second.
//!
//! Means follow a change of phase. `y` counts as at most 4 times what is needed to break even (or 16), so a handful of useless
//! speculations disables however well earlier ones did.
//!
//! # Bound
//!
//! A fork is justified only while the account affords another. The first fork of all is also justified when it costs less
//! than the stalls of the last half second. So a large process that waits all the time can try early.
//!
//! Times are in ticks; yields and means of them have 8 fractional bits.

pub use crate::account::Size;
use crate::account::{Account, ONE, YIELD_MIN, scaled};
use crate::credit::TAKEN_FREE;
use crate::daring::{Daring, Stake};
use crate::lead;
use crate::mean::mean;
use crate::window::Window;

/// Hints that a speculation is taken to be good for before one was seen.
pub const YIELD_FIRST: u64 = 8;
/// Speculations in a row with a yield of less than half a stall that make a crossing.
pub const FUTILE_MAX: u32 = 6;
/// Good speculations in a row after which earlier failures are forgotten.
pub const STEADY: u32 = 4;
/// Stalls that nothing was prefetched for after which a speculation has plainly strayed.
const STRAYED_STALLS: u64 = 4;
/// Stalls and, as a part of a second, time before the first probe.
const BACKOFF_STALLS: u64 = 4;
const BACKOFF_TIME_PART: u64 = 256;
/// Doublings of the back-off.
const LEVEL_MAX: u32 = 10;
/// Doublings of the back-off during the first speculations, which teach the call sites what to predict.
const LEVEL_LESSONS_MAX: u32 = 2;
const LESSONS: u64 = 16;
/// Where memory is short, what a hint of a page must spare the original, as a part of a second: both make room in one group at
/// the same time, and wait for each other there. Measured: a third of its faults spared, each a wait of 13 us and 14 us of
/// work, a gather takes a tenth longer; with waits of 50 us a third less.
const HINT_PART: u64 = 20_000;
/// Stalls between probes of a saturated device; they are also a second apart.
const SATURATED_STALLS: u64 = 256;

/// Where the original is forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before a read that stalls, and is in flight meanwhile.
    Read,
    /// After a call that has stalled.
    Call,
    /// After a page fault that has.
    Fault,
}

/// Decides for one process when a stall justifies starting a speculator.
///
/// The caller, at a stall that nothing was prefetched for: if [`Policy::armed`] or [`Policy::judge_due`],
/// judges the speculation that it has, if any ([`Policy::on_end`]); then, if [`Policy::armed`] (again: the
/// judgement may have changed it), forks ([`Policy::on_spawn`], or [`Policy::on_refusal`]). It reports each stall when it is over
/// ([`Policy::on_stall`]).
#[derive(Clone, Debug)]
pub struct Policy {
    ticks_per_second: u64,
    begun: bool,
    start: u64,
    short: Window,
    long: Window,
    daring: Daring,
    has_stalled: bool,
    account: Account,
    /// The next one is that which ended a speculation.
    ends_speculation: bool,
    yield_mean: u64,
    /// A speculation was started that [`Policy::on_end`] has not been told of.
    unjudged: bool,
    /// That little came of it says nothing of others.
    is_excused: bool,
    /// It was started at that many stalls that nothing was prefetched for.
    spawned_stalls: u64,
    disabled: bool,
    level: u32,
    /// When a probe may be made, in stalls without prefetch and in time.
    probe_stalls: u64,
    probe_at: u64,
    futile: u32,
    good: u32,
    saturated: bool,
    saturated_stalls: u64,
    saturated_at: u64,
    crossings: u64,
    crossings_futile: u64,
}

impl Policy {
    /// The policy of a process that has not stalled yet.
    #[must_use]
    pub const fn new(ticks_per_second: u64) -> Self {
        let ticks_per_second = if ticks_per_second == 0 { 1_000_000_000 } else { ticks_per_second };
        Self {
            ticks_per_second,
            begun: false,
            start: 0,
            short: Window::new(ticks_per_second / 32),
            long: Window::new(ticks_per_second),
            daring: Daring::new(ticks_per_second),
            has_stalled: false,
            account: Account::new(ticks_per_second),
            ends_speculation: false,
            yield_mean: YIELD_FIRST * ONE,
            unjudged: false,
            is_excused: false,
            spawned_stalls: 0,
            disabled: false,
            level: 0,
            probe_stalls: 0,
            probe_at: 0,
            futile: 0,
            good: 0,
            saturated: false,
            saturated_stalls: 0,
            saturated_at: 0,
            crossings: 0,
            crossings_futile: 0,
        }
    }

    /// The process started at `now`. Without this call it counts as started at its first stall.
    pub fn begin(&mut self, now: u64) {
        if !self.begun {
            self.begun = true;
            self.start = now;
        }
    }

    /// How large the process is.
    pub fn expect_cost(&mut self, size: Size) {
        self.account.expect(size);
    }

    /// What a fork of the process takes by its size, in ticks.
    #[must_use]
    pub const fn size_fork(&self) -> u64 {
        self.account.size().fork
    }

    /// What a copy of one of its pages takes, in ticks.
    #[must_use]
    pub const fn size_copy(&self) -> u64 {
        self.account.size().copy
    }

    /// Whether memory is short.
    #[must_use]
    pub const fn memory_is_short(&self) -> bool {
        self.account.size().displaces
    }

    /// A call of the original waited `duration` ticks, until `now`; `hinted` if a prefetch for it was under
    /// way.
    pub fn on_stall(&mut self, now: u64, duration: u64, hinted: bool) {
        self.begin(now.saturating_sub(duration));
        self.has_stalled = true;
        self.short.add(now, duration);
        self.long.add(now, duration);
        self.daring.on_stall(now, duration);
        if hinted {
            return;
        }
        self.account.on_stall(duration, self.is_behind_hints());
        self.ends_speculation = false;
        if !self.disabled && !self.unjudged && !self.account.pays(self.yield_mean) {
            self.disable(now, false);
        }
    }

    /// Whether hints may have been in the queue before the stall at hand: of a live speculation, or of one that it has ended.
    const fn is_behind_hints(&self) -> bool {
        self.unjudged || self.ends_speculation
    }

    /// The program was told of a fault, which took `ticks`.
    pub const fn on_signal(&mut self, ticks: u64) {
        self.account.on_expense(ticks);
    }

    /// From `from` to `now` the program itself worked for `ticks`, the kernel's work for it not counted.
    pub fn on_work(&mut self, from: u64, now: u64, ticks: u64) {
        self.daring.on_work(from, now, ticks);
    }

    /// From `from` to `now` there were `count` stalls that nobody attended to, of `duration` ticks each; nothing was
    /// prefetched for them.
    pub fn on_unseen_stalls(&mut self, from: u64, now: u64, count: u64, duration: u64) {
        let waited = duration.saturating_mul(count).min(now.saturating_sub(from));
        self.short.add_over(from, now, waited);
        self.long.add_over(from, now, waited);
        self.daring.on_stalls(from, now, count, waited);
        self.has_stalled |= count > 0;
        self.account.on_unseen_stalls(count, duration, self.is_behind_hints());
    }

    /// Whether a fork at `now` is worth what it may drive out: where memory is short and the last speculation was of no
    /// use, the original must have little to lose. One that lacks less than a fork takes would mostly wait for what that
    /// drives out.
    #[must_use]
    pub fn dares(&self, now: u64, place: Place) -> bool {
        let proven = self.good > 0 && !self.disabled;
        let stake = || Stake {
            age: now.saturating_sub(self.start),
            risk: self.risk(),
            keeps_up: self.keeps_up(),
            has_paid: self.account.saved() / 2 > self.account.spent(),
        };
        let lacks_little = || place == Place::Fault && self.account.size().lacks < TAKEN_FREE;
        let is_in_vain = || lacks_little() || (place == Place::Fault && !self.page_hints_pay());
        !self.account.size().displaces || (!is_in_vain() && (proven || self.daring.dares(now, &stake())))
    }

    /// Whether a hint of a page spares the original more than it has it wait for elsewhere, if that counts.
    #[must_use]
    pub const fn page_hints_pay(&self) -> bool {
        let nothing_counts = !self.account.size().displaces || self.account.size().risk_stalls == 0;
        nothing_counts || self.account.stalls().lasting() >= self.ticks_per_second / HINT_PART
    }

    /// Whether a speculator would be faster than the original, whose memory it has to copy, by what is known of both.
    #[must_use]
    pub const fn keeps_up(&self) -> bool {
        !self.account.size().displaces || self.account.size().detour <= self.account.stalls().recent()
    }

    /// Whether stalls are so short that a speculation is behind the original at first.
    fn leads_matter(&self) -> bool {
        let stall_us = self.account.stalls().alone() / (self.ticks_per_second / 1_000_000).max(1);
        lead::matters(u32::try_from(stall_us).unwrap_or(u32::MAX))
    }

    /// What a fork may have the original wait for, once.
    const fn risk(&self) -> u64 {
        self.account.stalls().alone().saturating_mul(self.account.size().risk_stalls)
    }

    /// The original started a speculator at that place, which took `cost` ticks of its time.
    pub fn on_spawn(&mut self, now: u64, cost: u64, place: Place) {
        self.begin(now);
        self.account.on_fork(cost, place == Place::Read);
        if self.account.size().displaces {
            self.daring.on_fork(self.risk(), place == Place::Fault);
        } else {
            self.daring.on_free_fork();
        }
        self.unjudged = true;
        self.spawned_stalls = self.account.stalls().count();
        self.saturated_stalls = self.account.stalls().count().saturating_add(SATURATED_STALLS);
        self.saturated_at = now.saturating_add(self.ticks_per_second);
        if self.disabled {
            // The probe has failed unless it is judged otherwise.
            let level_max = if self.account.forks() <= LESSONS { LEVEL_LESSONS_MAX } else { LEVEL_MAX };
            self.level = (self.level + 1).min(level_max);
            self.back_off(now);
        }
    }

    /// The system refused a fork, which took `cost` ticks all the same. It is asked again as if a probe had failed, which is
    /// no crossing.
    pub fn on_refusal(&mut self, now: u64, cost: u64) {
        self.begin(now);
        self.account.on_expense(cost);
        self.disabled = true;
        self.level = (self.level + 1).min(LEVEL_MAX);
        self.back_off(now);
    }

    /// The original copied so many pages for the speculation that is to be judged, and speculators took `theirs` since
    /// the last one.
    ///
    /// What the allowance of the fork does not cover counts against the overhead bound.
    pub fn on_copies(&mut self, pages: u64, theirs: u64) {
        self.account.on_copies(pages, theirs);
    }

    /// That little came of the speculation that is to be judged says nothing of others: it was late, or never began.
    pub const fn excuse(&mut self) {
        self.is_excused = true;
    }

    /// A speculation is judged: the stalls that hints of it spared the original, and hints that were of no use.
    pub fn on_end(&mut self, now: u64, used: u64, wrong: u64) {
        self.ends_speculation |= self.unjudged;
        self.unjudged = false;
        let is_excused = core::mem::take(&mut self.is_excused);
        let gained = used.saturating_mul(ONE).saturating_sub(wrong.saturating_mul(ONE / 16));
        self.account.on_yield(gained);
        let counted = gained.min(self.account.enough().saturating_mul(4).max(16 * ONE));
        let worth_it = self.account.pays(gained);
        self.good = if worth_it { self.good.saturating_add(1) } else { 0 };
        self.futile = if gained < YIELD_MIN { self.futile.saturating_add(1) } else { 0 };
        if self.good >= STEADY {
            self.level = 0;
        }
        if worth_it {
            self.daring.on_success();
        } else {
            let is_telling = !is_excused && !self.leads_matter();
            let spared = is_telling.then_some(scaled(gained, self.account.stalls().alone()));
            self.daring.on_failure(now, self.risk(), spared);
        }
        if self.disabled {
            if worth_it {
                self.disabled = false;
                self.yield_mean = counted;
                self.level /= 2;
            }
        } else {
            self.yield_mean = mean(self.yield_mean, counted, 2);
            let is_futile = self.futile >= FUTILE_MAX;
            if is_futile || !self.account.pays(self.yield_mean) {
                self.disable(now, is_futile);
            }
        }
    }

    /// A speculation is over because the caller wanted none for a while: hints of it that the original used. If there
    /// were any, it says nothing of the next that there were no more; else it is judged like others.
    pub fn on_interruption(&mut self, now: u64, used: u64) {
        if used == 0 {
            self.excuse();
            self.on_end(now, 0, 0);
            return;
        }
        self.is_excused = false;
        self.ends_speculation |= self.unjudged;
        self.unjudged = false;
        self.daring.take_back(self.risk());
        self.account.on_yield(used.saturating_mul(ONE));
    }

    /// The device serves so few requests at once that prefetching from it does not help.
    pub fn set_saturated(&mut self, saturated: bool) {
        if saturated && !self.saturated {
            self.saturated_stalls = self.account.stalls().count().saturating_add(SATURATED_STALLS);
        }
        self.saturated = saturated;
    }

    /// Whether a stall at `now` would justify a fork.
    #[must_use]
    #[inline]
    pub fn armed(&self, now: u64) -> bool {
        if !self.has_stalled || !self.affordable(now) {
            return false;
        }
        if self.saturated
            && (self.account.stalls().count() < self.saturated_stalls || now < self.saturated_at)
        {
            return false;
        }
        if self.disabled && !self.probe_due(now) {
            return false;
        }
        let age = now.saturating_sub(self.start);
        self.short.at_least_a_fiftieth(now, age) || self.long.at_least_a_fiftieth(now, age)
    }

    /// Whether the running speculation has plainly strayed and should be judged even when no fork is justified:
    /// what it saved may be what justifies the next one.
    #[must_use]
    #[inline]
    pub fn judge_due(&self) -> bool {
        self.unjudged && self.account.stalls().count() >= self.spawned_stalls.saturating_add(STRAYED_STALLS)
    }

    /// Mean stall that nothing was prefetched for, in ticks; 0 before the first.
    #[must_use]
    pub const fn stall_mean(&self) -> u64 {
        self.account.stalls().recent()
    }

    /// Whether speculations of late were good for more than the first was taken to be.
    #[must_use]
    pub const fn yields_well(&self) -> bool {
        !self.disabled && self.yield_mean > YIELD_FIRST * ONE * 5 / 4
    }

    /// Times that speculation was disabled because it did not pay.
    #[must_use]
    pub const fn crossings(&self) -> u64 {
        self.crossings
    }

    /// Those of [`Self::crossings`] after several speculations in a row of which nothing came; the others were because
    /// less came of them than they cost.
    #[must_use]
    pub const fn crossings_futile(&self) -> u64 {
        self.crossings_futile
    }

    /// Whether speculation is disabled now, probes excepted.
    #[must_use]
    pub const fn disabled(&self) -> bool {
        self.disabled
    }

    /// Ticks that speculation cost the original so far: forks not hidden in a stall, signals of faults, and an estimate of
    /// copied pages.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.account.spent()
    }

    /// Estimate of the stall ticks that speculation saved so far.
    #[must_use]
    pub const fn saved(&self) -> u64 {
        self.account.saved()
    }

    #[inline]
    fn affordable(&self, now: u64) -> bool {
        let is_first = self.account.forks() == 0;
        (is_first && self.account.cost() <= self.long.spent(now))
            || self.account.affords_another(now.saturating_sub(self.start))
    }

    #[inline]
    fn probe_due(&self, now: u64) -> bool {
        self.account.stalls().count() >= self.probe_stalls && now >= self.probe_at
    }

    fn disable(&mut self, now: u64, is_futile: bool) {
        self.disabled = true;
        self.futile = 0;
        self.good = 0;
        if self.account.forks() > 0 {
            self.crossings = self.crossings.saturating_add(1);
            self.crossings_futile = self.crossings_futile.saturating_add(is_futile.into());
        }
        self.back_off(now);
    }

    fn back_off(&mut self, now: u64) {
        let level = self.level.min(LEVEL_MAX);
        self.probe_stalls = self.account.stalls().count().saturating_add(BACKOFF_STALLS << level);
        let wait = (self.ticks_per_second / BACKOFF_TIME_PART).saturating_mul(1 << level);
        self.probe_at = now.saturating_add(wait);
    }
}
