//! Quantities as people read them: three digits, in the unit that suits the value.

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * 1024.0;
const GIB: f64 = MIB * 1024.0;

/// What stands for a value that could not be computed.
const NO_VALUE: &str = "-";

/// A number of bytes: `12 B`, `10 MiB`, `62.5 MiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    let size = value.abs();
    // A unit is left before its number gets a fourth digit: 1,023 KiB is 0.999 MiB.
    let (each, unit) = match size {
        size if size < 1023.5 => (1.0, "B"),
        size if size < 1023.5 * KIB => (KIB, "KiB"),
        size if size < 1023.5 * MIB => (MIB, "MiB"),
        _ => (GIB, "GiB"),
    };
    with_unit(value / each, unit)
}

/// A number of bytes in the largest of B, KiB and MiB of which it is a whole number: `1536 KiB`, `1024 MiB`. Names of
/// cases are made of it, so results of two runs have the same names.
#[must_use]
pub fn exact_bytes(bytes: u64) -> String {
    let units = [(1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(each, _)| bytes >= *each && bytes.is_multiple_of(*each));
    let (each, unit) = whole.unwrap_or((1, "B"));
    format!("{} {unit}", bytes / each)
}

/// A duration: `50.0 ns`, `12.3 ms`, `4.50 s`.
#[must_use]
pub fn seconds(value: f64) -> String {
    let (each, unit) = match value.abs() {
        0.0 => (1.0, "s"),
        size if size < 0.000_000_999_5 => (1e-9, "ns"),
        size if size < 0.000_999_5 => (1e-6, "us"),
        size if size < 0.999_5 => (1e-3, "ms"),
        _ => (1.0, "s"),
    };
    if value.is_finite() { format!("{} {unit}", three_digits(value / each)) } else { NO_VALUE.into() }
}

/// A part of a whole, or an excess over it: `97.3 %` for 0.973.
#[must_use]
pub fn percent(share: f64) -> String {
    with_unit(share * 100.0, "%")
}

/// A ratio: `15.4x`.
#[must_use]
pub fn times(ratio: f64) -> String {
    if ratio.is_finite() { format!("{}x", three_digits(ratio)) } else { NO_VALUE.into() }
}

/// A number without a unit: all digits of a large or a whole one, three digits of another.
#[must_use]
pub fn number(value: f64) -> String {
    match value {
        value if !value.is_finite() => NO_VALUE.into(),
        value if value == value.trunc() && value.abs() < 999.5 => format!("{:.0}", value + 0.0),
        value => three_digits(value),
    }
}

/// A count with a comma after each three digits: `1,234,567`.
#[must_use]
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn with_unit(value: f64, unit: &str) -> String {
    if value.is_finite() { format!("{} {unit}", number(value)) } else { NO_VALUE.into() }
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1e15 => format!("{value:.2e}"),
        size if size >= 999.5 => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", thousands(size.round() as u64))
        }
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.009_95 => format!("{value:.2}"),
        size if size >= 0.000_995 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_changes_before_a_fourth_digit_appears() {
        let times = [5e-8, 0.000_5, 0.001_234, 0.123_4, 1.234, 99.97, 123.4, 0.999_7, -0.002, 0.0];
        let said = [
            "50.0 ns", "500 us", "1.23 ms", "123 ms", "1.23 s", "100 s", "123 s", "1.00 s", "-2.00 ms", "0 s",
        ];
        assert_eq!(times.map(seconds), said);
        let sizes = [0.0, 12.0, 1023.0, 65_536.0, 1_048_575.0, 10_485_760.0, 65_536_000.0, 1.5e10, -4096.0];
        let said =
            ["0 B", "12 B", "1,023 B", "64 KiB", "1.00 MiB", "10 MiB", "62.5 MiB", "14.0 GiB", "-4 KiB"];
        assert_eq!(sizes.map(bytes), said);
    }

    #[test]
    fn shares_and_ratios_keep_three_digits() {
        assert_eq!(
            [0.973, 1.0, 0.012_3, -0.000_1, 2.5].map(percent),
            ["97.3 %", "100 %", "1.23 %", "-0.01 %", "250 %"]
        );
        assert_eq!([17.34, 0.94, 1.0, 123.4].map(times), ["17.3x", "0.94x", "1.00x", "123x"]);
    }

    #[test]
    fn large_numbers_have_all_their_digits() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(
            [3.0, -0.0, 3640.4, -1_234_567.0, 2.5].map(number),
            ["3", "0", "3,640", "-1,234,567", "2.50"]
        );
    }

    #[test]
    fn exact_sizes_lose_nothing() {
        assert_eq!(
            [100, 4096, 1_572_864, 1 << 20, 1 << 30, 1025].map(exact_bytes),
            ["100 B", "4 KiB", "1536 KiB", "1 MiB", "1024 MiB", "1025 B"]
        );
    }

    #[test]
    fn what_could_not_be_computed_is_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!([bytes, seconds, percent, times, number].map(|print| print(value)), ["-"; 5]);
        }
    }
}
