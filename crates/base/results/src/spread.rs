//! Medians over few runs.

/// Median, extremes and all values of several runs of one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Middle value; the mean of the middle two for an even number of runs.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub runs: u32,
    /// The values, in the order they were measured.
    pub values: Vec<f64>,
}

impl Spread {
    /// The spread of `values`; `None` without values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let median = median(values)?;
        Some(Self {
            median,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            runs: u32::try_from(values.len()).unwrap_or(u32::MAX),
            values: values.to_vec(),
        })
    }

    /// Distance between the extremes as a share of the median; 0 where the median is 0.
    #[must_use]
    pub fn relative_range(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / self.median }
    }
}

/// Middle of `values`, in any order; `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(sorted[middle - 1].midpoint(sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_order() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn the_range_is_relative_to_the_median() {
        assert_eq!(Spread::of(&[8.0, 10.0, 14.0]).unwrap().relative_range(), 0.6);
        assert_eq!(Spread::of(&[0.0]).unwrap().relative_range(), 0.0);
        assert_eq!(Spread::of(&[]), None);
    }
}
