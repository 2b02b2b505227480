//! Whether the original should be forked where the fork evicts pages: exploration under memory pressure.
//!
//! # Model
//!
//! Where memory is short, a fork evicts pages of a program that works with them. A program that only waits has nothing to
//! lose. So until a speculation was worth its cost, the program *explores* only if it has little to lose and a speculator is
//! likely to keep up.
//!
//! It has little to lose in one of two cases:
//!
//! * Its own work took less than 1/8 of the last second. While forks have not saved twice their cost, this holds for the first
//!   four failures only. After each failure the process *backs off*, because it now waits for pages that the fork evicted. The
//!   back-off lasts as many stalls as the caller says, and doubles each time.
//! * Forks have saved twice their cost, and stalls took 7/8 of the last 1/32 to 1/16 s. Each stall counts with 13 us more,
//!   which a fault takes.
//!
//! The work of a program without page faults is unknown. There the stalls alone decide, and no speculator has to keep up.
//!
//! A speculator has to copy the pages that it touches and that the original has in memory. It keeps up if this *detour* takes
//! less time, for each page that the original waits for, than the stall.
//!
//! A fork at a page fault that saved less than 1/64 of what it risked ends exploration. Predictable programs show some benefit
//! from the first fork on. A late speculation says nothing, and where stalls are short all are late at first.
//!
//! A process that does not explore may still risk 1/64 of the time elapsed. Each fork since the last worthwhile one then
//! counts as many stalls as the caller says.
//!
//! Times are in ticks.

use crate::window::Window;

/// Eighths of the time that stalls, with what a fault itself takes of a second, must take where a fork is a risk.
const DESPERATE: u64 = 7;
const FAULT_PART: u64 = 75_000;
/// Part of the time that a program works which has little to lose, and of a second that is looked at for it at least.
const IDLE_PART: u64 = 8;
const IDLE_TIME_PART: u64 = 16;
/// Forks in vain after which it is not enough to have little to lose.
const VAIN_MAX: u32 = 4;
/// The part of what a fork risks that must come of it at least, to be more than next to nothing.
const FRUIT_PART: u64 = 64;
/// The part of the elapsed time that may be risked.
const RISK_PART: u64 = 64;

/// What another fork is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stake {
    /// How long the process has run.
    pub age: u64,
    /// What a fork of no use has the original wait for, once.
    pub risk: u64,
    /// A speculator would be faster than the original, by what is known of both.
    pub keeps_up: bool,
    /// Forks have saved twice of what they cost.
    pub has_paid: bool,
}

/// What the program did with its time, and what was dared.
#[derive(Clone, Copy, Debug)]
pub struct Daring {
    ticks_per_second: u64,
    /// Waits, and the kernel's work for them.
    waits: Window,
    /// What the program worked, as far as it is known.
    work: Window,
    work_told_at: Option<u64>,
    /// Time risked on forks, and how many they were, since one was worth it.
    risked: u64,
    vain: u32,
    /// The last fork was one of them, at a page fault.
    at_fault: bool,
    /// Until then it waits for what the last of them drove out.
    rests_until: u64,
}

impl Daring {
    /// Nothing is known.
    pub const fn new(ticks_per_second: u64) -> Self {
        Self {
            ticks_per_second,
            waits: Window::new(ticks_per_second / 16),
            work: Window::new(ticks_per_second),
            work_told_at: None,
            risked: 0,
            vain: 0,
            at_fault: false,
            rests_until: 0,
        }
    }

    /// A stall took `duration`, until `now`.
    pub fn on_stall(&mut self, now: u64, duration: u64) {
        self.waits.add(now, duration.saturating_add(self.fault_ticks()));
    }

    /// `count` stalls took `waited` in all, from `from` to `now`.
    pub fn on_stalls(&mut self, from: u64, now: u64, count: u64, waited: u64) {
        let faulting = self.fault_ticks().saturating_mul(count);
        self.waits.add_over(from, now, waited.saturating_add(faulting).min(now.saturating_sub(from)));
    }

    /// From `from` to `now` the program itself worked for `ticks`, the kernel's work for it not counted.
    pub fn on_work(&mut self, from: u64, now: u64, ticks: u64) {
        self.work.add_over(from, now, ticks);
        self.work_told_at = Some(now);
    }

    /// The original was forked where that drives nothing out: nothing is dared.
    pub const fn on_free_fork(&mut self) {
        self.at_fault = false;
    }

    /// The original was forked where memory is short, at a page fault or at a call.
    pub const fn on_fork(&mut self, risk: u64, at_fault: bool) {
        self.at_fault = at_fault;
        self.risked = self.risked.saturating_add(risk);
        self.vain = self.vain.saturating_add(1);
    }

    /// The fork says nothing of whether others are in vain.
    pub const fn take_back(&mut self, risk: u64) {
        self.risked = self.risked.saturating_sub(risk);
        self.vain = self.vain.saturating_sub(1);
    }

    /// It was not worth it, as is known `now`: it spared so many ticks, as far as that tells of others.
    pub fn on_failure(&mut self, now: u64, risk: u64, spared: Option<u64>) {
        let is_fruitless = spared.is_some_and(|spared| spared < risk / FRUIT_PART);
        if is_fruitless && self.vain > 0 && self.at_fault {
            self.vain = self.vain.max(VAIN_MAX);
        }
        let doublings = if self.vain > VAIN_MAX { VAIN_MAX } else { self.vain };
        let rest = risk.saturating_mul((1 << doublings) / 2);
        self.rests_until = if rest > 0 { now.saturating_add(rest) } else { self.rests_until };
    }

    /// It was worth it.
    pub const fn on_success(&mut self) {
        (self.risked, self.vain, self.rests_until) = (0, 0, 0);
    }

    /// Whether to fork at `now`.
    pub fn dares(&self, now: u64, stake: &Stake) -> bool {
        let may_be_in_vain = stake.has_paid || (self.vain < VAIN_MAX && now >= self.rests_until);
        let has_little_to_lose = match self.worked(now) {
            Some(worked) => {
                let works = stake.age < self.ticks_per_second / IDLE_TIME_PART
                    || worked > stake.age.min(self.work.part(8)) / IDLE_PART;
                stake.keeps_up && ((!works && may_be_in_vain) || (stake.has_paid && self.waits(now)))
            }
            None => self.waits(now) && may_be_in_vain,
        };
        let risk = self.risked.saturating_add(stake.risk).saturating_mul(RISK_PART);
        has_little_to_lose || risk <= stake.age
    }

    /// What the program did in the last second but wait and have the kernel work for it. What it did since somebody told counts as
    /// work; `None` where nobody has for long.
    fn worked(&self, now: u64) -> Option<u64> {
        let untold = now.saturating_sub(self.work_told_at?);
        (untold < self.ticks_per_second).then(|| self.work.spent(now).saturating_add(untold))
    }

    /// Whether the program has just waited nearly all the time.
    fn waits(&self, now: u64) -> bool {
        self.waits.spent(now) >= self.waits.part(DESPERATE)
    }

    /// Processor time of a page fault: not much, but beside a short stall it is.
    const fn fault_ticks(&self) -> u64 {
        self.ticks_per_second / FAULT_PART
    }
}
