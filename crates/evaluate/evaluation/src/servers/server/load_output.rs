//! The figures in what a load's command prints: a number, or a time, behind its labels.

use crate::experiments::{Prints, TimeUnit};

/// Transactions a second. Of several lines with the labels, the first with a number counts. `None` where none is asked for, and a
/// sentence where there is none, or no rate.
pub(super) fn transactions(text: &str, prints: &Prints) -> Result<Option<f64>, String> {
    if !prints.transactions() {
        return Ok(None);
    }
    let mut rests = behind(text, &prints.transactions_after);
    let found = match &prints.transactions_before {
        Some(label) => rests.find_map(|rest| number_before(rest, label)),
        None => rests.find_map(number_and_rest).map(|(number, rest)| number * multiple(rest)),
    };
    let place = || {
        let after = place(&prints.transactions_after);
        let before = prints.transactions_before.iter().map(|label| format!("before '{label}'"));
        after.into_iter().chain(before).collect::<Vec<_>>().join(" and ")
    };
    match found {
        Some(rate) if rate > 0.0 => Ok(Some(rate)),
        Some(rate) => Err(format!("{} the load prints a rate of {rate}, and a rate is above 0", place())),
        None => Err(format!("{} the load prints no number", place())),
    }
}

/// The p99 in seconds: `1.5ms`, `230 us`, `1m30.5s`, or a number in the unit that is given, such as `0.002`. `None` where it is not
/// asked for, and a sentence where there is none, or no time.
pub(super) fn p99_s(text: &str, prints: &Prints) -> Result<Option<f64>, String> {
    let labels = &prints.p99_after;
    let Some(place) = place(labels) else { return Ok(None) };
    let found = behind(text, labels).find_map(number_and_rest);
    let found = found.ok_or_else(|| "no number".to_owned());
    let time = found.and_then(|(number, rest)| time_s(number, rest, prints.p99_unit));
    time.map(Some).map_err(|what| format!("{place} the load prints {what}"))
}

/// A time, whose unit and further parts are in `rest`.
fn time_s(mut number: f64, mut rest: &str, unit_without: Option<TimeUnit>) -> Result<f64, String> {
    if number < 0.0 {
        return Err(format!("a time of {number}, and no time is below 0"));
    }
    let mut seconds = 0.0;
    loop {
        let trimmed = rest.trim_start();
        let (unit, after) =
            trimmed.split_at(trimmed.find(|char: char| !char.is_alphabetic()).unwrap_or(trimmed.len()));
        if unit.is_empty() {
            return Ok(seconds + number * unit_without.map_or(1.0, |unit| unit.seconds));
        }
        let known: TimeUnit = unit.parse().map_err(|_| {
            format!("a time in '{unit}', which is no unit of time; let it print ns, us, ms, s, min or h")
        })?;
        seconds += number * known.seconds;
        // As Go writes it, the next part begins behind the unit.
        let next = Some(after).filter(|after| after.starts_with(|char: char| char.is_ascii_digit()));
        let Some(next) = next.and_then(number_and_rest) else { return Ok(seconds) };
        (number, rest) = next;
    }
}

/// Where a number is looked for, in words.
fn place(labels: &[String]) -> Option<String> {
    let named: Vec<_> = labels.iter().map(|label| format!("'{label}'")).collect();
    (!named.is_empty()).then(|| format!("behind {}", named.join(" and ")))
}

/// What is behind these labels on each line that has them, one behind the other; whole lines where there is none.
fn behind<'a>(text: &'a str, labels: &'a [String]) -> impl Iterator<Item = &'a str> {
    let (first, others) =
        labels.split_first().map_or(("", labels), |(first, others)| (first.as_str(), others));
    text.lines().flat_map(move |line| {
        let places = line.match_indices(first).map(move |(place, found)| &line[place + found.len()..]);
        let places = places.take(if first.is_empty() { 1 } else { usize::MAX });
        places.filter_map(move |rest| {
            others.iter().try_fold(rest, |rest, label| rest.split_once(label.as_str()).map(|(_, rest)| rest))
        })
    })
}

