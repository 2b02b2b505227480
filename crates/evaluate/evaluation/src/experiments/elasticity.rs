//! How much more a server answers for each percent of a resource that it has more, by doses taken away from it.
//!
//! The elasticity is the ratio of the logarithms: 1 where answers are proportional to the resource, however large the dose.
//!
//! Each pair is a run without and one with the dose, one after the other, so that what drifts drifts for both. The interval
//! is that of the median by ranks: it assumes nothing of how the runs scatter.

use crate::experiments::Limit;

/// A resource that a server is given less of, or a delay that it is given more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Time of processors.
    Processor,
    /// Memory of its control group, with its page cache.
    Memory,
    /// Pages of its files in memory.
    PageCache,
    /// What memory delivers in a second.
    Bandwidth,
    /// Room in the last cache.
    LastCache,
    /// How fast its disk answers.
    Disk,
    /// How fast the server that it asks answers.
    Dependency,
}

/// How fast a run was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Answers a second.
    pub answers: f64,
    /// The time that one answer in a hundred exceeds, where that was measured.
    pub p99_s: Option<f64>,
}

/// Runs without and with a dose, in pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Doses {
    /// Of what.
    pub resource: Resource,
    /// The share of the resource that was taken away, or the share by which a delay was made longer.
    pub dose: f64,
    /// The speed without the dose, and with it.
    pub pairs: Vec<(Speed, Speed)>,
}

/// Percent of speed for each percent of a resource. Speed is answers, or the inverse of a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elasticity {
    /// The median over the pairs.
    pub median: f64,
    /// The median lies between these.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// With this probability.
    pub confidence: f64,
}

/// Intervals hold the median with this probability, where there are enough pairs.
const CONFIDENCE: f64 = 0.95;
/// The smallest share of answers that counts.
const LEFT_MIN: f64 = 1e-3;
/// A resource binds from this elasticity on: a tenth more of it brings 3 percent.
const BINDS: f64 = 0.3;

impl Doses {
    /// What the pairs say of answers; `None` without a pair.
    #[must_use]
    pub fn of_answers(&self) -> Option<Elasticity> {
        self.elasticity(|speed| Some(speed.answers))
    }

    /// What the pairs say of the inverse of the p99; `None` where that was not measured.
    #[must_use]
    pub fn of_p99(&self) -> Option<Elasticity> {
        self.elasticity(|speed| speed.p99_s.filter(|seconds| *seconds > 0.0).map(f64::recip))
    }

    fn elasticity(&self, speed: impl Fn(&Speed) -> Option<f64>) -> Option<Elasticity> {
        if self.dose <= 0.0 || (!self.resource.is_delay() && self.dose >= 1.0) {
            return None;
        }
        let given = self.resource.left(self.dose).ln();
        let both = self.pairs.iter().filter_map(|(without, with)| Some((speed(without)?, speed(with)?)));
        // Fewer answers than that are as good as none.
        let left = both.filter(|(without, _)| *without > 0.0);
        let left = left.map(|(without, with)| (with / without).max(LEFT_MIN));
        Elasticity::of_median(left.map(|left| left.ln() / given).collect())
    }
}

// In the order in which they are measured.
forebay_names::names! { "resource": Resource {
    Processor = "processors",
    Memory = "memory",
    PageCache = "page-cache",
    Bandwidth = "bandwidth",
    LastCache = "last-cache",
    Disk = "disk",
    Dependency = "dependency",
} }

impl Resource {
    /// Whether a dose makes something later; the resource is then its speed.
    #[must_use]
    pub const fn is_delay(self) -> bool {
        matches!(self, Self::Disk | Self::Dependency)
    }

    /// What the resource is multiplied by if so much of it is taken away; of a delay the speed is the resource.
    fn left(self, dose: f64) -> f64 {
        if self.is_delay() { 1.0 / (1.0 + dose) } else { 1.0 - dose }
    }

