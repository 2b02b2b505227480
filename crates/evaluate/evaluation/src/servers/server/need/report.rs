//! The outcome, for people and as rows.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use forebay_quantity::{bytes, number, percent, seconds, times};
use forebay_results::{Row, Spread, Statement, StatementKind};

use super::{BORNE, Condition, Level, Need, Proof, Rate, Window};
use crate::Error;
use crate::experiments::Knee;
use crate::harness::table::render;
use crate::servers::server::Told;

impl Rate {
    /// The head of its column, and the metric with its unit.
    fn named(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Answers => ("requests/s", "transactions", "1/s"),
            Self::Runs => ("runs/s", "runs", "1/s"),
            Self::Computing => ("computing", "computing", "1"),
        }
    }

    fn shown(self, rate: f64) -> String {
        if self == Self::Computing { percent(rate) } else { number(rate) }
    }
}

/// What is told of a window: the metric, its unit, and the value.
type Quantity = (&'static str, &'static str, fn(&Window) -> Option<f64>);

const TOLD: [Quantity; 3] = [
    ("latency_p99", "s", |window| window.p99_s),
    ("missed_pages", "1/s", |window| Some(window.missed)),
    ("memory_pressure", "1", |window| window.pressure),
];

impl Condition {
    fn case_with(&self, memory: &str) -> String {
        let separator = if self.case.is_empty() { "" } else { "/" };
        format!("{}{separator}memory {memory}", self.case)
    }

    fn table(&self) -> String {
        let (rate, ..) = self.rate.named();
        let rows = by_memory(&self.levels).into_iter().map(|(memory, levels)| {
            let of = |told: fn(&Window) -> Option<f64>| spread(&levels, told).map(|spread| spread.median);
            let shown = |value: Option<f64>, show: fn(f64) -> String| value.map_or("-".into(), show);
            let enough = levels.iter().filter(|level| level.is_enough).count();
            vec![
                memory,
                of(|window| Some(window.rate)).map_or("-".into(), |rate| self.rate.shown(rate)),
                shown(of(|window| window.p99_s), seconds),
                shown(of(|window| Some(window.missed)), number),
                shown(of(|window| window.pressure), percent),
                match (enough, levels.len()) {
                    (0, _) => "no".into(),
                    (enough, all) if enough == all => "yes".into(),
                    (enough, all) => format!("{enough} of {all}"),
                },
            ]
        });
        render(&["memory", rate, "p99", "missed pages/s", "waits for memory", "enough"], rows)
    }

    /// Limits with which it did not work, and why, of each reason the largest.
    fn failures(&self) -> Vec<String> {
        let mut told = BTreeSet::new();
        let failed = by_memory(&self.levels).into_iter().filter_map(|(memory, levels)| {
            let why = levels.iter().find_map(|level| level.window.as_ref().err())?;
            told.insert(why.clone()).then(|| format!("with {memory} it does not work: {why}"))
        });
        failed.collect()
    }

    /// What too little memory does.
    fn what_less_does(&self) -> &'static str {
        let mut short = self.levels.iter().filter(|level| !level.is_enough);
        if short.all(|level| level.window.is_err()) {
            "it does not work"
        } else {
            "pages come back that memory had no room for"
        }
    }

    /// What follows, in sentences.
    fn conclusions(&self) -> Vec<String> {
        let mut said = Vec::new();
        match self.knee {
            Some(Knee { bytes: knee, low_bytes, high_bytes }) => said.push(format!(
                "It needs {}: with less, {} (between {} and {})",
                bytes(knee),
                self.what_less_does(),
                bytes(low_bytes),
                bytes(high_bytes)
            )),
            None => said.push(
                "No limit was found below which pages come back: it needs less than was tried, or more than the machine has"
                    .into(),
            ),
        }
        said.extend(self.proof.as_ref().map(Proof::sentence));
        said
    }
}

/// Levels from much to little memory, those of one limit together.
fn by_memory(levels: &[Level]) -> Vec<(String, Vec<&Level>)> {
    let mut sorted: Vec<&Level> = levels.iter().collect();
    sorted.sort_by(|one, other| other.bytes.total_cmp(&one.bytes));
    let mut all: Vec<(String, Vec<&Level>)> = Vec::new();
    for level in sorted {
        let memory = format!("{:.2} MiB", level.bytes / 1_048_576.0);
        match all.last_mut() {
            Some((last, levels)) if *last == memory => levels.push(level),
            _ => all.push((memory, vec![level])),
        }
    }
    all
}

impl Proof {
    fn sentence(&self) -> String {
        let ratio = |spread: &Spread| {
            format!("{} ({} to {})", times(spread.median), times(spread.min), times(spread.max))
        };
        let pairs = self.rate.runs;
        let p99 = self.p99.as_ref().map(|p99| format!(", p99 is {}", ratio(p99)));
        let within = percent(BORNE - 1.0);
        let begin = if self.holds {
            format!("With {} it stays within {within}", bytes(self.bytes))
        } else {
            format!("With {} it does not stay within {within}", bytes(self.bytes))
        };
        format!(
            "{begin} of what it does with all memory: in {pairs} pairs of fresh runs the rate is {}{}",
            ratio(&self.rate),
            p99.unwrap_or_default()
        )
    }
}

