//! What the values tell: levels of caches and translations beside what the system says of them, and the cost of a packet and
//! of a byte of it.

use std::ops::RangeInclusive;

use forebay_probes::{Level, Line, levels, machine};
use forebay_results::Row;

use super::Measured;

/// Bytes of the pages whose translations are measured.
const PAGE_BYTES: f64 = 4096.0;
/// Latencies of which one is so much larger are still alike.
const SAME: f64 = 1.05;
/// A level found is the one that is told of when its size is such a part of that one's.
const ALIKE: RangeInclusive<f64> = 0.5..=1.5;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Caches and memory behind them, by latency on huge pages.
    pub caches: Vec<Beside>,
    /// Buffers of translations, by what they add to the latency of a line.
    pub translations: Vec<Beside>,
    /// Of each way to send or receive, what a packet costs in us.
    pub packets: Vec<(String, Line)>,
}

/// A level that was found, what the system tells of, or both where these are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// What was found.
    pub level: Option<Level>,
    /// The bytes that the system tells.
    pub told: Option<usize>,
}

impl Beside {
    /// Its size, by what was found or else by what is told; none of what lies behind all levels.
    fn bytes(&self) -> Option<f64> {
        self.level.map_or(self.told.map(|told| told as f64), |level| level.capacity)
    }
}

impl Found {
    pub(super) fn of(measured: &[Measured]) -> Self {
        let curve = |subject: &str, side: &str| -> Vec<(f64, f64)> {
            let points = measured.iter().filter(|one| one.subject == subject).filter_map(|one| {
                let (amount, this) = one.case.split_once('/')?;
                (this == side).then_some((quantity(amount)?, one.settled.values.median))
            });
            points.collect()
        };
        let told: Vec<usize> = machine::caches().iter().map(|cache| cache.bytes).collect();
        let caches = beside(levels(&curve("latency", "huge pages")), &told);
        let (apart, together) =
            (curve("latency of a line", "a page each"), curve("latency of a line", "together"));
        let told: Vec<usize> = machine::translations().iter().map(|buffer| buffer.bytes).collect();
        let translations = beside(levels(&of_translations(&apart, &together)), &told);
        let mut ways: Vec<String> = Vec::new();
        for one in measured.iter().filter(|one| one.metric == "packet_cost") {
            if !ways.contains(&one.subject) {
                ways.push(one.subject.clone());
            }
        }
        let line = |way: String| {
            let own = measured.iter().filter(|one| one.subject == way);
            let costs: Vec<_> =
                own.filter_map(|one| Some((quantity(&one.case)?, one.settled.values.median))).collect();
            Line::through(&costs).map(|line| (way, line))
        };
        Self { caches, translations, packets: ways.into_iter().filter_map(line).collect() }
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (what, levels) in [("cache", &self.caches), ("translations", &self.translations)] {
            for (number, Beside { level, told }) in levels.iter().enumerate() {
                let subject = format!("{what} level {}", number + 1);
                let mut row =
                    |case, metric, unit, value| rows.push(Row::once(&subject, case, metric, unit, value));
                if let Some(level) = level {
                    row("found", "latency", "ns", level.latency);
                }
                if let Some(capacity) = level.and_then(|level| level.capacity) {
                    row("found", "capacity", "B", capacity);
                }
                if let Some(told) = told {
                    row("told by the system", "capacity", "B", *told as f64);
                }
            }
        }
        for (way, line) in &self.packets {
            rows.push(Row::once(way, "fit", "cost_of_a_packet", "us", line.each));
            rows.push(Row::once(way, "fit", "cost_of_a_byte", "ns", line.per_byte * 1e3));
        }
        rows
    }
}

/// Latencies by bytes of pages: that of the first lines together, and what lines on pages of their own take more than together.
/// Where they take less, something else disturbed one of the two.
fn of_translations(apart: &[(f64, f64)], together: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let Some(&(_, least)) = together.first() else { return Vec::new() };
    let both = apart.iter().filter_map(|&(lines, latency)| {
        let (_, alone) = together.iter().find(|(other, _)| *other == lines)?;
        (*alone <= latency * SAME).then(|| (lines * PAGE_BYTES, least + (latency - alone).max(0.0)))
    });
    both.collect()
}

