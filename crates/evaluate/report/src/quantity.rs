//! What values are, which tells how to print them.

use forebay_quantity::{bytes, number, percent, seconds, times};

/// What a value is, which tells how to write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// A duration, and the seconds of its unit.
    Time(f64),
    /// Bytes.
    Bytes,
    /// A part of a whole.
    Share,
    /// So many times as much, or as fast.
    Factor,
    /// Whether something is so.
    Flag,
    /// Anything else in this unit; empty for a number of things.
    Plain(String),
}

impl Quantity {
    /// What rows with this metric and unit hold.
    #[must_use]
    pub fn of(metric: &str, unit: &str) -> Self {
        match unit {
            "s" => Self::Time(1.0),
            "ms" => Self::Time(1e-3),
            "us" => Self::Time(1e-6),
            "ns" => Self::Time(1e-9),
            "B" => Self::Bytes,
            "1" => match metric {
                "speedup" | "ratio" => Self::Factor,
                "bytes" => Self::Bytes,
                "output_identical" => Self::Flag,
                "overhead" | "stall_removed" => Self::Share,
                share if share.starts_with("share") => Self::Share,
                _ => Self::Plain(String::new()),
            },
            unit => Self::Plain(unit.to_owned()),
        }
    }

    /// The value below which something is less than nothing, or slower: where bars begin.
    #[must_use]
    pub fn origin(&self) -> f64 {
        if *self == Self::Factor { 1.0 } else { 0.0 }
    }

    /// `name` with the unit, as an axis has it.
    #[must_use]
    pub fn titled(&self, name: &str) -> String {
        match self {
            Self::Time(_) => format!("{name}, s"),
            Self::Bytes => format!("{name}, B"),
            Self::Share => format!("{name}, %"),
            Self::Factor => format!("{name}, times"),
            Self::Flag => format!("{name}, yes or no"),
            Self::Plain(unit) if unit.is_empty() => format!("{name}, count"),
            Self::Plain(unit) => format!("{name}, {unit}"),
        }
    }

    /// `value` with its unit.
    #[must_use]
    pub fn show(&self, value: f64) -> String {
        if !value.is_finite() {
            return "-".into();
        }
        match self {
            Self::Time(seconds_each) => seconds(value * seconds_each),
            Self::Bytes => bytes(value),
            Self::Share => percent(value),
            Self::Factor => times(value),
            Self::Flag => if value == 1.0 { "yes" } else { "no" }.into(),
            Self::Plain(unit) if unit.is_empty() => number(value),
            Self::Plain(unit) if unit == "1/s" => format!("{} /s", number(value)),
            Self::Plain(unit) => format!("{} {unit}", number(value)),
        }
    }

    /// `value` beside an axis: without digits that say nothing, and without a unit that never changes.
    #[must_use]
    pub fn tick(&self, value: f64) -> String {
        let text = if let Self::Plain(_) = self { number(value) } else { self.show(value) };
        let end = text.find([' ', 'x']).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number = match number.split_once('.') {
            Some((whole, "0" | "00")) => whole,
            Some((_, fraction)) if fraction.ends_with('0') => &number[..number.len() - 1],
            _ => number,
        };
        if value == 0.0 { "0".into() } else { format!("{number}{unit}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<const N: usize>(metric: &str, unit: &str, values: [f64; N]) -> [String; N] {
        values.map(|value| Quantity::of(metric, unit).show(value))
    }

    #[test]
    fn three_digits_in_the_unit_that_suits() {
        let times = [5e-8, 0.000_5, 0.001_234, 0.123_4, 1.234, 123.4, 0.999_7, -0.002];
        let said = ["50.0 ns", "500 us", "1.23 ms", "123 ms", "1.23 s", "123 s", "1.00 s", "-2.00 ms"];
        assert_eq!(shown("elapsed", "s", times), said);
        assert_eq!(shown("latency", "us", [3.0, 4.5e6]), ["3.00 us", "4.50 s"]);
        assert_eq!(shown("max_rss", "B", [12.0, 10_485_760.0, 1.5e10]), ["12 B", "10 MiB", "14.0 GiB"]);
        assert_eq!(shown("hints", "1", [3.0, 12_345.0, -1_234_567.0]), ["3", "12,345", "-1,234,567"]);
        assert_eq!(shown("throughput", "Mbit/s", [3640.4]), ["3,640 Mbit/s"]);
        assert_eq!(shown("transactions", "1/s", [59_676.0]), ["59,676 /s"]);
        assert_eq!(shown("overhead", "1", [0.0123, -0.0001]), ["1.23 %", "-0.01 %"]);
        assert_eq!(shown("speedup", "1", [17.34, 0.94, 1.0]), ["17.3x", "0.94x", "1.00x"]);
        assert_eq!(shown("output_identical", "1", [1.0, 0.0]), ["yes", "no"]);
        assert_eq!(shown("elapsed", "s", [f64::NAN]), ["-"]);
    }

    #[test]
    fn ticks_have_no_digits_that_say_nothing() {
        let tick = |metric, unit, value| Quantity::of(metric, unit).tick(value);
        assert_eq!(tick("elapsed", "s", 2.5), "2.5 s");
        assert_eq!(tick("elapsed", "s", 0.0), "0");
        assert_eq!(tick("speedup", "1", 10.0), "10x");
        assert_eq!(tick("speedup", "1", 0.5), "0.5x");
        assert_eq!(tick("max_rss", "B", 1_048_576.0), "1 MiB");
        assert_eq!(tick("throughput", "Mbit/s", 20_000.0), "20,000");
    }
}
