//! Times in requests and responses (XML Schema Part 2, sections 3.2.6 and 3.2.7).

use core::time::Duration;

use forebay_rtsp::range::SECOND_NS;

/// When times begin.
const BEGIN: &str = "1970-01-01T00:00:00Z";
const DAY_NS: u64 = 86_400 * SECOND_NS;
/// What the parts of a duration last; those behind the `T`, and those before it. A client of cameras counts no long months.
const PARTS: [[(char, u64); 3]; 2] = [
    [('H', 3_600 * SECOND_NS), ('M', 60 * SECOND_NS), ('S', SECOND_NS)],
    [('Y', 365 * DAY_NS), ('M', 30 * DAY_NS), ('D', DAY_NS)],
];

/// A time since 1970 as `2026-11-26T20:00:00.000Z`.
pub(super) fn date(unix_ns: u64) -> String {
    let begin = humantime::parse_rfc3339(BEGIN).ok();
    let time = begin.and_then(|begin| begin.checked_add(Duration::from_nanos(unix_ns)));
    time.map(|time| humantime::format_rfc3339_millis(time).to_string()).unwrap_or_default()
}

/// A date as a time since 1970.
pub(super) fn unix_ns(text: &str) -> Option<u64> {
    let begin = humantime::parse_rfc3339(BEGIN).ok()?;
    // Some clients say no zone, and mean UTC.
    let time = humantime::parse_rfc3339_weak(text.strip_suffix("+00:00").unwrap_or(text)).ok()?;
    u64::try_from(time.duration_since(begin).ok()?.as_nanos()).ok()
}

/// A duration such as `PT1M30S`, in nanoseconds.
pub(super) fn duration_ns(text: &str) -> Option<u64> {
    let text = text.strip_prefix('P')?;
    let (days, clock) = text.split_once('T').unwrap_or((text, ""));
    let sum_ns = parts_ns(days, &PARTS[1])?.saturating_add(parts_ns(clock, &PARTS[0])?);
    (days.len() + clock.len() > 0).then_some(sum_ns)
}

/// The sum of parts, each at most once and in their order.
fn parts_ns(mut text: &str, mut units: &[(char, u64)]) -> Option<u64> {
    let mut sum_ns = 0_u64;
    while !text.is_empty() {
        let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?;
        let place = units.iter().position(|(name, _)| text[end..].starts_with(*name))?;
        let count: f64 = text[..end].parse().ok()?;
        // What is more than 64 bits hold is as much as they hold.
        sum_ns = sum_ns.saturating_add((count * units[place].1 as f64) as u64);
        (text, units) = (&text[end + 1..], &units[place + 1..]);
    }
    Some(sum_ns)
}

/// How long from now on is asked for, as a duration or as a date by the clock that shows `now_unix_ns`.
pub(super) fn from_now_ns(text: &str, now_unix_ns: u64) -> Option<u64> {
    duration_ns(text).or_else(|| unix_ns(text)?.checked_sub(now_unix_ns)).filter(|ns| *ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_dates_are_read_as_clients_write_them() {
        for (text, seconds) in
            [("PT60S", 60), ("PT1M", 60), ("PT0H10M0S", 600), ("P1DT1H", 90_000), ("P1Y", 365 * 86_400)]
        {
            assert_eq!(duration_ns(text), Some(seconds * SECOND_NS), "{text}");
        }
        assert_eq!(duration_ns("PT0.25S"), Some(SECOND_NS / 4));
        assert_eq!(duration_ns("PT99999999999999999999S"), Some(u64::MAX));
        for text in
            ["", "P", "PT", "60", "PT60", "PTS", "PT1S1M", "PT1M1M", "-PT1S", "PT-1S", "PTä", "PT1.1.1S"]
        {
            assert_eq!(duration_ns(text), None, "{text}");
        }
        let now_ns = unix_ns("2026-11-26T20:00:00Z").expect("a date");
        for text in ["2026-11-26T20:01:00Z", "2026-11-26T20:01:00", "2026-11-26T20:01:00+00:00", "PT1M"] {
            assert_eq!(from_now_ns(text, now_ns), Some(60 * SECOND_NS), "{text}");
        }
        assert!(
            from_now_ns("2026-11-26T19:59:59Z", now_ns).is_none() && from_now_ns("PT0S", now_ns).is_none()
        );
        assert_eq!(date(now_ns + 7_000_000), "2026-11-26T20:00:00.007Z");
    }
}
