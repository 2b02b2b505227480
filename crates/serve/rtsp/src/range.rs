//! The `Range` header (RFC 2326, sections 3.5 to 3.7 and 12.29): from where to where to play.

use thiserror::Error;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// How positions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// From the beginning of the presentation.
    Npt,
    /// From 1 January 1970, UTC.
    Clock,
}

/// A part of a presentation, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// How its positions are counted.
    pub unit: Unit,
    /// Where it begins. `None`: where the presentation stands.
    pub from_ns: Option<u64>,
    /// Where it ends. `None`: where the presentation does.
    pub until_ns: Option<u64>,
}

/// A range that cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a Range is npt=FROM-UNTIL, clock=FROM-UNTIL or smpte=FROM-UNTIL")]
pub struct Unreadable;

impl Range {
    /// SMPTE time codes become normal play time. A missing unit is forgiven (`0.000-`), as is a missing dash.
    pub fn parse(header: &str) -> Result<Self, Unreadable> {
        let range = header.split(';').next().unwrap_or_default().trim();
        let (unit, range) = range.split_once('=').unwrap_or(("npt", range));
        let (from, until) = range.split_once('-').unwrap_or((range, ""));
        let (unit, position): (_, fn(&str) -> Option<u64>) = match unit.trim().to_ascii_lowercase().as_str() {
            "npt" => (Unit::Npt, npt),
            "clock" => (Unit::Clock, clock),
            "smpte" | "smpte-30-drop" => (Unit::Npt, smpte_drop),
            "smpte-25" => (Unit::Npt, smpte_25),
            _ => return Err(Unreadable),
        };
        let end = |text: &str| match text.trim() {
            "" | "now" => Ok(None),
            text => position(text).map(Some).ok_or(Unreadable),
        };
        // An end before 1970 is one that GStreamer counts from 1900, since the description counts from 0.
        let until_ns = end(until)?.filter(|until_ns| unit == Unit::Npt || *until_ns > 0);
        Ok(Self { unit, from_ns: end(from)?, until_ns })
    }
}

impl std::fmt::Display for Range {
    /// To the microsecond.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (unit, write): (_, fn(u64) -> String) = match self.unit {
            Unit::Npt => ("npt", npt_text),
            Unit::Clock => ("clock", clock_text),
        };
        let from = self.from_ns.map_or("now".to_owned(), write);
        write!(to, "{unit}={from}-{}", self.until_ns.map(write).unwrap_or_default())
    }
}

/// `12.5`, `1:02:03.5`; minutes alone before the seconds are forgiven.
fn npt(text: &str) -> Option<u64> {
    let (whole, fraction_ns) = fraction(text)?;
    let mut seconds = 0u64;
    for part in whole.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(digits(part)?)?;
    }
    let has_place = whole.split(':').count() <= 3;
    seconds.checked_mul(SECOND_NS)?.checked_add(fraction_ns).filter(|_| has_place)
}

fn npt_text(ns: u64) -> String {
    format!("{}.{:06}", ns / SECOND_NS, ns % SECOND_NS / 1000)
}

/// `10:07:33:05.01`: hours, minutes, seconds, frames and hundredths of a frame. Of 30 numbers in a second the first two
/// are left out in each minute but every tenth, for 29.97 frames in a second.
fn smpte_drop(text: &str) -> Option<u64> {
    let (minutes, seconds, frames, hundredths) = time_code(text)?;
    let dropped = 2 * (minutes - minutes / 10);
    let number = (minutes * 60 + seconds) * 30 + frames;
    // 30000 / 1001 frames in a second.
    Some((number.saturating_sub(dropped) * 100 + hundredths) * 1_001_000 / 3)
}

fn smpte_25(text: &str) -> Option<u64> {
    let (minutes, seconds, frames, hundredths) = time_code(text)?;
    Some((minutes * 60 + seconds) * SECOND_NS + (frames * 100 + hundredths) * (SECOND_NS / 2500))
}

fn time_code(text: &str) -> Option<(u64, u64, u64, u64)> {
    let mut parts = text.split(':');
    let mut next = || parts.next().map(|part| part.split_once('.').unwrap_or((part, "")));
    let mut small = |least: u64| {
        let (whole, rest) = next().unwrap_or(("0", ""));
        Some((digits(whole).filter(|value| *value < least)?, digits(rest).unwrap_or(0).min(99)))
    };
    let minutes = small(10_000)?.0 * 60 + small(60)?.0;
    let seconds = small(60)?.0;
    let (frames, hundredths) = small(30)?;
    parts.next().is_none().then_some((minutes, seconds, frames, hundredths))
}

/// `19961108T143720.25Z`.
fn clock(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix(['Z', 'z']).unwrap_or(text).split_once(['T', 't'])?;
    let (time, fraction_ns) = fraction(time)?;
    let part = |text: &str, at: usize, bytes: usize| digits(text.get(at..at + bytes)?);
    if date.len() != 8 || time.len() != 6 {
        return None;
    }
    let (year, month, day) = (part(date, 0, 4)?, part(date, 4, 2)?, part(date, 6, 2)?);
    let (hour, minute, second) = (part(time, 0, 2)?, part(time, 2, 2)?, part(time, 4, 2)?);
    let days =
        (1..=12).contains(&month).then(|| days_before(year, month))?.checked_add(day.checked_sub(1)?)?;
    let is_time = day <= 31 && hour < 24 && minute < 60 && second <= 60;
    // Nothing was recorded so early, but GStreamer asks for what begins in 1900.
    let Some(days) = days.checked_sub(EPOCH_DAYS) else { return is_time.then_some(0) };
    let seconds = (days * 24 + hour) * 3600 + minute * 60 + second;
    seconds.checked_mul(SECOND_NS)?.checked_add(fraction_ns).filter(|_| is_time)
}

