//! Which part of the savings that are claimed is believed, and what a displaced page costs: trials of a whole run find both.
//!
//! Where memory is short, speculators evict pages that the program then reads again. Their hints bring back what they evicted, and
//! look useful. Such harm cannot be seen page by page. But the program waits longer for the same work. Where memory is ample,
//! all that speculation costs is measured as it happens (`fork.rs`), and there are no trials.
//!
//! # Model
//!
//! In a trial, speculation pauses, and the program's waiting alone is compared with its waiting before, for the same work:
//!
//! ```text
//!     gain  =  alone * work - waited  =  believed * claimed - delays - price * displaced        give or take the noise
//! ```
//!
//! `alone` is the waiting for each unit of work in the pause. `claimed`, `delays` and `displaced` are what the accounts of all
//! processes (`account.rs`) were paid and charged meanwhile. A trial solves the equation for one unknown. That is the *price* of a
//! displaced page where a price of at most a stall explains the gain. Otherwise it is the *believed* part of the savings, from -1 to
//! 1. Where the part is negative, each claimed saving is a cost.
//!
//! What speculations displace shows after them. A displaced page causes one stall at most. So the time with speculation goes on for
//! as many stalls as pages were displaced.
//!
//! Work is the processor time of the program's own, without what its page faults take.
//!
//! `n` stalls give their sum an error of one part in the root of `n`. Twice the errors of both sides are the noise, and make the
//! unknown an interval. The number moves only as far as it has to be within what the last two trials' intervals span. One is not
//! enough, because a program may need nothing of the device just in a pause.
//!
//! # When
//!
//! A trial costs the savings of its pause. It may cost 1/[`WAITED_PART`] of the waiting that it looks into, and half of that after
//! each trial that confirms the numbers. There is none where nothing is claimed, or where waiting takes below
//! 1/64 of the time. There is none, either, where the noise exceeds the claims and the same part of the waiting.
//!
//! A pause lasts for [`TRIAL_STALLS`] stalls, and for `PAUSE_US` at least. It goes on where a number looks wrong by half, or
//! speculation harmful, but not beyond the noise; for `PAUSE_US_MAX` at most. The samples in which the program still uses
//! earlier hints do not count, nor does the first one without a speculator.
//!
//! # Bound
//!
//! Harm that shows in nothing but the waiting goes on for two trials, which is a second or two, or for as long as it is within the
//! noise. From then on the accounts bear it, and their bound holds. A number that speaks against speculation is forgotten when the
//! program has waited as long again as it had when the number was found. One trial that finds the same restores the number. So a
//! program that waits for `W` has harm for about `1 + log2(W)` trials.

use crate::price::{
    FAULT_US, PAGE_PRICE_FIRST, PRICE_ONE, TRIAL_APART_DOUBLINGS, TRIAL_NOISE_TIMES, TRIAL_STALLS,
    TRIAL_US_MIN, WAITED_PART,
};

/// What a pause takes at least: as much of the time before it as a trial may cost.
const PAUSE_US: u64 = TRIAL_US_MIN / WAITED_PART;
/// And at most: as much as the shortest time before it, twice.
const PAUSE_US_MAX: u64 = 2 * TRIAL_US_MIN;

/// What happened since the last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time that passed.
    pub elapsed_us: u64,
    /// Processor time of the program's own.
    pub cpu_us: u64,
    /// Stalls of the program, and the time that they took.
    pub stalls: u64,
    /// See [`Sample::stalls`].
    pub waited_us: u64,
    /// Hints that saved the program a stall.
    pub used: u64,
    /// The mean stall of late.
    pub stall_us: u64,
    /// What stalls took longer beside hints, as the accounts were charged.
    pub delayed_us: u64,
    /// Pages that displaced others, as the accounts were charged.
    pub displaced: u64,
    /// Whether there was a speculator at any time.
    pub speculating: bool,
    /// Whether memory is short, as far as is known.
    pub memory_is_short: bool,
}

impl Sample {
    /// Whether the program was alone: without a speculator, and with hardly a hint left from one.
    const fn is_alone(&self) -> bool {
        !self.speculating && self.used.saturating_mul(WAITED_PART) <= self.stalls
    }
}