    /// Whether a lack of it is what this limit says.
    #[must_use]
    pub const fn is_meant_by(self, limit: Limit) -> bool {
        match self {
            Self::Processor => {
                matches!(limit, Limit::Processor | Limit::OneThread | Limit::Quota | Limit::NewMemory)
            }
            Self::Memory => matches!(limit, Limit::VirtualMemory),
            Self::PageCache => matches!(limit, Limit::VirtualMemory | Limit::Disk),
            Self::Bandwidth => matches!(limit, Limit::MainMemory),
            Self::LastCache => matches!(limit, Limit::Cache | Limit::MainMemory),
            Self::Disk => matches!(limit, Limit::Disk | Limit::VirtualMemory),
            Self::Dependency => matches!(limit, Limit::Dependency | Limit::Workers),
        }
    }
}

impl Elasticity {
    /// The median of these with its interval by ranks; `None` of none.
    fn of_median(mut each: Vec<f64>) -> Option<Self> {
        each.sort_by(f64::total_cmp);
        let number = each.len();
        if number == 0 {
            return None;
        }
        let outside = |rank: usize| 2.0 * at_most(number, rank);
        let mut rank = 0;
        while rank + 1 < number.div_ceil(2) && 1.0 - outside(rank + 1) >= CONFIDENCE {
            rank += 1;
        }
        let median = (each[(number - 1) / 2] + each[number / 2]) / 2.0;
        let confidence = (1.0 - outside(rank)).max(0.0);
        Some(Self { median, low: each[rank], high: each[number - 1 - rank], confidence })
    }

    /// By which share answers become more with a tenth more of the resource.
    #[must_use]
    pub fn with_a_tenth_more(&self) -> f64 {
        1.1f64.powf(self.median) - 1.0
    }

    /// By which share a latency becomes shorter with a tenth more of the resource.
    #[must_use]
    pub fn shorter_with_a_tenth_more(&self) -> f64 {
        1.0 - 1.1f64.powf(-self.median)
    }

    /// Whether the resource binds: also the low end of the interval says so.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.low >= BINDS
    }

    /// Whether the resource has no part in the throughput, also by the high end of the interval.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.high < BINDS
    }
}

/// The probability that at most `most` of `number` fair coins show heads.
fn at_most(number: usize, most: usize) -> f64 {
    let mut ways = 1.0;
    let mut sum = 0.0;
    for heads in 0..=most {
        sum += ways;
        ways *= (number - heads) as f64 / (heads + 1) as f64;
    }
    sum / 2f64.powi(number as i32)
}

