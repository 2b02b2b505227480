//! What an experiment came to, for people and as rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use forebay_experiments::{Limit, Verdict};
use forebay_meter::{Row, Spread, median};

use super::measure::{Figure, Run};
use super::{Cell, Outcome};
use crate::table::{render, seconds};

/// A column of the table: its head, the figure that it shows, and how.
type Column = (&'static str, &'static str, fn(f64) -> String);

/// What was served, and how.
const SERVED: [Column; 11] = [
    ("requests/s", "transactions", number),
    ("Mbit/s", "throughput", number),
    ("p50", "latency_p50", seconds),
    ("p99", "latency_p99", seconds),
    ("late p99", "lateness_p99", seconds),
    ("jitter", "jitter", seconds),
    ("lost/s", "lost", number),
    ("CPU", "cpu", percent),
    ("page faults/s", "page_faults", number),
    ("switches/s", "context_switches", number),
    ("active pages", "active_pages", number),
];

/// What it cost, in all and for what was served.
const COSTS: [Column; 10] = [
    ("CPU/request", "cpu_time_per_request", seconds),
    ("CPU/MB", "cpu_time_per_megabyte", seconds),
    ("reclaims/request", "page_reclaims_per_request", number),
    ("faults/request", "page_faults_per_request", number),
    ("faults/MB", "page_faults_per_megabyte", number),
    ("switches/request", "context_switches_per_request", number),
    ("disk/request", "disk_read_per_request", kibibytes),
    ("cache misses/request", "cache_misses_per_request", number),
    ("files in memory", "files_in_memory", mebibytes),
    ("resident", "resident", mebibytes),
];

impl Cell {
    /// The run of middle speed.
    fn middle(&self) -> Option<&Run> {
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        runs.sort_by(|one, other| speed(one).total_cmp(&speed(other)));
        runs.get(runs.len() / 2).copied()
    }

    /// What most runs say that limits the server here, and how many of them do, knowing a run with more memory, if there is one.
    fn said(&self, with_more_memory: Option<&Run>) -> Option<(Verdict, usize)> {
        let verdict = |run: &Run| match with_more_memory {
            Some(more) => Verdict::knowing(&run.evidence, &more.evidence),
            None => run.verdict.clone(),
        };
        let mut verdicts: Vec<(f64, Verdict)> =
            self.runs.iter().map(|run| (speed(run), verdict(run))).collect();
        let says = |limit: Limit| verdicts.iter().filter(|(_, verdict)| verdict.limit == limit).count();
        let most = verdicts.iter().map(|(_, verdict)| verdict.limit).max_by_key(|limit| says(*limit))?;
        verdicts.retain(|(_, verdict)| verdict.limit == most);
        // The middle one of those speaks for them.
        verdicts.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let agreed = verdicts.len();
        Some((verdicts.swap_remove(agreed / 2).1, agreed))
    }

    /// Whether `other` is the same server under the same load with more memory.
    pub(super) fn has_less_memory_than(&self, other: &Self) -> bool {
        let bytes = |cell: &Self| cell.trial.memory_bytes.unwrap_or(u64::MAX);
        self.trial.server == other.trial.server
            && self.trial.load == other.trial.load
            && bytes(self) < bytes(other)
    }

    pub(super) fn median(&self, metric: &str) -> Option<f64> {
        median(&self.runs.iter().filter_map(|run| run.figure(metric)).collect::<Vec<_>>())
    }
}

impl Outcome {
    /// What limits the server in each cell, and how many of its runs say so.
    #[must_use]
    pub fn verdicts(&self) -> Vec<(Verdict, usize)> {
        let verdict = |cell: &Cell| {
            let more = self.cells.iter().filter(|other| cell.has_less_memory_than(other));
            let most = more.max_by_key(|other| other.trial.memory_bytes.unwrap_or(u64::MAX));
            cell.said(most.and_then(Cell::middle).or(cell.with_all_memory.as_ref()))
        };
        self.cells.iter().filter_map(verdict).collect()
    }

    /// Tables and verdicts.
    #[must_use]
    pub fn table(&self) -> String {
        let runs: Vec<usize> = self.cells.iter().map(|cell| cell.runs.len()).collect();
        let runs = match (runs.iter().min(), runs.iter().max()) {
            (Some(least), Some(most)) if least < most => format!("medians of {least} to {most} runs in turn"),
            (_, Some(most)) if *most > 1 => format!("medians of {most} runs in turn"),
            _ => "one run".to_owned(),
        };
        let (served, costs) = (self.columns(&SERVED, true), self.columns(&COSTS, false));
        let mut text = format!("{}: {runs}\n\n{served}\n\n{costs}\n\n", self.title);
        text += &self.reasons();
        text += &self.undecided();
        text += &self.predictions();
        text += &self.refused();
        if let Some(stopped) = &self.stopped {
            let _ = writeln!(text, "\nNot all of it was measured: {stopped}");
        }
        text.trim_end().to_owned()
    }

