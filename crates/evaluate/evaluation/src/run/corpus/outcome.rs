//! What was measured of the corpus, and what follows from it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use forebay_quantity::{seconds, times};
use forebay_results::Row;

use super::case::{Case, Need};
use super::reason::{Reason, reason};
use crate::harness::metric;
use crate::harness::statistics::Series;
use crate::run::comparison::Side;
use crate::run::counters::Counters;
use crate::{Error, Profile};

/// From this speedup on a program counts as helped.
pub const HELPED: f64 = 1.2;
/// Below this speedup a program counts as harmed.
pub const HARMED: f64 = 0.97;
/// A program that stalls for more than this share of its time is one that should be helped.
pub const STALLED: f64 = 0.5;
/// The speedup that such programs should have at least.
pub const STALLED_HELPED: f64 = 1.3;

/// What was measured of one command line.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The command line.
    pub case: &'static Case,
    /// One sentence for each run that differed from the first.
    pub differences: Vec<String>,
    /// What `forebay run` counted.
    pub counters: Counters,
    /// The most files of which some pages stayed in memory before a cold run.
    pub files_not_cold: usize,
    times: BTreeMap<Side, Series>,
}

impl Measured {
    pub(super) fn new(case: &'static Case) -> Self {
        Self {
            case,
            differences: Vec::new(),
            counters: Counters::default(),
            files_not_cold: 0,
            times: BTreeMap::new(),
        }
    }

    pub(super) fn push_elapsed(&mut self, side: Side, elapsed: Duration) {
        self.times.entry(side).or_default().push(elapsed.as_secs_f64());
    }

    /// Elapsed seconds of a side, one value a round.
    pub fn elapsed_s(&self, side: Side) -> Series {
        self.times.get(&side).cloned().unwrap_or_default()
    }

    /// Alone over with, round by round.
    pub fn speedups(&self) -> Series {
        self.elapsed_s(Side::Original).per_round_ratio(&self.elapsed_s(Side::Forebay))
    }

    /// The median time alone over the median time with.
    pub fn speedup(&self) -> f64 {
        self.figures(Side::Forebay).speedup
    }

    /// The longest run with, over the median time alone.
    pub fn worst(&self) -> f64 {
        self.figures(Side::Forebay).worst
    }

    /// A side beside the program alone.
    pub fn figures(&self, side: Side) -> Figures {
        let (alone, times) = (self.elapsed_s(Side::Original).median(), self.elapsed_s(side));
        let longest = times.values().iter().copied().fold(f64::NAN, f64::max);
        Figures { speedup: alone / times.median(), worst: longest / alone, stall_share: self.stall_share() }
    }

    /// The share of the time alone that is gone when everything is in memory: with the shortest such run, since a busy machine
    /// only ever adds time. No number where nothing stays in memory.
    pub fn stall_share(&self) -> f64 {
        let cold = self.elapsed_s(Side::Original).median();
        let warm = self.elapsed_s(Side::Warm).values().iter().copied().fold(f64::NAN, f64::min);
        let share = (cold - warm) / cold;
        if share < 0.0 { 0.0 } else { share }
    }

    /// Why it is not helped; `None` where it is.
    pub fn reason(&self) -> Option<Reason> {
        (self.speedup() < HELPED).then(|| reason(self.stall_share(), &self.counters))
    }

    /// A line for people who wait.
    pub fn line(&self) -> String {
        let [alone, with] = [Side::Original, Side::Forebay].map(|side| self.elapsed_s(side).median());
        let why = self.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let (alone, with, speedup) = (seconds(alone), seconds(with), times(self.speedup()));
        format!("{}: {alone} alone, {with} with, {speedup}{why}", self.case.name)
    }

    fn rows(&self, disk: &str) -> Vec<Row> {
        let subject = self.case.name;
        let case = |side: Side| format!("{disk}/{}", side.name());
        let assisted = case(Side::Forebay);
        let times = self.times.iter().filter_map(|(&side, series)| {
            Some(Row::of(subject, case(side), metric::ELAPSED, "s", series.spread()?))
        });
        let speedups = self.speedups().spread();
        let speedups = speedups.map(|spread| Row::of(subject, &assisted, "speedup", "1", spread));
        let once = |metric, value| Row::once(subject, &assisted, metric, "1", value);
        let figures = [
            once("speedup_of_medians", self.speedup()),
            once("worst_run", self.worst()),
            once("share_stalled", self.stall_share()),
            once("output_identical", f64::from(u8::from(self.differences.is_empty()))),
        ];
        let figures = figures.into_iter().filter(|row| row.value.is_finite());
        times.chain(speedups).chain(figures).chain(self.counters.rows(subject, &assisted)).collect()
    }
}