/// Which resource binds: of those that do the one with the largest elasticity.
#[must_use]
pub fn binding(all: &[(Resource, Elasticity)]) -> Option<&(Resource, Elasticity)> {
    let binding = all.iter().filter(|(_, elasticity)| elasticity.binds());
    binding.max_by(|(_, one), (_, other)| one.median.total_cmp(&other.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(answers: f64) -> Speed {
        Speed { answers, p99_s: None }
    }

    fn doses(resource: Resource, dose: f64, pairs: &[(f64, f64)]) -> Doses {
        let pairs = pairs.iter().map(|(without, with)| (speed(*without), speed(*with))).collect();
        Doses { resource, dose, pairs }
    }

    fn of_processor(dose: f64, pairs: &[(f64, f64)]) -> Option<Elasticity> {
        doses(Resource::Processor, dose, pairs).of_answers()
    }

    #[test]
    fn a_fifth_less_that_answers_a_fifth_less_has_elasticity_one() {
        let elasticity = of_processor(0.2, &[(100.0, 80.0); 6]).unwrap();
        assert!((elasticity.median - 1.0).abs() < 1e-9 && elasticity.binds(), "{elasticity:?}");
        let none = of_processor(0.2, &[(100.0, 100.0); 6]).unwrap();
        assert!(none.median == 0.0 && none.is_free() && !none.binds(), "{none:?}");
        assert!((elasticity.with_a_tenth_more() - 0.1).abs() < 1e-9);
        assert!((elasticity.shorter_with_a_tenth_more() - 1.0 / 11.0).abs() < 1e-9);
        let gone = of_processor(0.2, &[(100.0, 0.0); 6]).unwrap();
        assert!(gone.median.is_finite() && gone.binds(), "{gone:?}");
    }

    #[test]
    fn a_server_that_waits_for_something_later_alone_has_elasticity_one() {
        for resource in [Resource::Dependency, Resource::Disk] {
            let half_later = doses(resource, 0.5, &[(150.0, 100.0); 6]);
            assert!((half_later.of_answers().unwrap().median - 1.0).abs() < 1e-9);
            // A delay may become more than twice as long.
            let thrice = doses(resource, 2.0, &[(300.0, 100.0); 6]);
            assert!((thrice.of_answers().unwrap().median - 1.0).abs() < 1e-9);
        }
        assert_eq!(of_processor(1.0, &[(100.0, 50.0)]), None);
    }

    #[test]
    fn a_p99_that_grows_as_the_resource_shrinks_has_elasticity_one_whatever_answers_do() {
        let run = |p99_s| Speed { answers: 100.0, p99_s };
        let pairs = vec![(run(Some(0.008)), run(Some(0.010))); 6];
        let paced = Doses { resource: Resource::Memory, dose: 0.2, pairs };
        assert!((paced.of_p99().unwrap().median - 1.0).abs() < 1e-9 && paced.of_p99().unwrap().binds());
        assert!(paced.of_answers().unwrap().is_free());
        for unknown in [None, Some(0.0)] {
            let pairs = vec![(run(unknown), run(Some(0.010)))];
            assert_eq!(Doses { pairs, ..paced.clone() }.of_p99(), None);
        }
    }

    #[test]
    fn the_interval_is_the_one_of_the_median_by_ranks() {
        let of = |percent: f64| (1.0 - percent / 100.0).ln() / 0.9f64.ln();
        // Six pairs: only the extremes hold the median in 95 of 100 cases, and do so in 96.9.
        let pairs: Vec<(f64, f64)> = (0..6).map(|number| (100.0, 100.0 - f64::from(number))).collect();
        let elasticity = of_processor(0.1, &pairs).unwrap();
        assert!((elasticity.confidence - 0.96875).abs() < 1e-9, "{elasticity:?}");
        assert!(elasticity.low.abs() < 1e-9 && (elasticity.high - of(5.0)).abs() < 1e-9, "{elasticity:?}");
        // Of nine, the second from either end.
        let pairs: Vec<(f64, f64)> = (0..9).map(|number| (100.0, 100.0 - f64::from(number))).collect();
        let elasticity = of_processor(0.1, &pairs).unwrap();
        assert!(
            (elasticity.low - of(1.0)).abs() < 1e-9 && (elasticity.high - of(7.0)).abs() < 1e-9,
            "{elasticity:?}"
        );
        assert!(elasticity.confidence >= CONFIDENCE);
    }

    #[test]
    fn one_pair_says_something_and_holds_nothing() {
        let one = of_processor(0.1, &[(100.0, 95.0)]).unwrap();
        assert_eq!((one.low, one.high, one.confidence), (one.median, one.median, 0.0));
        assert_eq!(of_processor(0.1, &[]), None);
        assert_eq!(of_processor(0.1, &[(0.0, 0.0)]), None);
    }

    #[test]
    fn the_largest_elasticity_that_is_sure_binds() {
        let sure =
            |median: f64| Elasticity { median, low: median - 0.1, high: median + 0.1, confidence: 0.97 };
        let unsure = Elasticity { median: 2.0, low: -1.0, high: 3.0, confidence: 0.97 };
        let all =
            [(Resource::Memory, sure(0.5)), (Resource::Processor, sure(0.9)), (Resource::Dependency, unsure)];
        assert_eq!(binding(&all).map(|(resource, _)| resource), Some(&Resource::Processor));
        assert_eq!(binding(&all[2..]), None);
    }

    #[test]
    fn resources_are_known_by_their_names_and_each_is_what_some_limit_means() {
        let limits = [
            Limit::Processor,
            Limit::VirtualMemory,
            Limit::Disk,
            Limit::MainMemory,
            Limit::Cache,
            Limit::Dependency,
        ];
        for resource in Resource::ALL {
            assert!(limits.iter().any(|limit| resource.is_meant_by(*limit)), "{resource}");
            assert!(!resource.is_meant_by(Limit::Network) && !resource.is_meant_by(Limit::Undecided));
        }
    }
}
