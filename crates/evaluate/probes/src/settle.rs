//! Measuring until the values agree.

use std::time::{Duration, Instant};

use forebay_results::{Spread, median};

use crate::Error;

/// When a quantity has been measured often enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The spread at which values agree: the middle half of them over their median.
    pub spread: f64,
    /// So many values at least; two where there is no time at all.
    pub samples_min: usize,
    /// No more values after so long.
    pub time: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The values.
    pub values: Spread,
    /// The middle half of them over their median.
    pub spread: f64,
    /// Whether that is within the limit.
    pub settled: bool,
}

impl Limit {
    /// Whether these values agree; none of no values.
    #[must_use]
    pub fn judge(&self, values: &[f64]) -> Option<Settled> {
        let spread = relative_middle_half(values)?;
        let settled = values.len() >= self.samples_min && spread <= self.spread;
        Some(Settled { values: Spread::of(values)?, spread, settled })
    }
}

/// Takes samples until they agree, the time is over, or `stop` says so; none when it says so before the first.
///
/// # Errors
/// A sample could not be taken.
pub fn settle(
    limit: Limit,
    stop: &dyn Fn() -> bool,
    sample: &mut dyn FnMut() -> Result<f64, Error>,
) -> Result<Option<Settled>, Error> {
    let begun = Instant::now();
    let mut values = Vec::new();
    while !stop() {
        values.push(sample()?);
        let least = if limit.time.is_zero() { 2 } else { limit.samples_min };
        let settled = || limit.judge(&values).is_some_and(|one| one.settled);
        if values.len() >= least && (begun.elapsed() >= limit.time || settled()) {
            break;
        }
    }
    Ok(limit.judge(&values))
}

/// The distance between the quarter points over the median; none without values, infinite where the median is 0 and they differ.
fn relative_middle_half(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * (sorted.len() - 1) as f64;
        let (below, part) = (place.floor() as usize, place.fract());
        sorted[below] + part * (sorted[place.ceil() as usize] - sorted[below])
    };
    let median = median(values)?;
    let half = at(0.75) - at(0.25);
    Some(if half == 0.0 { 0.0 } else { (half / median).abs() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { spread: 0.05, samples_min: 5, time: Duration::from_secs(3600) };

    fn settled(limit: Limit, values: &[f64]) -> Settled {
        let mut values = values.iter().copied();
        settle(limit, &|| false, &mut || Ok(values.next().expect("no more samples are taken")))
            .unwrap()
            .unwrap()
    }

    #[test]
    fn values_that_agree_end_it() {
        let one = settled(LIMIT, &[10.0, 10.1, 9.9, 10.0, 55.0]);
        assert!(one.settled && one.values.runs == 5, "{one:?}");
        assert!((one.spread - 0.01).abs() < 1e-9, "{one:?}");
    }

    #[test]
    fn values_that_do_not_agree_are_told_from_those_that_do() {
        let limit = Limit { time: Duration::ZERO, ..LIMIT };
        let one = settled(limit, &[10.0, 14.0]);
        assert!(!one.settled && one.values.runs == 2, "{one:?}");
        let few_that_agree = settled(limit, &[10.0, 10.0]);
        assert!(!few_that_agree.settled && few_that_agree.spread == 0.0, "{few_that_agree:?}");
    }

    #[test]
    fn more_values_help_where_the_first_were_odd() {
        let one = settled(LIMIT, &[20.0, 15.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0]);
        assert!(one.settled && one.values.median == 10.0, "{one:?}");
    }

    #[test]
    fn a_stop_keeps_what_there_is() {
        let taken = std::cell::Cell::new(0);
        let stop = || taken.get() == 3;
        let kept = settle(LIMIT, &stop, &mut || {
            taken.set(taken.get() + 1);
            Ok(f64::from(taken.get()))
        });
        assert_eq!(kept.unwrap().unwrap().values.values, [1.0, 2.0, 3.0]);
        assert_eq!(settle(LIMIT, &|| true, &mut || Ok(1.0)).unwrap(), None);
    }
}
