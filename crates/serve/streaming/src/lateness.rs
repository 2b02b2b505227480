//! How late packets were sent, against when they were due.

/// The upper bounds of the classes, in nanoseconds; one more class is beyond all of them.
pub const BOUNDS_NS: [u64; 14] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
];

/// Counts by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; BOUNDS_NS.len() + 1],
    sum_ns: u64,
    max_ns: u64,
}

impl Lateness {
    /// One more.
    pub fn note(&mut self, late_ns: u64) {
        self.counts[BOUNDS_NS.partition_point(|bound| *bound < late_ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(late_ns);
        self.max_ns = self.max_ns.max(late_ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The latest.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// How many were at most as late as each bound.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        BOUNDS_NS.into_iter().zip(counts)
    }

    /// The bound that a share of all, from 0 to 1, is not later than; the latest where no bound is that high.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let found = self.cumulative().find(|(_, count)| *count >= wanted);
        found.map_or(self.max_ns, |(bound, _)| bound.min(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_classes() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile_ns(0.99), 0);
        (0..98).for_each(|_| lateness.note(70_000));
        lateness.note(3_000_000);
        lateness.note(9_000_000_000);
        assert_eq!(lateness.quantile_ns(0.5), 100_000);
        assert_eq!(lateness.quantile_ns(0.99), 5_000_000);
        assert_eq!(lateness.quantile_ns(1.0), 9_000_000_000);
        assert_eq!((lateness.count(), lateness.max_ns()), (100, 9_000_000_000));
    }
}