/// What a sample leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Speculation pauses for a trial.
    Pause,
    /// The trial is over.
    Resume(Verdict),
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The waiting is as the numbers have it.
    Confirmed,
    /// Speculation gains less than the numbers say.
    Less,
    /// It gains more.
    More,
    /// The program did too little in the pause.
    Undecided,
}

/// The trials of one run.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    believed: Number,
    page_price: Number,
    memory_is_short: bool,
    /// What the program waited for in all.
    waited_us: u64,
    /// All speculating since the last trial, and its aftermaths.
    with: Period,
    /// Stalls that displaced pages may still cause.
    aftermath: u64,
    pause: Option<Pause>,
    /// Trials that moved nothing, since a number was forgotten.
    confirmed: u32,
}

/// A pause for a trial.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    paused_us: u64,
    /// The first sample without a speculator is over.
    has_begun: bool,
    alone: Period,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            believed: Number::new(PRICE_ONE),
            page_price: Number::new(PAGE_PRICE_FIRST),
            memory_is_short: false,
            waited_us: 0,
            with: Period::default(),
            aftermath: 0,
            pause: None,
            confirmed: 0,
        }
    }
}

impl Trial {
    /// The part of the claimed savings that is believed, in 1/[`PRICE_ONE`]. All of them are where memory is ample.
    #[must_use]
    pub const fn believed(&self) -> i64 {
        if self.memory_is_short { self.believed.value } else { PRICE_ONE }
    }

    /// What a displaced page costs, in 1/[`PRICE_ONE`] of a stall.
    #[must_use]
    pub const fn page_price(&self) -> i64 {
        self.page_price.value
    }

    /// Whether speculation pauses.
    #[must_use]
    pub const fn is_pausing(&self) -> bool {
        self.pause.is_some()
    }

    /// Takes a sample; whether that changes anything.
    pub fn on_sample(&mut self, sample: &Sample) -> Option<Change> {
        self.memory_is_short = sample.memory_is_short;
        if !sample.memory_is_short {
            (self.with, self.aftermath) = (Period::default(), 0);
            return self.pause.take().map(|_| Change::Resume(Verdict::Undecided));
        }
        self.waited_us = self.waited_us.saturating_add(sample.waited_us);
        let (is_doubted, is_dear) =
            (self.believed.value < PRICE_ONE, self.page_price.value > PAGE_PRICE_FIRST);
        if is_doubted && self.believed.forget(PRICE_ONE, self.waited_us)
            || is_dear && self.page_price.forget(PAGE_PRICE_FIRST, self.waited_us)
        {
            self.confirmed = 0;
        }
        match self.pause {
            Some(pause) => {
                let verdict = self.look(pause, sample)?;
                (self.with, self.aftermath) = (Period::default(), 0);
                self.pause = None;
                Some(Change::Resume(verdict))
            }
            None => {
                if sample.speculating || self.aftermath > 0 {
                    self.with.add(sample);
                }
                self.aftermath =
                    self.aftermath.saturating_add(sample.displaced).saturating_sub(sample.stalls);
                self.is_due().then(|| {
                    self.pause = Some(Pause::default());
                    Change::Pause
                })
            }
        }
    }

    fn is_due(&mut self) -> bool {
        let Period { elapsed_us, waited_us, claimed_us, displaced_us, .. } = self.with;
        if elapsed_us < TRIAL_US_MIN << self.confirmed {
            return false;
        }
        if waited_us < elapsed_us / WAITED_PART.pow(2) {
            self.with = Period::default();
            return false;
        }
        let stall_us = u128::from(self.with.stall_us());
        let noise = error(stall_us, self.with.stalls).saturating_mul(TRIAL_NOISE_TIMES);
        let resolved = claimed_us.max(displaced_us).max(waited_us / WAITED_PART);
        if claimed_us.max(displaced_us) == 0 || noise > resolved.into() {
            return false;
        }
        let pause_us = (stall_us * u128::from(TRIAL_STALLS)).clamp(PAUSE_US.into(), PAUSE_US_MAX.into());
        let cost = u128::from(claimed_us).saturating_mul(pause_us);
        let looked_into = u128::from(waited_us).saturating_mul(u128::from(elapsed_us));
        looked_into >= cost.saturating_mul(u128::from(WAITED_PART << self.confirmed))
    }

