//! The outcome of an experiment, for people and as rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::experiments::{Limit, Verdict};
use forebay_results::{Row, Spread, Statement, StatementKind, median};

use super::run::{Figure, Run};
use super::{Cell, Outcome, Told};
use crate::Error;
use crate::harness::table::render_named_by;
use forebay_quantity::{bytes, number, percent, seconds};

/// A column of the table: its head, the figure that it shows, and how.
type Column = (&'static str, &'static str, fn(f64) -> String);

/// What was served, and how.
const SERVED: [Column; 12] = [
    ("requests/s", "transactions", number),
    ("Mbit/s", "throughput", number),
    ("p50", "latency_p50", seconds),
    ("p99", "latency_p99", seconds),
    ("late p99", "lateness_p99", seconds),
    ("jitter", "jitter", seconds),
    ("lost/s", "lost", number),
    ("failed/s", "failed", number),
    ("CPU", "cpu", of_hundred),
    ("major faults/s", "major_faults", number),
    ("switches/s", "context_switches", number),
    ("active pages", "active_pages", number),
];

/// What it cost, in all and for what was served.
const COSTS: [Column; 10] = [
    ("CPU/request", "cpu_time_per_request", seconds),
    ("CPU/MB", "cpu_time_per_megabyte", seconds),
    ("minor faults/request", "minor_faults_per_request", number),
    ("major faults/request", "major_faults_per_request", number),
    ("major faults/MB", "major_faults_per_megabyte", number),
    ("switches/request", "context_switches_per_request", number),
    ("disk/request", "disk_read_per_request", bytes),
    ("cache misses/request", "cache_misses_per_request", number),
    ("files in memory", "files_in_memory", bytes),
    ("resident", "resident", bytes),
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
        let verdict = |run: &Run| {
            let verdict = match with_more_memory {
                Some(more) => Verdict::knowing(&run.evidence, &more.evidence),
                None => run.verdict.clone(),
            };
            run.knowing_fewer_clients(verdict, self.with_fewer_clients.as_ref())
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

    /// Whether `other` is the same server under the same load, whatever memory they have.
    pub(super) fn differs_in_memory_at_most(&self, other: &Self) -> bool {
        self.trial.server == other.trial.server && self.trial.load == other.trial.load
    }

    pub(super) fn median(&self, metric: &str) -> Option<f64> {
        median(&self.runs.iter().filter_map(|run| run.figure(metric)).collect::<Vec<_>>())
    }
}

impl Told for Outcome {
    fn table(&self) -> String {
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

    fn rows(&self) -> Vec<Row> {
        self.cells
            .iter()
            .zip(self.verdicts())
            .flat_map(|(cell, (verdict, agreed))| cell.rows(verdict.limit, agreed))
            .chain(self.predicted_rows())
            .collect()
    }

    fn statements(&self) -> Vec<Statement> {
        let of_cell = |(cell, (verdict, _)): (&Cell, (Verdict, usize))| {
            let says = |kind, text: String| Statement {
                subject: cell.trial.subject.clone(),
                case: cell.trial.case(),
                kind,
                text,
            };
            let mut statements = vec![says(StatementKind::Limit, verdict.limit_with_name())];
            let findings = verdict.findings.iter().map(ToString::to_string);
            statements.extend(verdict.evidence.into_iter().map(|text| says(StatementKind::Reason, text)));
            statements.extend(findings.map(|text| says(StatementKind::Finding, text)));
            statements.extend(verdict.undecided.into_iter().map(|text| says(StatementKind::Undecided, text)));
            statements
        };
        self.cells.iter().zip(self.verdicts()).flat_map(of_cell).collect()
    }

    fn attached_s(&self) -> f64 {
        self.attached_s
    }

    fn stopped(self) -> Option<Error> {
        self.stopped
    }
}

impl Outcome {
    /// A run of the same with all memory: one of the experiment's own, or else one that was made to compare with.
    fn with_all_memory(&self, cell: &Cell) -> Option<&Run> {
        let alike = || self.cells.iter().filter(|other| cell.differs_in_memory_at_most(other));
        let own = alike().find(|other| other.trial.memory_bytes.is_none()).and_then(Cell::middle);
        own.or_else(|| alike().find_map(|other| other.with_all_memory.as_ref()))
    }

    /// What limits the server in each cell, and how many of its runs say so.
    #[must_use]
    pub fn verdicts(&self) -> Vec<(Verdict, usize)> {
        let verdict =
            |cell: &Cell| cell.said(cell.trial.memory_bytes.and_then(|_| self.with_all_memory(cell)));
        self.cells.iter().filter_map(verdict).collect()
    }

    /// The columns that anything was measured for, and behind them the limit, where that is asked for.
    fn columns(&self, columns: &[Column], with_limit: bool) -> String {
        let measured = |metric: &str| self.cells.iter().any(|cell| cell.median(metric).is_some());
        let shown: Vec<&Column> = columns.iter().filter(|(_, metric, _)| measured(metric)).collect();
        let limit = with_limit.then_some("limit");
        let is_of_loads = self.cells.iter().all(|cell| cell.trial.load.is_one_transaction());
        let named = |head: &str| if is_of_loads { head.replace("request", "load") } else { head.to_owned() };
        let named: Vec<String> = shown.iter().map(|(head, ..)| named(head)).collect();
        let head = ["server", "condition"].into_iter().chain(named.iter().map(String::as_str)).chain(limit);
        let rows = self.cells.iter().zip(self.verdicts()).map(|(cell, (verdict, _))| {
            let figures =
                shown.iter().map(|(_, metric, show)| cell.median(metric).map_or_else(|| "-".into(), show));
            let limit = with_limit.then(|| verdict.limit_with_name());
            [cell.trial.subject.clone(), cell.trial.case()].into_iter().chain(figures).chain(limit).collect()
        });
        render_named_by(2, &head.collect::<Vec<_>>(), rows)
    }

    fn reasons(&self) -> String {
        let mut text = String::new();
        for (cell, (verdict, agreed)) in self.cells.iter().zip(self.verdicts()) {
            let of = if agreed < cell.runs.len() {
                format!(" ({agreed} of {} runs)", cell.runs.len())
            } else {
                String::new()
            };
            let says = verdict.limit_in_words();
            let _ = writeln!(text, "{}, {}: {says}{of}.", cell.trial.subject, cell.trial.case());
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

/// A value that is in per cent already.
fn of_hundred(value: f64) -> String {
    percent(value / 100.0)
}

#[cfg(test)]
mod tests {
    use crate::experiments::{Evidence, Load, Prints, Threads};

    use super::*;
    use crate::servers::server::Options;

    /// Three runs at each level of memory, of a server that is busy and reads again what it had, and one with all memory.
    fn outcome(requests_with_all: f64) -> Outcome {
        let run = |requests: f64, read_bytes| {
            Run::told_by(Evidence {
                seconds: 3.0,
                processors: 2.0,
                requests,
                in_flight: Some(16.0),
                threads: Some(Threads { processor: 6.0, idle: 63.0, ..Threads::default() }),
                processor_s: Some(3.6),
                disk_read_bytes: Some(read_bytes),
                served_of_bytes: Some(64e6),
                ..Evidence::default()
            })
        };
        let set = ["servers=apache", "document=10K", "memory=24M,16M"].map(str::to_owned);
        let description = Options::read("web".as_ref(), &set).unwrap().description;
        let mut cells: Vec<Cell> = description
            .trials()
            .into_iter()
            .map(|trial| {
                let runs = [36e3, 38e3, 40e3].map(|requests| run(requests, 400e6)).into();
                Cell { trial, runs, with_all_memory: None, with_fewer_clients: None }
            })
            .collect();
        cells[0].with_all_memory = Some(run(requests_with_all, 0.0));
        Outcome { title: String::new(), cells, stopped: None, costs: None, attached_s: 0.0 }
    }

    #[test]
    fn a_load_that_does_not_say_what_it_makes_is_counted_in_loads() {
        let head = |transactions_after: Option<&str>| {
            let mut outcome = outcome(40e3);
            for cell in &mut outcome.cells {
                let transactions_after = transactions_after.into_iter().map(str::to_owned).collect();
                cell.trial.load = Load::Command {
                    arguments: vec![],
                    with_fewer_clients: BTreeMap::new(),
                    prints: Prints { transactions_after, ..Prints::default() },
                };
            }
            let table = outcome.table();
            (table.contains("loads/s"), table.contains("requests/s"))
        };
        assert_eq!((head(None), head(Some("rate:"))), ((true, false), (false, true)));
    }

    #[test]
    fn all_runs_at_all_levels_are_judged_by_what_more_memory_does() {
        let limits = |outcome: &Outcome| -> Vec<(Limit, usize)> {
            outcome.verdicts().into_iter().map(|(verdict, agreed)| (verdict.limit, agreed)).collect()
        };
        let short = outcome(66e3);
        assert!(short.cells.iter().all(|cell| cell.runs.iter().all(Run::may_lack_memory)));
        assert_eq!(limits(&short), [(Limit::VirtualMemory, 3); 2]);
        assert!(short.table().contains("with more memory it answers 1.7 times"), "{}", short.table());
        assert!(short.rows().iter().any(|row| row.metric == "limit/virtual memory" && row.value == 3.0));
        assert_eq!(limits(&outcome(40e3)), [(Limit::Processor, 3); 2]);
    }
}