/// The number right before `label`.
fn number_before(line: &str, label: &str) -> Option<f64> {
    line.match_indices(label).find_map(|(place, _)| {
        let word = line[..place].split_whitespace().next_back()?;
        let (number, rest) = number_and_rest(word)?;
        let multiple = multiple(rest);
        // More than a letter that multiplies is a unit of something else.
        (rest.is_empty() || multiple > 1.0).then_some(number * multiple)
    })
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

    fn rate_after(text: &str, label: &str) -> Result<Option<f64>, String> {
        transactions(text, &Prints { transactions_after: vec![label.to_owned()], ..Prints::default() })
    }

    fn time_after(text: &str, label: &str) -> Result<Option<f64>, String> {
        p99_s(text, &Prints { p99_after: vec![label.to_owned()], ..Prints::default() })
    }

    #[test]
    fn a_number_is_found_behind_its_label() {
        assert_eq!(rate_after("Latency 5ms\nRequests/sec:  1234.50\n", "Requests/sec:"), Ok(Some(1234.5)));
        assert_eq!(rate_after("done in 3.", "done in"), Ok(Some(3.0)));
        assert_eq!(rate_after("done", "done"), Err("behind 'done' the load prints no number".to_owned()));
        assert!(rate_after("", "x").is_err());
        assert_eq!(transactions("done in 3.", &Prints::default()), Ok(None));
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
        assert_eq!(
            time_after("p99:\n1 ms", "p99:"),
            Err("behind 'p99:' the load prints no number".to_owned())
        );
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
        assert!(rate_after("rate:\n1234", "rate:").is_err());
        assert_eq!(rate_after("rate: unknown\nruns: 3\nrate: 7\n", "rate:"), Ok(Some(7.0)));
    }

    /// What `ab`, `h2load` and `k6` print of the same.
    #[test]
    fn figures_of_loads_that_write_them_otherwise_are_read() {
        let labels = |labels: &[&str]| labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>();
        let ab = "Requests per second:    81234.5 [#/sec] (mean)\n\
                  Percentage of the requests served within a certain time (ms)\n  50%      2\n  99%      5\n 100%     10\n";
        let prints = Prints {
            transactions_after: labels(&["Requests per second:"]),
            p99_after: labels(&["99%"]),
            p99_unit: Some("ms".parse().unwrap()),
            ..Prints::default()
        };
        assert_eq!((transactions(ab, &prints), p99_s(ab, &prints)), (Ok(Some(81_234.5)), Ok(Some(0.005))));
        // A unit that is printed counts more.
        assert_eq!(p99_s("99% 7us", &prints), Ok(Some(7e-6)));

        let h2load =
            "progress: 100% done\n\nfinished in 1.23s, 81300.81 req/s, 9.77MB/s\nrequests: 100000 total\n";
        let before = |label: &str| Prints { transactions_before: Some(label.into()), ..Prints::default() };
        assert_eq!(transactions(h2load, &before("req/s")), Ok(Some(81_300.81)));
        let error = transactions(h2load, &before("runs/s")).unwrap_err();
        assert_eq!(error, "before 'runs/s' the load prints no number");
        assert_eq!(transactions("about (81.3k requests a second)", &before(" requests")), Ok(Some(81_300.0)));

        let k6 = "data_received....: 1.3 MB 31 kB/s\nhttp_req_blocked.: med=12.25\u{b5}s p(99)=1.35s\n\
                  http_req_duration: avg=144.56ms p(95)=215.95ms p(99)=1.14s\nhttp_reqs........: 180    4.36938/s\n";
        let prints = Prints {
            transactions_after: labels(&["http_reqs"]),
            p99_after: labels(&["http_req_duration", "p(99)="]),
            ..before("/s")
        };
        assert_eq!((transactions(k6, &prints), p99_s(k6, &prints)), (Ok(Some(4.36938)), Ok(Some(1.14))));
    }
}
