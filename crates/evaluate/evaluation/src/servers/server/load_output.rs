//! The number, or the time, behind a label in what a load's command prints.

/// The rate behind `label`, on the same line. Of several such lines, the first with a number counts. `None` where there is none,
/// and a sentence where it is no rate.
pub(super) fn rate_after(text: &str, label: &str) -> Result<Option<f64>, String> {
    let Some((number, rest)) = behind(text, label) else { return Ok(None) };
    let rate = number * multiple(rest);
    if rate > 0.0 { Ok(Some(rate)) } else { Err(format!("a rate of {rate}, and a rate is above 0")) }
}

/// The time behind `label` in seconds, on the same line: `1.5ms`, `230 us`, `1m30.5s` or `0.002`. `None` where there is none, and
/// a sentence where it is no time.
pub(super) fn time_after(text: &str, label: &str) -> Result<Option<f64>, String> {
    let Some((mut number, mut rest)) = behind(text, label) else { return Ok(None) };
    if number < 0.0 {
        return Err(format!("a time of {number}, and no time is below 0"));
    }
    let mut seconds = 0.0;
    loop {
        let trimmed = rest.trim_start();
        let (unit, after) =
            trimmed.split_at(trimmed.find(|char: char| !char.is_alphabetic()).unwrap_or(trimmed.len()));
        seconds += number * unit_s(unit)?;
        // As Go writes it, the next part begins behind the unit.
        if unit.is_empty() || !after.starts_with(|char: char| char.is_ascii_digit()) {
            return Ok(Some(seconds));
        }
        let Some(next) = number_and_rest(after) else { return Ok(Some(seconds)) };
        (number, rest) = next;
    }
}

/// What a unit of time is in seconds, as people and programs write it; without one, a number is of seconds.
fn unit_s(unit: &str) -> Result<f64, String> {
    let lower = unit.to_lowercase();
    let of_one = if lower.chars().count() > 2 { lower.strip_suffix('s').unwrap_or(&lower) } else { &lower };
    match of_one {
        "ns" | "nsec" | "nano" | "nanosecond" => Ok(1e-9),
        "us" | "\u{b5}s" | "\u{3bc}s" | "usec" | "micro" | "microsecond" => Ok(1e-6),
        "ms" | "msec" | "milli" | "millisecond" => Ok(1e-3),
        "" | "s" | "sec" | "second" => Ok(1.0),
        "m" | "min" | "minute" => Ok(60.0),
        "h" | "hr" | "hour" => Ok(3600.0),
        _ => {
            Err(format!("a time in '{unit}', which is no unit of time; let it print ns, us, ms, s, min or h"))
        }
    }
}

/// The first number behind `label` on its line, and what follows it.
fn behind<'a>(text: &'a str, label: &str) -> Option<(f64, &'a str)> {
    let mut behind = text.match_indices(label).map(|(place, found)| &text[place + found.len()..]);
    behind.find_map(|rest| number_and_rest(rest.lines().next()?))
}

/// The first number of a line, `1234.5`, `-1`, `12,345.6`, `1.2e+04` or `12.3k`, without a letter that multiplies it, and what is
/// behind it.
fn number_and_rest(line: &str) -> Option<(f64, &str)> {
    let (before, rest) = line.split_at(line.find(|char: char| char.is_ascii_digit())?);
    let has_point = before.ends_with('.');
    let before = before.strip_suffix('.').unwrap_or(before);
    // Between words it is a hyphen.
    let sign = before.strip_suffix(['-', '\u{2212}']);
    let is_below_0 = sign.is_some_and(|before| !before.ends_with(char::is_alphanumeric));
    let (whole, rest) = if has_point {
        (String::from("0"), &line[line.len() - rest.len() - 1..])
    } else {
        let (whole, rest) = digits(rest);
        grouped(whole, rest)
    };
    let (fraction, rest) = match rest.strip_prefix(['.', ',']).map(digits) {
        Some((fraction, rest)) if !fraction.is_empty() => (fraction, rest),
        _ => ("0", rest),
    };
    let (exponent, rest) = exponent(rest).unwrap_or(("0", rest));
    let number: f64 = format!("{whole}.{fraction}e{exponent}").parse().ok()?;
    Some((if is_below_0 { -number } else { number }, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len()))
}

