//! Times, counted in whatever a file counts them in.

const SECOND_NS: i128 = 1_000_000_000;

/// How long a tick is: `numerator / denominator` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBase {
    numerator: u64,
    denominator: u64,
}

impl TimeBase {
    /// `None` if a tick would take no time, or endless time.
    pub(crate) fn new(numerator: u64, denominator: u64) -> Option<Self> {
        (numerator > 0 && denominator > 0).then_some(Self { numerator, denominator })
    }

    /// Numerator and denominator of a tick, in seconds.
    pub(crate) fn parts(self) -> (u64, u64) {
        (self.numerator, self.denominator)
    }

    /// So many ticks a second; `None` for none.
    pub fn per_second(ticks: u32) -> Option<Self> {
        Self::new(1, ticks.into())
    }

    /// Ticks in nanoseconds, rounded to the nearest.
    pub fn nanoseconds(self, ticks: i64) -> i64 {
        self.scale(ticks, SECOND_NS)
    }

    /// Ticks on a clock of `rate` ticks per second, rounded to the nearest.
    pub fn on_clock(self, ticks: i64, rate: u32) -> i64 {
        self.scale(ticks, rate.into())
    }

    /// Nanoseconds in ticks, rounded to the nearest.
    pub fn ticks(self, ns: i64) -> i64 {
        let numerator = i128::from(ns) * i128::from(self.denominator);
        divide(numerator, SECOND_NS * i128::from(self.numerator))
    }

    fn scale(self, ticks: i64, per_second: i128) -> i64 {
        // Within 128 bits: 64 for the ticks, at most 32 for the numerator of any container, 30 for nanoseconds.
        let numerator = (i128::from(ticks) * i128::from(self.numerator)).saturating_mul(per_second);
        divide(numerator, self.denominator.into())
    }
}

/// Rounded to the nearest, and as far as 64 bits go.
fn divide(numerator: i128, denominator: i128) -> i64 {
    let rounded = numerator.saturating_add(denominator / 2).div_euclid(denominator);
    rounded.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_the_nearest_on_either_side_of_zero() {
        let base = TimeBase::per_second(44_100).expect("a rate");
        assert_eq!(base.nanoseconds(-1024), -23_219_955);
        assert_eq!(base.nanoseconds(1024), 23_219_955);
        assert_eq!(base.ticks(23_219_955), 1024);
        assert_eq!(base.on_clock(1024, 90_000), 2090);
        let milliseconds = TimeBase::new(1_000_000, 1_000_000_000).expect("a scale");
        assert_eq!(milliseconds.on_clock(23, 44_100), 1014);
    }

    #[test]
    fn times_beyond_all_bounds_stay_at_the_bounds() {
        let years = TimeBase::new(u64::MAX, 1).expect("a scale");
        assert_eq!(years.nanoseconds(i64::MAX), i64::MAX);
        assert_eq!(years.nanoseconds(i64::MIN), i64::MIN);
        assert_eq!(years.ticks(i64::MAX), 0);
        assert_eq!(TimeBase::new(1, u64::MAX).expect("a scale").ticks(i64::MAX), i64::MAX);
    }
}
