//! Where values lie along an axis, and which of them get a line.

/// From this ratio of the largest to the least value on, an axis is logarithmic; one of ratios, where half is as far from
/// one as two is, earlier.
const LOG_FROM: f64 = 30.0;
const LOG_FROM_OF_RATIOS: f64 = 4.0;
/// A share that is no part of a whole any more, and the least that such an axis shows.
const EXCESS_LOG_FROM: f64 = 3.0;
const EXCESS_LEAST: f64 = 0.01;
/// Room at the ends of a logarithmic axis, as a factor.
const LOG_ROOM: f64 = 1.15;
/// About as many lines an axis has.
const LINES: f64 = 5.0;
/// At most as many a logarithmic one has.
const LOG_LINES_MAX: usize = 7;

/// A linear or a logarithmic axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    pub(crate) logarithmic: bool,
    /// Steps of a linear axis double, as sizes do.
    binary: bool,
}

impl Scale {
    /// The axis of values of which some may be compared by length: from `origin`: 0, or 1 of ratios.
    pub(crate) fn of_lengths(values: impl Iterator<Item = f64> + Clone, origin: f64, binary: bool) -> Self {
        let log_from = if origin > 0.0 { LOG_FROM_OF_RATIOS } else { LOG_FROM };
        let (low, high) = extremes(values.clone().chain([origin].into_iter().filter(|one| *one > 0.0)));
        if low > 0.0 && high / low >= log_from {
            return Self::logarithmic(low, high, binary);
        }
        let (low, high) = extremes(values.chain([origin]));
        Self::linear(low, high, binary)
    }

    /// The axis of shares: one of excesses by many times is logarithmic and begins at a hundredth; what is less, or
    /// negative, lies at its end.
    pub(crate) fn of_shares(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (low, high) = extremes(values.clone());
        if high >= EXCESS_LOG_FROM {
            return Self::logarithmic(low.max(EXCESS_LEAST), high, false);
        }
        Self::of_lengths(values, 0.0, false)
    }

    /// The axis of values of which only the place counts.
    pub(crate) fn of_points(values: impl Iterator<Item = f64>, binary: bool) -> Self {
        let (low, high) = extremes(values);
        if low > 0.0 && high / low >= LOG_FROM {
            return Self::logarithmic(low, high, binary);
        }
        Self::linear(low, high, binary)
    }

    /// The same kind of axis for fewer values.
    pub(crate) fn narrowed(&self, values: impl Iterator<Item = f64>, origin: f64) -> Self {
        if self.logarithmic {
            let (low, high) = extremes(values);
            let least = self.low * LOG_ROOM;
            return Self::logarithmic(low.max(least), high.max(least), self.binary);
        }
        let (low, high) = extremes(values.chain([origin]));
        Self::linear(low, high, self.binary)
    }

    fn logarithmic(low: f64, high: f64, binary: bool) -> Self {
        Self { low: low / LOG_ROOM, high: high * LOG_ROOM, logarithmic: true, binary }
    }

    fn linear(low: f64, high: f64, binary: bool) -> Self {
        let (low, high) = if low < high { (low, high) } else { (low.min(0.0), high.max(low.min(0.0) + 1.0)) };
        Self { low, high, logarithmic: false, binary }
    }

    /// The same axis with ends that have a line, but for a little below 0.
    pub(crate) fn rounded(self) -> Self {
        if self.logarithmic {
            return self;
        }
        let step = self.step();
        let low = if -step / 4.0 < self.low && self.low < 0.0 {
            self.low
        } else {
            (self.low / step).floor() * step
        };
        Self { low, high: (self.high / step).ceil() * step, ..self }
    }

