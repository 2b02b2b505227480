//! Series of measurements, and ratios taken round by round.

use forebay_results::Spread;

/// The measurements of one thing, in the order they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    values: Vec<f64>,
}

impl Series {
    /// Adds one measurement.
    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// The measurements in the order they were made.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Median and extremes; `None` of an empty series.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(&self.values)
    }

    /// The median; NaN of an empty series.
    pub fn median(&self) -> f64 {
        forebay_results::median(&self.values).unwrap_or(f64::NAN)
    }

    /// The quarter and three-quarter points (nearest rank), between which half of the measurements lie; NaN of an
    /// empty series. Over many runs of a busy machine the extremes say nothing.
    pub fn middle_half(&self) -> (f64, f64) {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |quarters: usize| {
            sorted.get((sorted.len() * quarters).div_ceil(4).saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        (at(1), at(3))
    }

    /// `self / other`, round by round: what drifts over the rounds of a comparison cancels out.
    pub fn per_round_ratio(&self, other: &Self) -> Self {
        self.pairwise(other, |own, others| own / others)
    }

    /// `self - other`, round by round.
    pub fn per_round_difference(&self, other: &Self) -> Self {
        self.pairwise(other, |own, others| own - others)
    }

    /// `self + other`, round by round.
    pub fn per_round_sum(&self, other: &Self) -> Self {
        self.pairwise(other, |own, others| own + others)
    }

    /// Whether every measurement was 0.
    pub fn is_zero(&self) -> bool {
        self.values.iter().all(|&value| value == 0.0)
    }

    fn pairwise(&self, other: &Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        self.values.iter().zip(&other.values).map(|(&own, &others)| combine(own, others)).collect()
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self { values: values.into_iter().collect() }
    }
}

/// The share of the time lost to stalls (`cold` - `warm`) that `assisted` does not lose; `None` where less
/// than a twentieth of the cold time is stall, since the quotient is noise there.
pub fn stall_removed(cold: f64, assisted: f64, warm: f64) -> Option<f64> {
    let stall = cold - warm;
    (stall > cold / 20.0).then(|| (cold - assisted) / stall)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Series {
        values.iter().copied().collect()
    }

    #[test]
    fn ratios_and_differences_pair_the_runs_of_one_round() {
        let slow = series(&[10.0, 20.0, 40.0]);
        let fast = series(&[1.0, 2.0, 4.0]);
        assert_eq!(slow.per_round_ratio(&fast).values(), [10.0, 10.0, 10.0]);
        assert_eq!(slow.per_round_difference(&fast).values(), [9.0, 18.0, 36.0]);
    }

    #[test]
    fn half_of_the_measurements_lie_in_the_middle_half() {
        assert_eq!(series(&[8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).middle_half(), (2.0, 6.0));
        assert_eq!(series(&[1.0]).middle_half(), (1.0, 1.0));
    }

    #[test]
    fn an_empty_series_has_no_spread() {
        assert_eq!(Series::default().spread(), None);
        assert!(Series::default().median().is_nan());
    }

    #[test]
    fn stall_removed_is_one_at_warm_speed_and_zero_without_gain() {
        assert_eq!(stall_removed(10.0, 2.0, 2.0), Some(1.0));
        assert_eq!(stall_removed(10.0, 10.0, 2.0), Some(0.0));
        assert_eq!(stall_removed(10.0, 9.0, 9.9), None);
    }
}
