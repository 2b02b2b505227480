//! How much more a server answers for each percent of a resource that it has more, by doses taken away from it.
//!
//! The elasticity is the ratio of the logarithms: 1 where answers are proportional to the resource, however large the dose.
//!
//! Each pair is a run without and one with the dose, one after the other, so that what drifts drifts for both. The interval
//! is that of the median by ranks: it assumes nothing of how the runs scatter.

/// A resource that a server is given less of, or a delay that it is given more of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Time of processors.
    Processor,
    /// Memory of its control group, with its page cache.
    Memory,
    /// How fast the dependency with this address answers.
    Dependency(String),
}

/// Runs without and with a dose, in pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Doses {
    /// Of what.
    pub resource: Resource,
    /// The share of the resource that was taken away, or the share by which a delay was made longer.
    pub dose: f64,
    /// Answers a second without the dose, and with it.
    pub pairs: Vec<(f64, f64)>,
}

/// Percent of throughput for each percent of a resource.
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
    fn left(&self) -> f64 {
        self.resource.left(self.dose)
    }

    /// What the pairs say; `None` without a pair.
    #[must_use]
    pub fn elasticity(&self) -> Option<Elasticity> {
        let usable = self.pairs.iter().filter(|(without, _)| *without > 0.0);
        // Fewer answers than that are as good as none.
        let left = usable.map(|(without, with)| (with / without).max(LEFT_MIN));
        let mut each: Vec<f64> = left.map(|left| left.ln() / self.left().ln()).collect();
        each.sort_by(f64::total_cmp);
        let number = each.len();
        if number == 0 || self.dose <= 0.0 || self.dose >= 1.0 {
            return None;
        }
        let outside = |rank: usize| 2.0 * at_most(number, rank);
        let mut rank = 0;
        while rank + 1 < number.div_ceil(2) && 1.0 - outside(rank + 1) >= CONFIDENCE {
            rank += 1;
        }
        let median = (each[(number - 1) / 2] + each[number / 2]) / 2.0;
        let confidence = (1.0 - outside(rank)).max(0.0);
        Some(Elasticity { median, low: each[rank], high: each[number - 1 - rank], confidence })
    }
}

impl Resource {
    /// What the resource is multiplied by if so much of it is taken away; of a delay the speed is the resource.
    fn left(&self, dose: f64) -> f64 {
        match self {
            Self::Processor | Self::Memory => 1.0 - dose,
            Self::Dependency(_) => 1.0 / (1.0 + dose),
        }
    }
}

impl Elasticity {
    /// By which share answers become more with a tenth more of the resource.
    #[must_use]
    pub fn with_a_tenth_more(&self) -> f64 {
        1.1f64.powf(self.median) - 1.0
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

    fn doses(dose: f64, pairs: &[(f64, f64)]) -> Doses {
        Doses { resource: Resource::Processor, dose, pairs: pairs.to_vec() }
    }

    #[test]
    fn a_fifth_less_that_answers_a_fifth_less_has_elasticity_one() {
        let elasticity = doses(0.2, &[(100.0, 80.0); 6]).elasticity().unwrap();
        assert!((elasticity.median - 1.0).abs() < 1e-9 && elasticity.binds(), "{elasticity:?}");
        let none = doses(0.2, &[(100.0, 100.0); 6]).elasticity().unwrap();
        assert!(none.median == 0.0 && none.is_free() && !none.binds(), "{none:?}");
        assert!((elasticity.with_a_tenth_more() - 0.1).abs() < 1e-9);
        let gone = doses(0.2, &[(100.0, 0.0); 6]).elasticity().unwrap();
        assert!(gone.median.is_finite() && gone.binds(), "{gone:?}");
    }

    #[test]
    fn a_server_that_waits_for_its_dependency_alone_has_elasticity_one() {
        let resource = Resource::Dependency("127.0.0.1:5432".into());
        let half_later = Doses { resource, dose: 0.5, pairs: vec![(150.0, 100.0); 6] };
        assert!((half_later.elasticity().unwrap().median - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_is_the_one_of_the_median_by_ranks() {
        let of = |percent: f64| (1.0 - percent / 100.0).ln() / 0.9f64.ln();
        // Six pairs: only the extremes hold the median in 95 of 100 cases, and do so in 96.9.
        let pairs: Vec<(f64, f64)> = (0..6).map(|number| (100.0, 100.0 - f64::from(number))).collect();
        let elasticity = doses(0.1, &pairs).elasticity().unwrap();
        assert!((elasticity.confidence - 0.96875).abs() < 1e-9, "{elasticity:?}");
        assert!(elasticity.low.abs() < 1e-9 && (elasticity.high - of(5.0)).abs() < 1e-9, "{elasticity:?}");
        // Of nine, the second from either end.
        let pairs: Vec<(f64, f64)> = (0..9).map(|number| (100.0, 100.0 - f64::from(number))).collect();
        let elasticity = doses(0.1, &pairs).elasticity().unwrap();
        assert!(
            (elasticity.low - of(1.0)).abs() < 1e-9 && (elasticity.high - of(7.0)).abs() < 1e-9,
            "{elasticity:?}"
        );
        assert!(elasticity.confidence >= CONFIDENCE);
    }

    #[test]
    fn one_pair_says_something_and_holds_nothing() {
        let one = doses(0.1, &[(100.0, 95.0)]).elasticity().unwrap();
        assert_eq!((one.low, one.high, one.confidence), (one.median, one.median, 0.0));
        assert_eq!(doses(0.1, &[]).elasticity(), None);
        assert_eq!(doses(0.1, &[(0.0, 0.0)]).elasticity(), None);
    }

    #[test]
    fn the_largest_elasticity_that_is_sure_binds() {
        let sure =
            |median: f64| Elasticity { median, low: median - 0.1, high: median + 0.1, confidence: 0.97 };
        let unsure = Elasticity { median: 2.0, low: -1.0, high: 3.0, confidence: 0.97 };
        let all = [
            (Resource::Memory, sure(0.5)),
            (Resource::Processor, sure(0.9)),
            (Resource::Dependency("a".into()), unsure),
        ];
        assert_eq!(binding(&all).map(|(resource, _)| resource), Some(&Resource::Processor));
        assert_eq!(binding(&all[2..]), None);
    }
}
