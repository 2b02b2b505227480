//! Numbers as people read them: three digits, in the unit that suits them.

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

    /// `value` with its unit.
    #[must_use]
    pub fn show(&self, value: f64) -> String {
        if !value.is_finite() {
            return "-".into();
        }
        match self {
            Self::Time(seconds_each) => seconds(value * seconds_each),
            Self::Bytes => bytes(value),
            Self::Share => format!("{} %", digits(value * 100.0)),
            Self::Factor => times(value),
            Self::Flag => if value == 1.0 { "yes" } else { "no" }.into(),
            Self::Plain(unit) if unit.is_empty() => digits(value),
            Self::Plain(unit) => format!("{} {unit}", digits(value)),
        }
    }

    /// `value` beside an axis: without digits that say nothing, and without a unit that never changes.
    #[must_use]
    pub fn tick(&self, value: f64) -> String {
        let text = if let Self::Plain(_) = self { digits(value) } else { self.show(value) };
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

/// A duration, e.g. `12.3 ms`.
#[must_use]
pub fn seconds(value: f64) -> String {
    if value < 0.0 {
        return format!("-{}", seconds(-value));
    }
    match value {
        value if !value.is_finite() => "-".to_owned(),
        0.0 => "0 s".to_owned(),
        value if value < 0.000_000_999_5 => format!("{} ns", measured(value * 1e9)),
        value if value < 0.000_999_5 => format!("{} us", measured(value * 1e6)),
        value if value < 0.999_5 => format!("{} ms", measured(value * 1e3)),
        value => format!("{} s", measured(value)),
    }
}

/// A ratio, e.g. `15.4x`.
#[must_use]
pub fn times(value: f64) -> String {
    format!("{}x", measured(value))
}

fn bytes(value: f64) -> String {
    let size = value.abs();
    let (each, unit) = match size {
        size if size < 1023.5 => (1.0, "B"),
        size if size < 1023.5 * 1024.0 => (1024.0, "KiB"),
        size if size < 1023.5 * 1_048_576.0 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    };
    format!("{} {unit}", digits(value / each))
}

/// A number of things: no fraction where there is none.
fn digits(value: f64) -> String {
    if value == value.trunc() && value.abs() < 999.5 { format!("{value:.0}") } else { measured(value) }
}

/// Three digits, or all of a large number.
fn measured(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1e15 => format!("{value:.2e}"),
        size if size >= 999.5 => grouped(value),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.009_95 => format!("{value:.2}"),
        size if size >= 0.000_995 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// A whole number with a comma after each three digits.
fn grouped(value: f64) -> String {
    let whole = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
        assert_eq!(shown("footprint", "B", [12.0, 10_485_760.0, 1.5e10]), ["12 B", "10 MiB", "14.0 GiB"]);
        assert_eq!(shown("hints", "1", [3.0, 12_345.0, -1_234_567.0]), ["3", "12,345", "-1,234,567"]);
        assert_eq!(shown("throughput", "Mbit/s", [3640.4]), ["3,640 Mbit/s"]);
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
        assert_eq!(tick("footprint", "B", 1_048_576.0), "1 MiB");
        assert_eq!(tick("throughput", "Mbit/s", 20_000.0), "20,000");
    }
}
