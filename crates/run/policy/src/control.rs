//! Whether speculation may go on, by its recent costs and benefits: a reactive cost-benefit analysis.
//!
//! Speculators take memory, for copies of pages and for prefetches that are never used, and evict other pages. Whether the
//! program needs an evicted page cannot be observed. But the program then waits longer for the same work.
//!
//! # Model
//!
//! Figures arrive as [`Sample`]s, some ten a second. With the recent mean stall `s`,
//!
//! ```text
//!     benefit  B = used * s                   at most d * work - stalls * s, where that is known
//!     cost     C = (stalls * s - d * work)+  +  (unused * s / 8 - G)+  +  forks and copies
//! ```
//!
//! `d` is the *baseline*: the wait of the program for each unit of work when it last ran alone, as far as it used the device
//! then. While it is unknown that part of the cost is 0. Waits are compared for the same work and not for the same time,
//! because a program that waits less does more in a second.
//!
//! Where memory is short, `work` is the program's own processor time, because evictions may have raised its need of the
//! device. Otherwise `work` is that need, `stalls + used`. Processor time would not do there: a stall takes some itself, so a
//! program that does little else would seem to do more where it waits.
//!
//! An unused hint cost the device a part of its time; the memory that it took shows in the stalls. All unused hints are known
//! at once, at the end of a speculation, while uses are seen one by one. So unused hints cost only what exceeds `G`, the
//! savings by hints since the last such report. A speculation that gained ten seconds may have hinted for one in vain. The cost
//! of a fork is spread over two seconds, because its benefit follows.
//!
//! The *net overhead* is the sum of all `C - B`, halved every half-life (5 s at first). It is never below minus one threshold,
//! so that a good hour does not pay for a bad minute.
//!
//! `B` and `d` become outdated: the program's work may change, and speculators may evict what they then read again. So there is
//! a *check* from time to time. Speculation pauses for some samples, and the program's waits alone are compared with those
//! since the last check.
//!
//! # States
//!
//! * *On*, at first. When the net overhead exceeds 1 % of a half-life, the greatest part of the cost decides. Forks or unused
//!   hints that alone exceed the threshold turn speculation off: a **crossing**, with that as its [`Reason`]. Stalls cause a
//!   check.
//! * *Checking*, also after two seconds on, and then 4, 8, 16 s after each other; after a crossing from 0.5 s on. A check is
//!   left out if stalls and forks, the most that could be harm, took below 1 % of the time. It is put off to 16 s while `B` is
//!   3 times that. Two kinds of samples are ignored: the first one without a speculator, in which evicted pages return, and
//!   those in which the program still uses earlier hints. The verdict needs 16 stalls or, where memory is short, 20 ms of
//!   processor time. Harm means that the program waited longer for the same work than alone, forks included, by more than 1 %
//!   of the time since the last check. Otherwise speculation goes on with a net overhead of 0. While neither is certain (the
//!   error of `n` stalls is one part in the root of `n`), the check goes on, for a second at most. A check is short, and the
//!   program may not need the device just then. So the first harm is only a suspicion; the next check, 0.5 s later, confirms it
//!   as a crossing or clears it. After a crossing one check is enough, until one finds no harm. A program that does nothing
//!   meanwhile is left for the next check. Speculators sleep during a check, and continue afterwards.
//! * *Off*. The net overhead only decays. At a tenth of the threshold, speculation goes on again with a net overhead of 0.
//!
//! Each crossing doubles the half-life, up to 16 times the first one, so repeated harm is tried ever more seldom. Four
//! half-lives on without a crossing, at a gain, halve it again.
//!
//! # Bound
//!
//! Speculation that only harms costs one threshold, 1 % of a half-life, and one sample for each time on. It is off for more
//! than three half-lives then, so the loss stays below a third of a per cent of the time in the long run.
//!
//! Harm that only a check shows costs two and a half seconds the first time, and half a second later on. In the long run this
//! is below a thirtieth of the harm.
//!
//! Checks without a finding cost some 3 samples, which are shorter then. They cost up to a second of the benefit where the
//! benefit is so small that chance could explain it.