/// A command line that could not be measured.
#[derive(Debug)]
pub struct Failed {
    /// The command line.
    pub case: &'static Case,
    /// What happened.
    pub why: Error,
}

/// A command line that was left out.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The command line.
    pub case: &'static Case,
    /// What is not installed.
    pub missing: Vec<Need>,
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    /// The disk.
    pub profile: Profile,
    /// Whether each program ran alone twice a round.
    pub controlled: bool,
    /// The folder of tools.
    pub tools: PathBuf,
    /// What was measured, in the order of the corpus.
    pub measured: Vec<Measured>,
    /// What could not be.
    pub failed: Vec<Failed>,
    /// What was left out.
    pub left_out: Vec<LeftOut>,
    /// Why there is not all of it.
    pub stopped: Option<Error>,
}

impl Outcome {
    /// Whether nothing failed, and every run of a command line gave the same.
    pub fn agrees(&self) -> bool {
        self.failed.is_empty() && self.measured.iter().all(|measured| measured.differences.is_empty())
    }

    /// What the speedups are together.
    pub fn summary(&self) -> Summary {
        self.summary_of(Side::Forebay)
    }

    /// What the same figures are by chance, where each program ran alone once more.
    pub fn by_chance(&self) -> Option<Summary> {
        self.controlled.then(|| self.summary_of(Side::Control))
    }

    fn summary_of(&self, side: Side) -> Summary {
        Summary::of(&self.measured.iter().map(|one| one.figures(side)).collect::<Vec<_>>())
    }

    /// Rows by the result schema, cases named `DISK/SIDE`; those of all command lines together have the subject `corpus`.
    pub fn rows(&self) -> Vec<Row> {
        if self.measured.is_empty() && self.failed.is_empty() {
            return Vec::new();
        }
        let disk = self.profile.to_string();
        let assisted = format!("{disk}/{}", Side::Forebay.name());
        let control = format!("{disk}/{}", Side::Control.name());
        let measured = self.measured.iter().flat_map(|measured| measured.rows(&disk));
        let failed =
            self.failed.iter().map(|failed| Row::once(failed.case.name, &assisted, "failed", "1", 1.0));
        let by_chance = self.by_chance().map(|summary| summary.rows(&control)).unwrap_or_default();
        measured.chain(failed).chain(self.summary().rows(&assisted)).chain(by_chance).collect()
    }
}

/// Of one command line, what a summary takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// The median time alone over that of the side.
    pub speedup: f64,
    /// The longest run of the side, over the median time alone.
    pub worst: f64,
    /// The share of the time alone that is stall.
    pub stall_share: f64,
}

/// The speedups of all command lines together. Of none, shares and means are no numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many command lines.
    pub measured: usize,
    /// Of their speedups.
    pub geometric_mean: f64,
    /// The share with a speedup of more than [`HELPED`].
    pub helped: f64,
    /// The share with a speedup below [`HARMED`].
    pub harmed: f64,
    /// The longest run, over the median time alone, of all.
    pub worst: f64,
    /// How many stall for more than [`STALLED`] of their time.
    pub stalled: usize,
    /// Of the speedups of these.
    pub stalled_geometric_mean: f64,
    /// The share of these with a speedup of at least [`STALLED_HELPED`].
    pub stalled_helped: f64,
}

impl Summary {
    /// Of these command lines.
    pub fn of(figures: &[Figures]) -> Self {
        let speedups = |of: &dyn Fn(&Figures) -> bool| -> Vec<f64> {
            figures.iter().filter(|one| of(one)).map(|one| one.speedup).collect()
        };
        let all = speedups(&|_| true);
        let stalled = speedups(&|one| one.stall_share > STALLED);
        Self {
            measured: all.len(),
            geometric_mean: geometric_mean(&all),
            helped: share(&all, |speedup| speedup > HELPED),
            harmed: share(&all, |speedup| speedup < HARMED),
            worst: figures.iter().map(|one| one.worst).fold(f64::NAN, f64::max),
            stalled: stalled.len(),
            stalled_geometric_mean: geometric_mean(&stalled),
            stalled_helped: share(&stalled, |speedup| speedup >= STALLED_HELPED),
        }
    }