    /// The program is looked at alone: the verdict, once there is one.
    fn look(&mut self, pause: Pause, sample: &Sample) -> Option<Verdict> {
        let Pause { paused_us, has_begun, mut alone } = pause;
        let paused_us = paused_us.saturating_add(sample.elapsed_us);
        if has_begun && sample.is_alone() {
            alone.add(sample);
        }
        self.pause = Some(Pause { paused_us, has_begun: has_begun || sample.is_alone(), alone });
        let is_last = paused_us >= PAUSE_US_MAX;
        let is_seen = alone.elapsed_us >= PAUSE_US && alone.stalls >= TRIAL_STALLS;
        let verdict = if is_seen || is_last { self.judge(&alone, is_last) } else { None };
        if verdict.is_some() || !is_last {
            return verdict;
        }
        self.confirmed = (self.confirmed + 1).min(TRIAL_APART_DOUBLINGS);
        Some(Verdict::Undecided)
    }

    /// Compares the program alone with the time since the last trial: the verdict, if that is certain or must not take longer.
    fn judge(&mut self, alone: &Period, is_last: bool) -> Option<Verdict> {
        let with = &self.with;
        let (gain, noise) = with.gain(alone)?;
        let charged = gain.saturating_add(with.delayed_us.into());
        let missing = part(self.believed.value, with.claimed_us).saturating_sub(charged);
        let priced = Interval::of(missing, noise, with.displaced_us);
        let of_pages = with.displaced_us > 0 && priced.least <= PRICE_ONE && priced.most >= 0;
        let (number, interval) = if of_pages {
            (&mut self.page_price, priced.within(0, PRICE_ONE))
        } else {
            let gained = charged.saturating_add(part(self.page_price.value, with.displaced_us));
            (&mut self.believed, Interval::of(gained, noise, with.claimed_us).within(-PRICE_ONE, PRICE_ONE))
        };
        let side = number.side(&interval);
        let middle = (interval.least + interval.most) / 2;
        let is_narrow = interval.most - interval.least <= PRICE_ONE;
        let is_far = if of_pages { middle > 2 * number.value } else { middle < number.value / 2 };
        let looks_harmful = gain < 0 && -gain > i128::from(with.waited_us / WAITED_PART);
        if side == Verdict::Confirmed && (is_narrow && is_far || looks_harmful) && !is_last {
            return None;
        }
        number.learn(interval, self.waited_us);
        if side == Verdict::Confirmed {
            self.confirmed = (self.confirmed + 1).min(TRIAL_APART_DOUBLINGS);
        }
        Some(match (side, of_pages) {
            // A page that costs more is a gain that is less.
            (Verdict::Less, true) => Verdict::More,
            (Verdict::More, true) => Verdict::Less,
            (side, _) => side,
        })
    }
}

/// What is learned by trials, in 1/[`PRICE_ONE`].
#[derive(Clone, Copy, Debug)]
struct Number {
    value: i64,
    /// The last trial's interval.
    last: Interval,
    /// What the program had waited for in all when the number last moved.
    moved_us: u64,
}

impl Number {
    const fn new(value: i64) -> Self {
        Self { value, last: Interval::ALL, moved_us: 0 }
    }

    /// Where an interval is beside the number.
    const fn side(&self, interval: &Interval) -> Verdict {
        if interval.most < self.value {
            Verdict::Less
        } else if interval.least > self.value {
            Verdict::More
        } else {
            Verdict::Confirmed
        }
    }

    /// Moves as far as it has to be within what this interval and the last one span.
    fn learn(&mut self, interval: Interval, waited_us: u64) {
        let last = core::mem::replace(&mut self.last, interval);
        let value = self.value.clamp(interval.least.min(last.least), interval.most.max(last.most));
        if core::mem::replace(&mut self.value, value) != value {
            self.moved_us = waited_us;
        }
    }

