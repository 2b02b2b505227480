//! The number, or the time, behind a label in what a load's command prints.

/// The number behind `label`, on the same line. Of several such lines, the first with a number counts.
pub(super) fn number_after(text: &str, label: &str) -> Option<f64> {
    let mut behind = text.match_indices(label).map(|(place, found)| &text[place + found.len()..]);
    behind.find_map(|rest| first_number(rest.lines().next()?))
}

/// The time behind `label` in seconds, on the same line: `1.5ms`, `230 us` or `0.002`.
pub(super) fn time_after(text: &str, label: &str) -> Option<f64> {
    let mut behind = text.match_indices(label).map(|(place, found)| &text[place + found.len()..]);
    let (number, unit) = behind.find_map(|rest| number_and_rest(rest.lines().next()?))?;
    let unit: String = unit.trim_start().chars().take_while(|char| char.is_alphabetic()).collect();
    let unit_s = match unit.as_str() {
        "ns" => 1e-9,
        "us" | "\u{b5}s" | "\u{3bc}s" | "usec" => 1e-6,
        "ms" | "msec" => 1e-3,
        "m" | "min" => 60.0,
        _ => 1.0,
    };
    Some(number * unit_s)
}

/// The first number of a line: `1234.5`, `12,345.6`, `1.2e+04` or `12.3k`.
fn first_number(line: &str) -> Option<f64> {
    let (number, rest) = number_and_rest(line)?;
    Some(number * multiple(rest))
}

/// The first number of a line, without a letter that multiplies it, and what is behind it.
fn number_and_rest(line: &str) -> Option<(f64, &str)> {
    let rest = &line[line.find(|char: char| char.is_ascii_digit())?..];
    let (whole, rest) = digits(rest);
    let (whole, rest) = grouped(whole, rest);
    let (fraction, rest) = match rest.strip_prefix(['.', ',']).map(digits) {
        Some((fraction, rest)) if !fraction.is_empty() => (fraction, rest),
        _ => ("0", rest),
    };
    let (exponent, rest) = exponent(rest).unwrap_or(("0", rest));
    let number: f64 = format!("{whole}.{fraction}e{exponent}").parse().ok()?;
    Some((number, rest))
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
        assert_eq!(number_after("Latency 5ms\nRequests/sec:  1234.50\n", "Requests/sec:"), Some(1234.5));
        assert_eq!(number_after("done in 3.", "done in"), Some(3.0));
        assert_eq!(number_after("done", "done"), None);
        assert_eq!(number_after("", "x"), None);
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
        ] {
            let found = number_after(&format!("x: {written}\n8"), "x:");
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
        ] {
            let found = time_after(&format!("p99: {written}\n"), "p99:").unwrap();
            assert!((found - seconds).abs() <= 1e-9 * seconds, "{written}: {found}");
        }
        assert_eq!(time_after("p99:\n1 ms", "p99:"), None);
    }

    #[test]
    fn a_number_of_the_next_line_is_another_one() {
        assert_eq!(number_after("rate:\n1234", "rate:"), None);
        assert_eq!(number_after("rate: unknown\nruns: 3\nrate: 7\n", "rate:"), Some(7.0));
    }
}