use forebay_protocol::reasons::Reason;

/// Half-life at first.
pub const HALF_LIFE_US: u64 = 5_000_000;
/// Doublings of the half-life.
const LEVEL_MAX: u32 = 4;
/// Net overhead at which speculation goes off, as a part of the half-life.
const THRESHOLD_PART: i64 = 100;
/// Net overhead at which it goes on again, as a part of the threshold.
const NEGLIGIBLE_PART: i64 = 10;
/// Half-lives on, at a gain, after which an earlier crossing is forgotten.
const STEADY_HALF_LIVES: u64 = 4;
/// What of a stall an unused hint costs, as a part.
const UNUSED_PART: u64 = 8;
/// Time on before the first check, before the first one after a crossing or a suspicion, and at most between checks.
const CHECK_AFTER_US: u64 = 2_000_000;
const CHECK_AGAIN_AFTER_US: u64 = 500_000;
const CHECK_AFTER_US_MAX: u64 = 16_000_000;
/// What must have been seen of the program alone before a verdict: that many stalls, or so much processor time.
const CHECK_STALLS_MIN: u64 = 16;
const CHECK_CPU_US_MIN: u64 = 20_000;
/// How long a check goes on at most.
const CHECK_US_MAX: u64 = 1_000_000;
/// A loss that is a crossing, as a part of the time since the last check; also what is not worth a check.
const HARM_PART: u64 = 100;
/// Time over which a fork is charged.
const FORK_CHARGED_OVER_US: u64 = 2_000_000;
/// A gain so many times as great as all the harm that there can be is plain.
const PLAIN_GAIN: u64 = 3;
/// Hints used without a speculator, for each stall one part of so many, that show that there are still some left.
const LEFT_PART: u64 = 8;
/// Baselines have 20 fractional bits.
const BASELINE_SHIFT: u32 = 20;

/// What happened since the last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time that passed.
    pub elapsed_us: u64,
    /// Processor time of the program's own.
    pub cpu_us: u64,
    /// Stalls of the program.
    pub stalls: u64,
    /// Hints that spared it one.
    pub used: u64,
    /// Hints that were of no use.
    pub unused: u64,
    /// Mean stall of late.
    pub stall_us: u64,
    /// Time that forks took, and copies of pages that they caused.
    pub forks_us: u64,
    /// Whether there was a speculator at any time.
    pub speculating: bool,
    /// Whether memory is short, so that what speculators take is missed; or nobody knows.
    pub memory_is_short: bool,
}

impl Sample {
    /// Whether the program was alone: without a speculator, and through with what one had hinted before.
    const fn is_alone(&self) -> bool {
        !self.speculating && self.used.saturating_mul(LEFT_PART) <= self.stalls
    }
}

/// Sums over some samples.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    elapsed_us: u64,
    cpu_us: u64,
    work: u64,
    stalls: u64,
    waited_us: u64,
    used_us: u64,
    unused_us: u64,
    forks_us: u64,
}

impl Period {
    fn add(&mut self, more: &Self) {
        self.elapsed_us = self.elapsed_us.saturating_add(more.elapsed_us);
        self.cpu_us = self.cpu_us.saturating_add(more.cpu_us);
        self.work = self.work.saturating_add(more.work);
        self.stalls = self.stalls.saturating_add(more.stalls);
        self.waited_us = self.waited_us.saturating_add(more.waited_us);
        self.used_us = self.used_us.saturating_add(more.used_us);
        self.unused_us = self.unused_us.saturating_add(more.unused_us);
        self.forks_us = self.forks_us.saturating_add(more.forks_us);
    }

