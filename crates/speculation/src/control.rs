//! Whether speculation may go on, by what it has cost and gained lately: a reactive cost-benefit analysis.
//!
//! Speculators take memory, for copies of pages and for prefetches that nobody uses, and what they take others miss. It
//! cannot be told of a page whether it is missed; but programs then wait for more pages than they did.
//!
//! # Model
//!
//! Figures come in as [`Sample`]s, some ten a second. With the mean stall `s` of late,
//!
//! ```text
//!     benefit  B = used * s
//!     cost     C = (demand - d * cpu)+ * s  +  unused * s / 8  +  forks and copies
//! ```
//!
//! *Demand* is what the program needed from a device: stalls, and hints that it used. `d` is how much of it there was for
//! each microsecond of the program's own processor time while nothing speculated: its *baseline*, an exponentially
//! weighted mean (weight 1/4) that is unknown at first; then that part of the cost is 0. Demand is compared for the same
//! work, not for the same time, because a program that waits less does more in a second. An unused hint cost the device
//! a part of its time, and memory that shows in the demand.
//!
//! The *net overhead* is the sum of all `C - B`, halved every half-life (5 s at first), and never less than what makes up
//! for one threshold, so that a good hour does not pay for a bad minute.
//!
//! # States
//!
//! * *On*, at first. When the net overhead is more than 1 % of a half-life, speculation goes off: a **crossing**, whose
//!   [`Reason`] is the greatest part of the cost since the last change.
//! * *Off*. The net overhead only decays. When it is negligible, a tenth of the threshold, speculation goes on again with
//!   a net overhead of 0.
//!
//! Each crossing doubles the half-life, up to 16 times the first one: harm that comes back is tried ever more seldom.
//! Four half-lives on without a crossing, at a gain, halve it again.
//!
//! # Bound
//!
//! Speculation that only harms costs one threshold, 1 % of a half-life, and what one sample brings, for each time on;
//! it is off for more than three half-lives then. So the loss stays below a third of a per cent of the time in the long
//! run, and below 50 ms and one sample before the first crossing.

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
/// Processor time for which a baseline can be told.
const BASELINE_CPU_US_MIN: u64 = 1_000;
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
}

impl Sample {
    fn demand(&self) -> u64 {
        self.stalls.saturating_add(self.used)
    }
}

/// Why speculation went off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// The program waited for more pages than it does alone: speculators take its memory.
    MemoryTaken = 0,
    /// Too many hints were of no use.
    HintsUnused,
    /// Forks, and the copies that they cause, took too long.
    Forks,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = 3;
    const ALL: [Self; Self::COUNT] = [Self::MemoryTaken, Self::HintsUnused, Self::Forks];
}

/// What a sample led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Speculation goes off.
    Off(Reason),
    /// Speculation goes on again.
    On,
}

/// The controller of one run.
#[derive(Clone, Debug)]
pub struct Controller {
    on: bool,
    net_us: i64,
    level: u32,
    /// Demand for each microsecond of processor time without speculation.
    baseline: Option<u64>,
    /// Parts of the cost since the last change.
    costs_us: [u64; Reason::COUNT],
    /// Time since the last change or the last step down of the level.
    steady_us: u64,
    crossings: u64,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            on: true,
            net_us: 0,
            level: 0,
            baseline: None,
            costs_us: [0; Reason::COUNT],
            steady_us: 0,
            crossings: 0,
        }
    }
}

impl Controller {
    /// Whether speculation may go on.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.on
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
        self.net_us = decayed(self.net_us, sample.elapsed_us, self.half_life_us());
        self.steady_us = self.steady_us.saturating_add(sample.elapsed_us);
        if !sample.speculating {
            self.learn_baseline(sample);
        }
        if !self.on {
            return (self.net_us <= self.threshold_us() / NEGLIGIBLE_PART).then(|| self.go_on());
        }
        if sample.speculating {
            let costs = self.costs_us_of(sample);
            for (sum, cost) in self.costs_us.iter_mut().zip(costs) {
                *sum = sum.saturating_add(cost);
            }
            let cost = costs.into_iter().fold(0u64, u64::saturating_add);
            let benefit = sample.used.saturating_mul(sample.stall_us);
            self.net_us = self.net_us.saturating_add(difference(cost, benefit)).max(-self.threshold_us());
        }
        if self.net_us > self.threshold_us() {
            return Some(self.go_off());
        }
        if self.net_us < 0 && self.steady_us > STEADY_HALF_LIVES * self.half_life_us() {
            self.level = self.level.saturating_sub(1);
            self.steady_us = 0;
        }
        None
    }

    fn learn_baseline(&mut self, sample: &Sample) {
        if sample.cpu_us < BASELINE_CPU_US_MIN {
            return;
        }
        let now = (sample.demand().min(u64::MAX >> BASELINE_SHIFT) << BASELINE_SHIFT) / sample.cpu_us;
        self.baseline = Some(self.baseline.map_or(now, |before| before - before / 4 + now / 4));
    }

    fn costs_us_of(&self, sample: &Sample) -> [u64; Reason::COUNT] {
        let expected = self.baseline.map_or(u64::MAX, |baseline| {
            u64::try_from((u128::from(baseline) * u128::from(sample.cpu_us)) >> BASELINE_SHIFT)
                .unwrap_or(u64::MAX)
        });
        let extra = sample.demand().saturating_sub(expected);
        let mut costs = [0; Reason::COUNT];
        costs[Reason::MemoryTaken as usize] = extra.saturating_mul(sample.stall_us);
        costs[Reason::HintsUnused as usize] = sample.unused.saturating_mul(sample.stall_us) / UNUSED_PART;
        costs[Reason::Forks as usize] = sample.forks_us;
        costs
    }

    fn go_off(&mut self) -> Change {
        let greatest = Reason::ALL.into_iter().max_by_key(|reason| self.costs_us[*reason as usize]);
        self.on = false;
        self.crossings += 1;
        self.level = (self.level + 1).min(LEVEL_MAX);
        // The threshold has grown with the half-life: what is decayed is one of the new ones.
        self.net_us = self.threshold_us();
        self.costs_us = [0; Reason::COUNT];
        self.steady_us = 0;
        Change::Off(greatest.unwrap_or(Reason::Forks))
    }

    fn go_on(&mut self) -> Change {
        self.on = true;
        self.net_us = 0;
        self.steady_us = 0;
        Change::On
    }
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