fn spread(levels: &[&Level], of: fn(&Window) -> Option<f64>) -> Option<Spread> {
    let values: Vec<f64> = levels.iter().filter_map(|level| of(level.window.as_ref().ok()?)).collect();
    Spread::of(&values)
}

impl Told for Need {
    fn table(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for condition in &self.conditions {
            let case =
                if condition.case.is_empty() { String::new() } else { format!(", {}", condition.case) };
            let _ = writeln!(text, "\n{}{case}:\n\n{}\n", condition.subject, condition.table());
            for failure in condition.failures() {
                let _ = writeln!(text, "  - {failure}");
            }
            for sentence in condition.conclusions() {
                let _ = writeln!(text, "{sentence}.");
            }
        }
        if let Some(stopped) = &self.stopped {
            let _ = writeln!(text, "\nNot all of it was measured: {stopped}");
        }
        text.trim_end().to_owned()
    }

    fn rows(&self) -> Vec<Row> {
        self.conditions.iter().flat_map(Condition::rows).collect()
    }

    fn statements(&self) -> Vec<Statement> {
        let of = |condition: &Condition| {
            let (subject, case) = (condition.subject.clone(), condition.case.clone());
            let kind = StatementKind::Conclusion;
            let told = condition.conclusions().into_iter();
            told.map(|text| Statement { subject: subject.clone(), case: case.clone(), kind, text })
                .collect::<Vec<_>>()
        };
        self.conditions.iter().flat_map(of).collect()
    }

    fn stopped(self) -> Option<Error> {
        self.stopped
    }
}

impl Condition {
    fn rows(&self) -> Vec<Row> {
        let (_, rate, unit) = self.rate.named();
        let told: [Quantity; 1] = [(rate, unit, |window| Some(window.rate))];
        let of_levels = |case: &str, levels: &[&Level]| {
            let each = told.iter().chain(&TOLD).filter_map(|(metric, unit, of)| {
                Some(Row::of(&self.subject, case, *metric, *unit, spread(levels, *of)?))
            });
            each.collect::<Vec<_>>()
        };
        // Results of several runs name the first alike, which has all memory, and limits differ.
        let (all, _) = self.levels.split_at(self.levels.len().min(1));
        let mut rows = of_levels(&self.case, &all.iter().collect::<Vec<_>>());
        for (memory, levels) in by_memory(&self.levels[all.len()..]) {
            rows.extend(of_levels(&self.case_with(&memory), &levels));
        }
        if let Some(Knee { bytes, low_bytes, high_bytes }) = self.knee {
            let runs = self.levels.len() as u32;
            let knee = Spread { median: bytes, min: low_bytes, max: high_bytes, runs, values: vec![] };
            rows.push(Row::of(&self.subject, &self.case, "need", "B", knee));
        }
        if let Some(proof) = self.proof.as_ref().filter(|proof| proof.holds) {
            rows.push(Row::once(&self.subject, &self.case, "enough", "B", proof.bytes));
            let ratio = |of, spread: &Spread| Row::of(&self.subject, &self.case, of, "1", spread.clone());
            rows.push(ratio("rate_at_enough", &proof.rate));
            rows.extend(proof.p99.as_ref().map(|p99| ratio("latency_p99_at_enough", p99)));
        }
        rows.into_iter().map(|row| row.of_samples(None)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(needed: f64) -> Need {
        let level = |bytes| {
            let window = Window {
                rate: 100.0,
                p99_s: Some(0.01),
                missed: 20.0,
                filled: 0.0,
                seconds: 0.5,
                pressure: Some(0.1),
                used_bytes: bytes,
            };
            Level { bytes, window: Ok(window), is_enough: bytes >= needed }
        };
        let ratio = Spread::of(&[0.98, 0.99, 1.0]).unwrap();
        let proof = Proof { bytes: needed, rate: ratio.clone(), p99: Some(ratio), holds: true };
        let condition = Condition {
            levels: [2.0, 0.7, 1.5].map(|times| level(times * needed)).into(),
            knee: Some(Knee { bytes: needed, low_bytes: 0.9 * needed, high_bytes: 1.1 * needed }),
            proof: Some(proof),
            ..Condition::new("redis", "8 clients".into(), Rate::Answers)
        };
        Need { title: "t".into(), conditions: vec![condition], stopped: None }
    }

    /// Limits are other ones in each run, and what has none is compared.
    #[test]
    fn results_of_several_runs_name_alike_what_has_no_limit_and_count_it_once() {
        let rows = [64e6, 131e6].map(|needed| need(needed).rows());
        let plain = |rows: &[Row]| -> Vec<String> {
            let plain = rows.iter().filter(|row| row.case == "8 clients");
            plain.map(|row| row.metric.clone()).collect()
        };
        let names = [
            "transactions",
            "latency_p99",
            "missed_pages",
            "memory_pressure",
            "need",
            "enough",
            "rate_at_enough",
            "latency_p99_at_enough",
        ];
        assert_eq!(plain(&rows[0]), names);
        assert_eq!(plain(&rows[1]), names);
        assert!(rows.iter().flatten().all(|row| row.of_one_run));
        assert_eq!(rows[0].iter().filter(|row| row.case.contains("memory")).count(), 2 * 4);
        let kinds = need(64e6).statements().into_iter().map(|statement| statement.kind);
        assert_eq!(kinds.collect::<Vec<_>>(), [StatementKind::Conclusion; 2]);
    }
}