    fn of(sample: &Sample) -> Self {
        let needed = sample.stalls.saturating_add(sample.used);
        Self {
            elapsed_us: sample.elapsed_us,
            cpu_us: sample.cpu_us,
            work: if sample.memory_is_short { sample.cpu_us } else { needed },
            stalls: sample.stalls,
            waited_us: sample.stalls.saturating_mul(sample.stall_us),
            used_us: sample.used.saturating_mul(sample.stall_us),
            unused_us: sample.unused.saturating_mul(sample.stall_us) / UNUSED_PART,
            forks_us: sample.forks_us,
        }
    }

    /// What the program waits for alone, for each unit of work as long as `baseline`.
    fn alone_us(&self, baseline: u64) -> u64 {
        let alone_us = (u128::from(baseline) * u128::from(self.work)) >> BASELINE_SHIFT;
        u64::try_from(alone_us).unwrap_or(u64::MAX)
    }

    /// What speculation cost in this period, by reason, if the program alone waits for `baseline` in a unit of work.
    fn costs_us(&self, baseline: u64) -> [u64; Reason::COUNT] {
        let mut costs = [0; Reason::COUNT];
        costs[Reason::MemoryTaken as usize] = self.waited_us.saturating_sub(self.alone_us(baseline));
        costs[Reason::HintsUnused as usize] = self.unused_us;
        costs[Reason::Forks as usize] = self.forks_us;
        costs
    }

    /// What the program lost in this period, or gained, if it alone waits for `baseline` in a unit of work.
    fn lost_us(&self, baseline: u64) -> i64 {
        difference(self.exposed_us(), self.alone_us(baseline))
    }

    /// How much of that may be chance, with a baseline from `alone`.
    fn noise_us(&self, alone: &Self) -> i64 {
        let chance = |waited_us: u64, stalls: u64| u128::from(waited_us).pow(2) / u128::from(stalls.max(1));
        let own = chance(self.waited_us, self.stalls);
        let baselines = chance(self.alone_us(alone.baseline()), alone.stalls);
        i64::try_from(own.saturating_add(baselines).isqrt()).unwrap_or(i64::MAX)
    }

    /// What speculation cost in this period, whatever the program alone waits for.
    const fn certain_us(&self) -> u64 {
        self.unused_us.saturating_add(self.forks_us)
    }

    /// What speculation can have cost in this period at most.
    fn exposed_us(&self) -> u64 {
        self.waited_us.saturating_add(self.forks_us)
    }

    /// Waiting for each unit of work.
    fn baseline(&self) -> u64 {
        let waited = u128::from(self.waited_us) << BASELINE_SHIFT;
        u64::try_from(waited / u128::from(self.work.max(1))).unwrap_or(u64::MAX)
    }
}

/// What a sample led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Speculation goes off.
    Off(Reason),
    /// Speculation goes on again.
    On,
    /// Speculation pauses for a check.
    Pause,
    /// The check is over and has found no harm.
    Resume,
}

#[derive(Clone, Copy, Debug)]
enum State {
    On,
    /// What was seen of the program alone, but for the first sample.
    Checking {
        begun: bool,
        alone: Period,
    },
    Off,
}

/// The controller of one run.
#[derive(Clone, Debug)]
pub struct Controller {
    state: State,
    net_us: i64,
    memory_is_short: bool,
    /// What of forks is yet to be charged.
    debt_us: u64,
    /// What hints have spared since it was last told how many were of no use.
    gained_us: u64,
    level: u32,
    /// Waiting alone for each unit of work.
    baseline: Option<u64>,
    /// All of the speculating since the last check.
    period: Period,
    check_after_us: u64,
    /// Whether the last check has found harm: another that does is believed.
    suspected: bool,
    /// Time since the last change or the last step down of the level.
    steady_us: u64,
    crossings: u64,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            state: State::On,
            net_us: 0,
            memory_is_short: false,
            debt_us: 0,
            gained_us: 0,
            level: 0,
            baseline: None,
            period: Period::default(),
            check_after_us: CHECK_AFTER_US,
            suspected: false,
            steady_us: 0,
            crossings: 0,
        }
    }
}