fn clock_text(ns: u64) -> String {
    let seconds = ns / SECOND_NS;
    let days = seconds / 86_400 + EPOCH_DAYS;
    // A year too late at most.
    let mut year = days / 365;
    while days_before(year, 1) > days {
        year -= 1;
    }
    let month = (1..=12).rev().find(|month| days_before(year, *month) <= days).unwrap_or(1);
    let day = days - days_before(year, month) + 1;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let micros = ns % SECOND_NS / 1000;
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{micros:06}Z")
}

/// Days from 1 January of the year 0 to 1 January 1970.
const EPOCH_DAYS: u64 = 719_528;

/// Days from 1 January of the year 0 to the first of a month, by the Gregorian calendar.
fn days_before(year: u64, month: u64) -> u64 {
    const BEFORE_MONTH: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    // The year 0 is one of them.
    let leap_years_before = |year: u64| year.div_ceil(4) - year.div_ceil(100) + year.div_ceil(400);
    let leap_day = if month > 2 { leap_years_before(year + 1) - leap_years_before(year) } else { 0 };
    year * 365 + leap_years_before(year) + BEFORE_MONTH[month as usize - 1] + leap_day
}

/// The text before the dot, and what follows it in nanoseconds.
fn fraction(text: &str) -> Option<(&str, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nine: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    Some((whole, digits(&nine)?))
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = SECOND_NS / 1000;

    fn npt(from_ms: Option<u64>, until_ms: Option<u64>) -> Range {
        Range { unit: Unit::Npt, from_ns: from_ms.map(|ms| ms * MS), until_ns: until_ms.map(|ms| ms * MS) }
    }

    #[test]
    fn ranges_are_read_as_clients_write_them() {
        for (text, expected) in [
            ("npt=10-", npt(Some(10_000), None)),
            ("npt=10.5-20.25", npt(Some(10_500), Some(20_250))),
            ("NPT = 0.000 - ", npt(Some(0), None)),
            ("0.000-", npt(Some(0), None)),
            ("npt=0", npt(Some(0), None)),
            ("npt=now-", npt(None, None)),
            ("npt=-20", npt(None, Some(20_000))),
            ("npt=1:02:03.004-;time=19970123T143720Z", npt(Some(3_723_004), None)),
            ("npt=02:03-", npt(Some(123_000), None)),
            ("smpte-25=0:00:10:05.50-", npt(Some(10_220), None)),
            // The ten minutes of which nine lose two numbers each: 17,982 frames.
            ("smpte=00:10:00:00-", npt(Some(599_999), None)),
        ] {
            let range = Range::parse(text)
                .map(|range| Range { from_ns: range.from_ns.map(|ns| ns / MS * MS), ..range });
            assert_eq!(range, Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "npt=x-",
            "npt=1:2:3:4-",
            "npt=-1-2-",
            "npt=99999999999999999999-",
            "npt=18446744073709551615-",
            "bytes=0-1",
            "clock=1997-",
            "clock=19971301T000000Z-",
            "clock=19970132T000000Z-",
            "clock=1997é101T000000Z-",
            "smpte=1:2:3:4:5-",
            "smpte=1:60:00-",
        ] {
            assert_eq!(Range::parse(text), Err(Unreadable), "{text}");
        }
    }

    #[test]
    fn clock_positions_are_of_the_calendar() {
        for (text, seconds) in [
            ("19700101T000000.000000Z", 0),
            ("19961108T142300.000000Z", 847_462_980),
            ("20000229T235959.000000Z", 951_868_799),
            ("20240301T000000.000000Z", 1_709_251_200),
            ("21000301T000000.000000Z", 4_107_542_400),
        ] {
            let range = Range { unit: Unit::Clock, from_ns: Some(seconds * SECOND_NS), until_ns: None };
            assert_eq!(Range::parse(&format!("clock={text}-")), Ok(range));
            assert_eq!(range.to_string(), format!("clock={text}-"));
        }
        let early = Range { unit: Unit::Clock, from_ns: Some(0), until_ns: None };
        for text in ["clock=19000101T000000Z-", "clock=19000101T000000Z-19000101T000004.5Z"] {
            assert_eq!(Range::parse(text), Ok(early));
        }
    }

    proptest::proptest! {
        #[test]
        fn a_range_that_was_written_is_read_as_it_was(
            from in proptest::option::of(0..400 * 365 * 86_400 * 1_000_000u64),
            until in proptest::option::of(0..400 * 365 * 86_400 * 1_000_000u64),
            is_clock: bool,
        ) {
            let unit = if is_clock { Unit::Clock } else { Unit::Npt };
            let range = Range { unit, from_ns: from.map(|us| us * 1000), until_ns: until.map(|us| us * 1000) };
            proptest::prop_assert_eq!(Range::parse(&range.to_string()), Ok(range));
        }
    }
}