/// Groups of three digits behind one to three, with one separator between all.
fn grouped<'a>(first: &str, rest: &'a str) -> (String, &'a str) {
    let (mut whole, mut left) = (first.to_owned(), rest);
    let separator = rest.chars().next().filter(|char| first.len() <= 3 && [',', '\'', '_'].contains(char));
    while let Some((group, more)) = separator
        .and_then(|separator| left.strip_prefix(separator))
        .map(digits)
        .filter(|(group, _)| group.len() == 3)
    {
        whole += group;
        left = more;
    }
    (whole, left)
}

fn exponent(text: &str) -> Option<(&str, &str)> {
    let unsigned = text.strip_prefix(['e', 'E'])?;
    let (digits, rest) = digits(unsigned.strip_prefix(['+', '-']).unwrap_or(unsigned));
    let written = &text[1..text.len() - rest.len()];
    (!digits.is_empty()).then_some((written, rest))
}

/// What a letter right behind a number stands for, where it is no part of a unit.
fn multiple(rest: &str) -> f64 {
    let mut chars = rest.chars();
    let first = chars.next();
    match first.filter(|_| !chars.next().is_some_and(char::is_alphanumeric)) {
        Some('k' | 'K') => 1e3,
        Some('M') => 1e6,
        Some('G') => 1e9,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_behind_its_label() {
        assert_eq!(rate_after("Latency 5ms\nRequests/sec:  1234.50\n", "Requests/sec:"), Ok(Some(1234.5)));
        assert_eq!(rate_after("done in 3.", "done in"), Ok(Some(3.0)));
        assert_eq!(rate_after("done", "done"), Ok(None));
        assert_eq!(rate_after("", "x"), Ok(None));
    }

    #[test]
    fn numbers_are_read_as_programs_write_them() {
        for (written, number) in [
            ("1.2e+04", 12_000.0),
            ("5e-3 s", 0.005),
            ("1E6", 1e6),
            ("12,345.6 [#/sec]", 12_345.6),
            ("1,234,567", 1_234_567.0),
            ("12'345.6", 12_345.6),
            ("1_000", 1000.0),
            ("1234,5", 1234.5),
            ("1,5", 1.5),
            ("3, 4", 3.0),
            ("12.3k", 12_300.0),
            ("4.5M/s", 4_500_000.0),
            ("5ms", 5.0),
            ("7 kB", 7.0),
            ("5e", 5.0),
            ("(99)", 99.0),
            ("~.5", 0.5),
            ("p-99", 99.0),
        ] {
            let found = rate_after(&format!("x: {written}\n8"), "x:").unwrap();
            assert!(
                found.is_some_and(|found| (found - number).abs() <= 1e-9 * number),
                "{written}: {found:?}"
            );
        }
    }

    #[test]
    fn times_have_units() {
        for (written, seconds) in [
            ("1.50ms", 1.5e-3),
            ("230 us", 2.3e-4),
            ("7.2 \u{b5}s", 7.2e-6),
            ("900ns", 9e-7),
            ("2s", 2.0),
            ("0.25", 0.25),
            ("1.5m", 90.0),
            ("3 ms, of which 2 waited", 3e-3),
            ("230 microseconds", 2.3e-4),
            ("1.5 milliseconds", 1.5e-3),
            ("1 Second", 1.0),
            ("2 hours", 7200.0),
            ("1m30.5s", 90.5),
            ("1h2m3s", 3723.0),
        ] {
            let found = time_after(&format!("p99: {written}\n"), "p99:").unwrap().unwrap();
            assert!((found - seconds).abs() <= 1e-9 * seconds, "{written}: {found}");
        }
        assert_eq!(time_after("p99:\n1 ms", "p99:"), Ok(None));
    }

    #[test]
    fn what_is_no_rate_or_no_time_is_told() {
        for nothing in ["0", "-5", "-.5", "\u{2212}3 per s"] {
            assert!(rate_after(&format!("x: {nothing}"), "x:").unwrap_err().contains("above 0"), "{nothing}");
        }
        assert!(time_after("x: 5 parsecs", "x:").unwrap_err().contains("'parsecs'"));
        assert!(time_after("x: 1m30 parsecs", "x:").unwrap_err().contains("'parsecs'"));
        assert!(time_after("x: -1 ms", "x:").unwrap_err().contains("below 0"));
        assert_eq!(time_after("x: 0us", "x:"), Ok(Some(0.0)));
    }

    #[test]
    fn a_number_of_the_next_line_is_another_one() {
        assert_eq!(rate_after("rate:\n1234", "rate:"), Ok(None));
        assert_eq!(rate_after("rate: unknown\nruns: 3\nrate: 7\n", "rate:"), Ok(Some(7.0)));
    }
}