    /// Place of `value`: 0 at the low end, 1 at the high one.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high, value) = if self.logarithmic {
            (self.low.ln(), self.high.ln(), value.max(self.low).ln())
        } else {
            (self.low, self.high, value)
        };
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Values that get a line.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            let step = self.step();
            let (first, last) = ((self.low / step - 1e-9).ceil(), (self.high / step + 1e-9).floor());
            return (0..=(last - first) as usize).map(|number| (first + number as f64) * step).collect();
        }
        let decades = (self.high / self.low).log10();
        let within = |value: &f64| self.low <= *value && *value <= self.high;
        let powers = |base: f64| {
            let (first, last) = (self.low.log(base).floor() as i32, self.high.log(base).ceil() as i32);
            (first..=last).map(move |power| base.powi(power))
        };
        let multiples: &[f64] = match decades {
            few if few < 1.4 => &[1.0, 2.0, 5.0],
            some if some < 3.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let ticks: Vec<f64> = if self.binary {
            powers(2.0).filter(within).collect()
        } else {
            powers(10.0).flat_map(|power| multiples.iter().map(move |of| power * of)).filter(within).collect()
        };
        let each = ticks.len().div_ceil(LOG_LINES_MAX).max(1);
        ticks.into_iter().step_by(if self.binary { each.next_power_of_two() } else { each }).collect()
    }

    fn step(&self) -> f64 {
        let rough = (self.high - self.low) / LINES;
        if self.binary && rough > 1.0 {
            return 2.0_f64.powf(rough.log2().ceil());
        }
        let power = 10.0_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
        steps.into_iter().find(|step| *step >= rough).unwrap_or(power * 10.0)
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let all = values.filter(|value| value.is_finite());
    let (low, high) =
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(values: &[f64], origin: f64) -> Scale {
        Scale::of_lengths(values.iter().copied(), origin, false).rounded()
    }

    #[test]
    fn a_linear_axis_begins_at_its_origin_and_ends_on_a_line() {
        let scale = lengths(&[3.0, 8.7], 0.0);
        assert_eq!(scale.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!([0.0, 5.0, 10.0].map(|value| scale.at(value)), [0.0, 0.5, 1.0]);
        let negative = lengths(&[-0.01, 0.03], 0.0);
        assert_eq!(negative.ticks(), [-0.01, 0.0, 0.01, 0.02, 0.03]);
        let hardly = lengths(&[-0.01, 3.0], 0.0);
        assert_eq!((hardly.ticks()[0], hardly.at(-0.01)), (0.0, 0.0));
    }

    #[test]
    fn shares_of_many_times_are_logarithmic_and_parts_of_a_whole_are_not() {
        let excess = Scale::of_shares([-0.01, 0.0, 0.2, 20.0].into_iter());
        assert!(excess.logarithmic && excess.at(-0.01) == 0.0 && excess.at(0.2) > 0.3, "{excess:?}");
        assert!(!Scale::of_shares([0.1, 1.0].into_iter()).logarithmic);
    }

    #[test]
    fn an_axis_over_decades_is_logarithmic() {
        let scale = Scale::of_points([0.001, 10.0].into_iter(), false);
        assert!(scale.logarithmic);
        assert_eq!(scale.ticks().len(), 5);
        assert!((scale.at(0.1) - 0.5).abs() < 1e-9);
        assert!(!lengths(&[0.0, 0.001, 10.0], 0.0).logarithmic && !lengths(&[-1.0, 99.0], 0.0).logarithmic);
        assert!(lengths(&[1.2, 64.0], 1.0).logarithmic);
        assert!(lengths(&[40.0, 64.0], 1.0).logarithmic);
        assert!(lengths(&[0.4, 6.0], 1.0).logarithmic && !lengths(&[0.4, 6.0], 0.0).logarithmic);
    }

    #[test]
    fn sizes_have_lines_at_powers_of_two() {
        let scale = Scale::of_points([128.0, 4096.0].into_iter(), true);
        assert_eq!(scale.ticks(), [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0]);
        let mebibytes = Scale::of_points([10.0 * 1_048_576.0, 44.0 * 1_048_576.0].into_iter(), true);
        let ticks: Vec<f64> = mebibytes.ticks().iter().map(|tick| tick / 1_048_576.0).collect();
        assert_eq!(ticks, [16.0, 24.0, 32.0, 40.0]);
    }

    #[test]
    fn any_values_have_an_axis() {
        for values in [
            &[][..],
            &[0.0],
            &[5.0],
            &[-3.0],
            &[f64::NAN, 1.0],
            &[f64::INFINITY],
            &[1e300, 1e-300],
            &[7.0, 7.0],
        ] {
            for binary in [false, true] {
                let scale = Scale::of_points(values.iter().copied(), binary).rounded();
                let ticks = scale.ticks();
                assert!((1..=12).contains(&ticks.len()), "{values:?}: {scale:?}, {ticks:?}");
                assert!(values.iter().all(|value| (0.0..=1.0).contains(&scale.at(*value)) || value.is_nan()));
            }
        }
    }
}