impl Controller {
    /// Whether speculation may take place now.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        matches!(self.state, State::On)
    }

    /// Whether the program is looked at alone.
    #[must_use]
    pub const fn is_checking(&self) -> bool {
        matches!(self.state, State::Checking { .. })
    }

    /// How often it went off.
    #[must_use]
    pub const fn crossings(&self) -> u64 {
        self.crossings
    }

    /// What speculation costs more than it gains, or less, as a sum that decays.
    #[must_use]
    pub const fn net_overhead_us(&self) -> i64 {
        self.net_us
    }

    const fn half_life_us(&self) -> u64 {
        HALF_LIFE_US << self.level
    }

    const fn threshold_us(&self) -> i64 {
        self.half_life_us() as i64 / THRESHOLD_PART
    }

    /// Takes a sample; whether that changes anything.
    pub fn on_sample(&mut self, sample: &Sample) -> Option<Change> {
        let sample = &Sample { forks_us: self.charge(sample), ..*sample };
        self.net_us = decayed(self.net_us, sample.elapsed_us, self.half_life_us());
        self.steady_us = self.steady_us.saturating_add(sample.elapsed_us);
        if core::mem::replace(&mut self.memory_is_short, sample.memory_is_short) != sample.memory_is_short {
            self.change_measure();
        }
        if sample.is_alone() && sample.stalls >= CHECK_STALLS_MIN {
            self.baseline = Some(Period::of(sample).baseline());
        }
        match self.state {
            State::Off => {
                let negligible = self.net_us <= self.threshold_us() / NEGLIGIBLE_PART;
                negligible.then(|| self.go_on(Change::On))
            }
            State::Checking { begun, alone } => self.check(sample, begun, alone),
            State::On => {
                if sample.speculating {
                    self.account(sample);
                }
                self.decide()
            }
        }
    }

    /// What of the forks so far falls due with this sample.
    fn charge(&mut self, sample: &Sample) -> u64 {
        self.debt_us = self.debt_us.saturating_add(sample.forks_us);
        let part =
            u128::from(self.debt_us) * u128::from(sample.elapsed_us) / u128::from(FORK_CHARGED_OVER_US);
        let due = u64::try_from(part).unwrap_or(u64::MAX).min(self.debt_us);
        self.debt_us -= due;
        due
    }

    fn account(&mut self, sample: &Sample) {
        let mut period = Period::of(sample);
        self.gained_us = self.gained_us.saturating_add(period.used_us);
        if sample.unused > 0 {
            period.unused_us = period.unused_us.saturating_sub(core::mem::take(&mut self.gained_us));
        }
        // Without a baseline, waiting is no cost; a baseline that is too high is no benefit.
        let used = clamped(period.used_us);
        let waiting = self.baseline.map_or(-used, |baseline| {
            let more = difference(period.waited_us, period.alone_us(baseline));
            if more > 0 { more.saturating_sub(used) } else { more.max(-used) }
        });
        let net = waiting.saturating_add(clamped(period.unused_us.saturating_add(period.forks_us)));
        self.net_us = self.net_us.saturating_add(net).max(-self.threshold_us());
        self.period.add(&period);
    }

    fn decide(&mut self) -> Option<Change> {
        if self.net_us > self.threshold_us() {
            let is_certain = clamped(self.period.certain_us()) > self.threshold_us();
            return Some(match greatest(self.period.costs_us(self.baseline.unwrap_or(u64::MAX))) {
                Reason::MemoryTaken => self.pause(),
                _ if !is_certain => self.pause(),
                reason => self.go_off(reason),
            });
        }
        if self.period.elapsed_us >= self.check_after_us {
            let Period { elapsed_us, used_us, .. } = self.period;
            let exposed_us = self.period.exposed_us();
            let plain = used_us / PLAIN_GAIN >= exposed_us;
            if exposed_us <= elapsed_us / HARM_PART {
                self.period = Period::default();
            } else if !plain || elapsed_us >= CHECK_AFTER_US_MAX {
                return Some(self.pause());
            }
        }
        if self.net_us < 0 && self.steady_us > STEADY_HALF_LIVES * self.half_life_us() {
            self.level = self.level.saturating_sub(1);
            self.steady_us = 0;
        }
        None
    }

    fn pause(&mut self) -> Change {
        self.state = State::Checking { begun: false, alone: Period::default() };
        self.steady_us = 0;
        Change::Pause
    }

    fn check(&mut self, sample: &Sample, begun: bool, mut alone: Period) -> Option<Change> {
        if begun && sample.is_alone() {
            alone.add(&Period::of(sample));
        }
        self.state = State::Checking { begun: begun || sample.is_alone(), alone };
        // Where work is what it needed of the device, nothing is known of it without that.
        let seen =
            alone.stalls >= CHECK_STALLS_MIN || self.memory_is_short && alone.cpu_us >= CHECK_CPU_US_MIN;
        if !seen {
            return (self.steady_us >= CHECK_US_MAX).then(|| self.go_on(Change::Resume));
        }
        self.baseline = Some(alone.baseline());
        let lost = self.period.lost_us(alone.baseline());
        let noise = self.period.noise_us(&alone);
        let bearable = clamped(self.period.elapsed_us / HARM_PART);
        let certain = lost > bearable.saturating_add(noise) || lost.saturating_add(noise) <= bearable;
        if !certain && self.steady_us < CHECK_US_MAX {
            return None;
        }
        if lost > bearable {
            if core::mem::replace(&mut self.suspected, true) {
                return Some(self.go_off(greatest(self.period.costs_us(alone.baseline()))));
            }
            self.check_after_us = self.period.elapsed_us + CHECK_AGAIN_AFTER_US;
            self.state = State::On;
            self.net_us = 0;
            self.steady_us = 0;
            return Some(Change::Resume);
        }
        self.suspected = false;
        self.check_after_us = (self.check_after_us * 2).min(CHECK_AFTER_US_MAX);
        Some(self.go_on(Change::Resume))
    }

    fn go_off(&mut self, reason: Reason) -> Change {
        self.state = State::Off;
        self.crossings += 1;
        self.level = (self.level + 1).min(LEVEL_MAX);
        // The threshold has grown with the half-life: what is decayed is one of the new ones.
        self.net_us = self.threshold_us();
        self.check_after_us = CHECK_AGAIN_AFTER_US;
        self.gained_us = 0;
        self.forget();
        Change::Off(reason)
    }

    fn go_on(&mut self, change: Change) -> Change {
        self.state = State::On;
        self.net_us = 0;
        self.forget();
        change
    }

    /// What was seen so far cannot be compared with what comes.
    fn change_measure(&mut self) {
        self.baseline = None;
        self.period = Period::default();
        if let State::Checking { alone, .. } = &mut self.state {
            *alone = Period::default();
        }
    }

    fn forget(&mut self) {
        self.period = Period::default();
        self.steady_us = 0;
    }
}

fn greatest(costs_us: [u64; Reason::COUNT]) -> Reason {
    let greatest = Reason::ALL.into_iter().max_by_key(|reason| costs_us[*reason as usize]);
    greatest.unwrap_or(Reason::Forks)
}

fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn difference(a: u64, b: u64) -> i64 {
    i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(if a > b { i64::MAX } else { i64::MIN })
}

/// `value * 2^(-elapsed / half_life)`, with the curve taken as straight between whole half-lives.
fn decayed(value: i64, elapsed_us: u64, half_life_us: u64) -> i64 {
    let halvings = elapsed_us / half_life_us;
    if halvings >= 62 {
        return 0;
    }
    let rest = elapsed_us % half_life_us;
    let value = i128::from(value) >> halvings;
    let lost = value * i128::from(rest) / i128::from(2 * half_life_us);
    i64::try_from(value - lost).unwrap_or(0)
}