    /// The columns that anything was measured for, and behind them the limit, where that is asked for.
    fn columns(&self, columns: &[Column], with_limit: bool) -> String {
        let measured = |metric: &str| self.cells.iter().any(|cell| cell.median(metric).is_some());
        let shown: Vec<&Column> = columns.iter().filter(|(_, metric, _)| measured(metric)).collect();
        let limit = with_limit.then_some("limit");
        let head =
            ["server", "condition"].into_iter().chain(shown.iter().map(|(head, ..)| *head)).chain(limit);
        let rows = self.cells.iter().zip(self.verdicts()).map(|(cell, (verdict, _))| {
            let figures =
                shown.iter().map(|(_, metric, show)| cell.median(metric).map_or_else(|| "-".into(), show));
            let limit = with_limit.then(|| verdict.limit.to_string());
            [cell.trial.subject.clone(), cell.trial.case()].into_iter().chain(figures).chain(limit).collect()
        });
        render(&head.collect::<Vec<_>>(), rows)
    }

    /// Results by the schema.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.cells
            .iter()
            .zip(self.verdicts())
            .flat_map(|(cell, (verdict, agreed))| cell.rows(verdict.limit, agreed))
            .chain(self.predicted_rows())
            .collect()
    }

    fn reasons(&self) -> String {
        let mut text = String::new();
        for (cell, (verdict, agreed)) in self.cells.iter().zip(self.verdicts()) {
            let of = if agreed < cell.runs.len() {
                format!(" ({agreed} of {} runs)", cell.runs.len())
            } else {
                String::new()
            };
            let _ = writeln!(
                text,
                "{}, {}: {} limits{of}.",
                cell.trial.subject,
                cell.trial.case(),
                verdict.limit
            );
            let findings = verdict.findings.iter().map(ToString::to_string);
            for line in verdict.evidence.iter().cloned().chain(findings) {
                let _ = writeln!(text, "  - {line}");
            }
            if let Some(trouble) = cell.runs.iter().find_map(|run| run.trouble.as_ref()) {
                let _ = writeln!(text, "  - {trouble}");
            }
        }
        text
    }

    /// What could not be decided, once each, and in how many conditions.
    fn undecided(&self) -> String {
        let mut undecided: BTreeMap<String, usize> = BTreeMap::new();
        let verdicts = self.verdicts();
        for what in verdicts.iter().flat_map(|(verdict, _)| &verdict.undecided) {
            *undecided.entry(what.clone()).or_default() += 1;
        }
        let lines = undecided.iter().map(|(what, conditions)| match conditions {
            all if *all == verdicts.len() => format!("  - {what}\n"),
            some => format!("  - {what} ({some} of {} conditions)\n", verdicts.len()),
        });
        let lines: String = lines.collect();
        if lines.is_empty() { lines } else { format!("\nNot decided:\n{lines}") }
    }

    /// Counters that could not be had, by the reason.
    fn refused(&self) -> String {
        let mut reasons: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for refused in self.cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.refused) {
            let reason = format!("({}): {}; {}", refused.tier, refused.why, refused.remedy);
            reasons.entry(reason).or_default().insert(&refused.counter);
        }
        let line = |(reason, counters): (String, BTreeSet<&str>)| {
            format!("  - {} {reason}\n", counters.into_iter().collect::<Vec<_>>().join(", "))
        };
        let lines: String = reasons.into_iter().map(line).collect();
        if lines.is_empty() { lines } else { format!("\nRefused:\n{lines}") }
    }
}

impl Cell {
    fn rows(&self, limit: Limit, agreed: usize) -> Vec<Row> {
        let mut series: BTreeMap<&str, (&Figure, Vec<f64>)> = BTreeMap::new();
        for figure in self.runs.iter().flat_map(|run| &run.figures) {
            series.entry(&figure.metric).or_insert_with(|| (figure, vec![])).1.push(figure.value);
        }
        let (subject, case) = (&self.trial.subject, self.trial.case());
        let row = |(figure, values): (&Figure, Vec<f64>)| {
            let spread = Spread::of(&values)?;
            Some(Row::of(subject, &case, &figure.metric, &figure.unit, spread).with_tier(figure.tier))
        };
        let mut rows: Vec<Row> = series.into_values().filter_map(row).collect();
        // Rows have numbers only: the runs that say that this is the limit.
        rows.push(Row::once(subject, &case, format!("limit/{limit}"), "runs", agreed as f64));
        rows
    }
}

fn speed(run: &Run) -> f64 {
    run.figure("transactions").unwrap_or(0.0)
}

/// Three digits, or a whole number.
fn number(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

fn kibibytes(value: f64) -> String {
    format!("{} KiB", number(value / 1024.0))
}

fn mebibytes(value: f64) -> String {
    crate::table::mebibytes(value)
}