    fn rows(&self, case: &str) -> Vec<Row> {
        let figures = [
            ("measured", self.measured as f64),
            ("geometric_mean", self.geometric_mean),
            ("share_helped", self.helped),
            ("share_harmed", self.harmed),
            ("worst_run", self.worst),
            ("stalled", self.stalled as f64),
            ("stalled_geometric_mean", self.stalled_geometric_mean),
            ("share_stalled_helped", self.stalled_helped),
        ];
        let finite = figures.into_iter().filter(|(_, value)| value.is_finite());
        finite.map(|(metric, value)| Row::once("corpus", case, metric, "1", value)).collect()
    }
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

fn share(values: &[f64], of: impl Fn(f64) -> bool) -> f64 {
    values.iter().filter(|&&value| of(value)).count() as f64 / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::corpus::cases;

    fn figures(speedup: f64, worst: f64, stall_share: f64) -> Figures {
        Figures { speedup, worst, stall_share }
    }

    #[test]
    fn a_summary_counts_who_is_helped_and_who_is_harmed() {
        let summary = Summary::of(&[
            figures(8.0, 0.2, 0.9),
            figures(1.0, 1.1, 0.1),
            figures(0.5, 2.5, 0.6),
            figures(1.25, 0.9, 0.5),
        ]);
        assert_eq!((summary.measured, summary.stalled), (4, 2));
        assert!((summary.geometric_mean - 5f64.powf(0.25)).abs() < 1e-12);
        assert!((summary.stalled_geometric_mean - 2.0).abs() < 1e-12);
        assert_eq!((summary.helped, summary.harmed, summary.worst), (0.5, 0.25, 2.5));
        assert_eq!(summary.stalled_helped, 0.5);
    }

    #[test]
    fn the_bounds_themselves_are_neither_help_nor_harm() {
        let summary = Summary::of(&[figures(HELPED, 1.0, 0.0), figures(HARMED, 1.0, STALLED)]);
        assert_eq!((summary.helped, summary.harmed, summary.stalled), (0.0, 0.0, 0));
        assert_eq!(Summary::of(&[figures(STALLED_HELPED, 1.0, 0.6)]).stalled_helped, 1.0);
    }

    #[test]
    fn of_no_command_line_there_is_no_mean() {
        let none = Summary::of(&[]);
        assert!(none.measured == 0 && none.geometric_mean.is_nan() && none.helped.is_nan());
    }

    #[test]
    fn figures_are_those_of_medians_and_the_worst_that_of_one_run() {
        let mut measured = Measured::new(&cases::all()[0]);
        let times = [
            (Side::Original, [2.0, 4.0, 6.0]),
            (Side::Forebay, [1.0, 2.0, 5.0]),
            (Side::Control, [5.0, 5.0, 8.0]),
            (Side::Warm, [1.0, 3.0, 3.0]),
        ];
        for (side, times) in times {
            times.iter().for_each(|&time| measured.push_elapsed(side, Duration::from_secs_f64(time)));
        }
        assert_eq!((measured.speedup(), measured.worst(), measured.stall_share()), (2.0, 1.25, 0.75));
        assert_eq!(measured.figures(Side::Control), figures(0.8, 2.0, 0.75));
        assert_eq!(measured.reason(), None);
    }

    #[test]
    fn where_nothing_is_ever_warm_no_stall_is_told() {
        let mut measured = Measured::new(&cases::all()[0]);
        for side in [Side::Original, Side::Forebay] {
            measured.push_elapsed(side, Duration::from_secs(2));
        }
        assert!(measured.stall_share().is_nan());
        assert!(!measured.reason().unwrap().to_string().contains("of its time"));
        assert!(measured.rows("remote").iter().all(|row| row.value.is_finite()));
        assert_eq!(Summary::of(&[measured.figures(Side::Forebay)]).stalled, 0);
    }
}