/// Each level with what is told of one of about its size, by size.
fn beside(found: Vec<Level>, told: &[usize]) -> Vec<Beside> {
    if found.is_empty() {
        return Vec::new();
    }
    let mut told = told.to_vec();
    let mut all: Vec<Beside> = found
        .into_iter()
        .map(|level| {
            let alike =
                |told: &usize| level.capacity.is_some_and(|found| ALIKE.contains(&(found / *told as f64)));
            let told = told.iter().position(alike).map(|place| told.remove(place));
            Beside { level: Some(level), told }
        })
        .collect();
    all.extend(told.into_iter().map(|told| Beside { level: None, told: Some(told) }));
    let size = |one: &Beside| one.bytes().unwrap_or(f64::INFINITY);
    all.sort_by(|one, other| size(one).total_cmp(&size(other)));
    all
}

/// `64 KiB` in bytes, `16 lines` as their number.
pub(crate) fn quantity(amount: &str) -> Option<f64> {
    let (number, unit) = amount.split_once(' ')?;
    let number: f64 = number.parse().ok()?;
    Some(match unit {
        "MiB" => number * 1_048_576.0,
        "KiB" => number * 1024.0,
        _ => number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_probes::{Probe, Settled};
    use forebay_results::Spread;

    fn measured(subject: &str, case: String, metric: &'static str, value: f64) -> Measured {
        let settled = Settled { values: Spread::of(&[value]).unwrap(), spread: 0.0, settled: true };
        Measured { probe: Probe::Latency, subject: subject.into(), case, metric, unit: "ns", settled }
    }

    #[test]
    fn what_translations_cost_is_told_from_what_caches_cost() {
        // A cache of 512 lines, and a buffer of 64 translations.
        let lines = (4..=15).map(|power| 1 << power);
        let all: Vec<Measured> = lines
            .flat_map(|lines: u32| {
                let cache = if lines <= 512 { 1.5 } else { 4.5 };
                let translation = if lines <= 64 { 0.0 } else { 3.0 };
                let disturbed = if lines == 1 << 15 { 50.0 } else { 0.0 };
                [("together", cache + disturbed), ("a page each", cache + translation)].map(
                    |(side, value)| {
                        measured("latency of a line", format!("{lines} lines/{side}"), "latency", value)
                    },
                )
            })
            .collect();
        let found = Found::of(&all);
        let capacities: Vec<_> =
            found.translations.iter().filter_map(|one| Some(one.level?.capacity)).collect();
        assert_eq!(capacities, [Some(64.0 * 4096.0), None]);
    }

    #[test]
    fn what_is_told_lies_beside_what_is_like_it_or_alone() {
        let level = |capacity, latency| Level { capacity, latency };
        let found = vec![level(Some(44e3), 2.0), level(Some(5e6), 30.0), level(None, 120.0)];
        let told = beside(found, &[48_000, 2_000_000, 100_000_000]);
        let pairs: Vec<_> = told.iter().map(|one| (one.level.map(|level| level.latency), one.told)).collect();
        assert_eq!(
            pairs,
            [
                (Some(2.0), Some(48_000)),
                (None, Some(2_000_000)),
                (Some(30.0), None),
                (None, Some(100_000_000)),
                (Some(120.0), None)
            ]
        );
        assert_eq!(beside(vec![], &[48_000]), []);
    }

    #[test]
    fn packets_have_a_cost_each_and_a_cost_for_each_byte() {
        let costs = [64, 1024, 8192].map(|bytes| {
            measured("UDP sendto", format!("{bytes} B"), "packet_cost", 2.0 + 0.001 * f64::from(bytes))
        });
        let found = Found::of(&costs);
        let rows = found.rows();
        assert_eq!(rows.len(), 2);
        assert!((rows[0].value - 2.0).abs() < 1e-9 && (rows[1].value - 1.0).abs() < 1e-9, "{rows:?}");
        assert_eq!(Found::of(&[]), Found::default());
    }

    #[test]
    fn amounts_of_cases_are_numbers() {
        let all = ["64 B", "4 KiB", "2 MiB", "16 lines"].map(|amount| quantity(amount).unwrap());
        assert_eq!(all, [64.0, 4096.0, 2_097_152.0, 16.0]);
        assert_eq!(quantity("fit"), None);
    }
}