    /// Takes the first value again where the program has waited as long again as it had when the number moved. Whether it has.
    const fn forget(&mut self, first: i64, waited_us: u64) -> bool {
        let is_due = waited_us / 2 >= self.moved_us;
        if is_due {
            self.value = first;
        }
        is_due
    }
}

/// The values that a trial leaves possible, in 1/[`PRICE_ONE`].
#[derive(Clone, Copy, Debug)]
struct Interval {
    least: i64,
    most: i64,
}

impl Interval {
    /// Any value.
    const ALL: Self = Self { least: -PRICE_ONE, most: PRICE_ONE };

    /// `amount`, give or take `noise`, as a part of `whole`.
    fn of(amount: i128, noise: i128, whole: u64) -> Self {
        let whole = i128::from(whole.max(1));
        let part = |amount: i128| {
            let part = amount.saturating_mul(PRICE_ONE.into()) / whole;
            // One beyond the range tells that no value explains the amount.
            i64::try_from(part.clamp(-2 * i128::from(PRICE_ONE), 2 * i128::from(PRICE_ONE))).unwrap_or(0)
        };
        Self { least: part(amount.saturating_sub(noise)), most: part(amount.saturating_add(noise)) }
    }

    /// As far as it is within these bounds, or the nearest bound.
    fn within(self, least: i64, most: i64) -> Self {
        Self { least: self.least.clamp(least, most), most: self.most.clamp(least, most) }
    }
}

/// Sums over some samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Period {
    elapsed_us: u64,
    cpu_us: u64,
    stalls: u64,
    waited_us: u64,
    claimed_us: u64,
    delayed_us: u64,
    /// What displaced pages cost at a stall each.
    displaced_us: u64,
}

impl Period {
    fn add(&mut self, sample: &Sample) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.elapsed_us, sample.elapsed_us);
        add(&mut self.cpu_us, sample.cpu_us);
        add(&mut self.stalls, sample.stalls);
        add(&mut self.waited_us, sample.waited_us);
        add(&mut self.claimed_us, sample.used.saturating_mul(sample.stall_us));
        add(&mut self.delayed_us, sample.delayed_us);
        add(&mut self.displaced_us, sample.displaced.saturating_mul(sample.stall_us));
    }

    /// The work of the program itself, which is some part of its processor time: page faults that wait take some, too.
    fn work(&self) -> u64 {
        self.cpu_us.saturating_sub(self.stalls.saturating_mul(FAULT_US)).max(self.cpu_us / 8)
    }

    const fn stall_us(&self) -> u64 {
        match self.waited_us.checked_div(self.stalls) {
            Some(mean) => mean,
            None => 0,
        }
    }

    /// By how much less the program waited than it does `alone`, and the noise; `None` where it did nothing alone.
    fn gain(&self, alone: &Self) -> Option<(i128, i128)> {
        let (work, unit) = (self.work(), alone.work());
        let scaled = |us: u128| us.saturating_mul(work.into()).checked_div(unit.into());
        let usual = scaled(alone.waited_us.into())?;
        // A side without a stall may have missed one by chance, too.
        let stall = u128::from(self.stall_us().max(alone.stall_us()));
        let (own, other) = (error(stall, self.stalls), scaled(error(stall, alone.stalls))?);
        let both = own.saturating_mul(own).saturating_add(other.saturating_mul(other)).isqrt();
        let signed = |us: u128| i128::try_from(us).unwrap_or(i128::MAX);
        let gain = signed(usual).saturating_sub(self.waited_us.into());
        Some((gain, signed(both.saturating_mul(TRIAL_NOISE_TIMES))))
    }
}

/// The error of a sum of so many stalls of `stall_us` each, of which one more or less may be by chance.
const fn error(stall_us: u128, stalls: u64) -> u128 {
    stall_us.saturating_mul((stalls as u128 + 1).isqrt())
}

/// `price`, in 1/[`PRICE_ONE`], of `us`.
const fn part(price: i64, us: u64) -> i128 {
    price as i128 * us as i128 / PRICE_ONE as i128
}
