//! One program on all sides of a comparison, in turn: each side's time, and whether the results are the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use forebay_lab::SlowDisk;
use forebay_results::Row;

use crate::harness::command::{Invocation, RunResult};
use crate::harness::interrupt::Interrupt;
use crate::harness::statistics::{Series, stall_removed};
use crate::run::account::{Account, Accountant};
use crate::run::counters::{Counters, take_totals};
use crate::run::programs::{Program, Workload};
use crate::{Error, harness::metric};

/// No run of an experiment takes longer.
const RUN_LIMIT: Duration = Duration::from_secs(900);

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// As it is, with its data cold.
    Original,
    /// Under `forebay run`, with its data cold.
    Forebay,
    /// As it is once more, with its data cold: what chance makes of a comparison.
    Control,
    /// With hints written by hand, with its data cold.
    Hinted,
    /// As it is, with all of its data in memory.
    Warm,
}

impl Side {
    /// The sides of a comparison in the order of the first round; each cold run leaves the data warm for the last.
    pub const ALL: [Self; 4] = [Self::Original, Self::Forebay, Self::Hinted, Self::Warm];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Forebay => "forebay",
            Self::Control => "control",
            Self::Hinted => "hinted",
            Self::Warm => "warm",
        }
    }
}

/// What was measured of one program.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The program.
    pub program: Program,
    /// One sentence for each run whose output, status or file differed from the first run's.
    pub differences: Vec<String>,
    /// What `forebay run` counted.
    pub counters: Counters,
    /// The most files of which some pages stayed in memory before a cold run.
    pub files_not_cold: usize,
    /// What the kernel accounted to the program on the sides without Forebay, where that was asked for.
    pub accounts: BTreeMap<Side, Accounts>,
    times: BTreeMap<Side, Series>,
}

impl Measured {
    pub(crate) fn new(program: Program) -> Self {
        Self {
            program,
            differences: Vec::new(),
            counters: Counters::default(),
            files_not_cold: 0,
            accounts: BTreeMap::new(),
            times: BTreeMap::new(),
        }
    }

    /// Elapsed seconds of a side, one value a round.
    pub fn elapsed_s(&self, side: Side) -> Series {
        self.times.get(&side).cloned().unwrap_or_default()
    }

    /// Original over Forebay, round by round.
    pub fn speedup(&self) -> Series {
        self.elapsed_s(Side::Original).per_round_ratio(&self.elapsed_s(Side::Forebay))
    }

    /// The share of the original's stall time that is gone, from the medians; `None` where there is hardly any.
    pub fn stall_removed(&self) -> Option<f64> {
        let median = |side| self.elapsed_s(side).median();
        stall_removed(median(Side::Original), median(Side::Forebay), median(Side::Warm))
    }

    /// Whether every run of every side gave the same output, exit status and file.
    pub fn identical(&self) -> bool {
        self.differences.is_empty()
    }

    /// What a reader of the figures must know: a sentence each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let differences =
            self.differences.iter().map(|difference| format!("{}: {difference}.", self.program));
        let not_cold = (self.files_not_cold > 0).then(|| {
            let files = self.files_not_cold;
            format!(
                "{}: up to {files} files could not be made cold, so cold runs may be too fast.",
                self.program
            )
        });
        differences.chain(not_cold).collect()
    }

    /// Rows by the result schema, cases named `DISK/SIDE`.
    pub fn rows(&self, disk: &str) -> Vec<Row> {
        let subject = self.program.name();
        let case = |side: Side| format!("{disk}/{}", side.name());
        let row = |side, metric: &str, unit: &str, series: &Series| {
            series.spread().map(|spread| Row::of(subject, case(side), metric, unit, spread))
        };
        let times = self.times.iter().map(|(&side, series)| row(side, metric::ELAPSED, "s", series));
        let assisted = case(Side::Forebay);
        let counters = self.counters.rows(subject, &assisted);
        let accounts = self.accounts.iter().flat_map(|(&side, accounts)| {
            accounts.named().map(|(metric, unit, series)| row(side, metric, unit, series))
        });
        let speedup = [row(Side::Forebay, "speedup", "1", &self.speedup())];
        let once = |metric, value| Row::once(subject, &assisted, metric, "1", value);
        let stall = self.stall_removed().map(|share| once("stall_removed", share));
        let identical = once("output_identical", f64::from(u8::from(self.identical())));
        let measured = times.chain(speedup).chain(accounts).flatten();
        measured.chain(counters).chain(stall).chain([identical]).collect()
    }
}

/// What the kernel accounted to a program and to those of its children that it waited for, one value a round.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// The most memory that one process had at any time.
    pub max_rss_bytes: Series,
    /// Page faults for which nothing was read.
    pub minor_faults: Series,
    /// Page faults that waited for a device.
    pub major_faults: Series,
}

impl Accounts {
    fn push(&mut self, account: &Account) {
        self.max_rss_bytes.push(account.max_rss_bytes);
        self.minor_faults.push(account.minor_faults);
        self.major_faults.push(account.major_faults);
    }

    /// Metric, unit and values.
    fn named(&self) -> [(&'static str, &'static str, &Series); 3] {
        [
            (metric::MAX_RSS, "B", &self.max_rss_bytes),
            (metric::MINOR_FAULTS, "1", &self.minor_faults),
            (metric::MAJOR_FAULTS, "1", &self.major_faults),
        ]
    }
}

/// What the runs of a comparison share.
pub(crate) struct Bench<'a> {
    pub(crate) disk: &'a SlowDisk,
    /// The `forebay` program.
    pub(crate) forebay: &'a Path,
    /// A folder that is not on the slow disk.
    pub(crate) scratch: &'a Path,
    pub(crate) interrupt: &'a Interrupt,
    /// Asks the kernel for accounts of the sides without Forebay, which keeps its own.
    pub(crate) accountant: Option<&'a Accountant>,
}

/// How a run ended, and the digest of the file that it wrote.
pub(crate) type Seen = (RunResult, Option<[u8; 32]>);

/// One program on a bench, with the result that all of its runs must have.
pub(crate) struct Comparison<'a> {
    bench: &'a Bench<'a>,
    workload: Workload,
    first: Option<Seen>,
    measured: Measured,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(bench: &'a Bench<'a>, workload: Workload) -> Self {
        let measured = Measured::new(workload.program);
        Self { bench, workload, first: None, measured }
    }

    pub(crate) fn program(&self) -> Program {
        self.workload.program
    }

    pub(crate) fn finish(self) -> Measured {
        self.measured
    }

    /// Runs the program once on `side`, if it has that, and keeps what was seen.
    pub(crate) fn run(&mut self, side: Side) -> Result<(), Error> {
        if side == Side::Hinted && self.workload.hinted.is_none() {
            return Ok(());
        }
        let Bench { disk, scratch, interrupt, accountant, .. } = *self.bench;
        if side != Side::Warm {
            let evicted = disk.make_cold()?;
            self.measured.files_not_cold = self.measured.files_not_cold.max(evicted.resident.len());
            self.warm_executables()?;
        }
        self.workload.output.remove()?;
        let statistics = scratch.join("statistics.json");
        let plain = &self.workload.plain;
        let invocation = match side {
            Side::Original | Side::Control | Side::Warm => plain.clone(),
            Side::Forebay => self.assisted(plain, &statistics),
            Side::Hinted => self.workload.hinted.as_ref().unwrap_or(plain).clone(),
        };
        let accountant = accountant.filter(|_| side != Side::Forebay);
        let started = accountant.map(|accountant| accountant.attend(&invocation, None));
        let ran = started.as_ref().unwrap_or(&invocation).run(scratch, RUN_LIMIT, interrupt)?;
        let result = (ran.result, self.workload.output.digest());
        match &self.first {
            None if result.0.status.code() != Some(self.workload.status_expected) => {
                let status = result.0.status.to_string();
                return Err(Error::Failed {
                    command: invocation.to_string(),
                    status,
                    stderr: ran.stderr_end,
                });
            }
            None => self.first = Some(result),
            Some(first) if *first != result => {
                self.measured.differences.push(difference(side.name(), first, &result, &ran.stderr_end));
            }
            Some(_) => {}
        }
        self.measured.times.entry(side).or_default().push(ran.elapsed.as_secs_f64());
        if let Some(accountant) = accountant {
            self.measured.accounts.entry(side).or_default().push(&accountant.take()?);
        }
        if side == Side::Forebay {
            self.keep_counters(&statistics);
        }
        Ok(())
    }

    fn assisted(&self, plain: &Invocation, statistics: &Path) -> Invocation {
        let head =
            [self.bench.forebay.as_os_str(), "run".as_ref(), "--json".as_ref(), statistics.as_os_str()];
        plain.behind(head.into_iter().chain(["--no-profile".as_ref(), "--".as_ref()]))
    }

    /// Cold is the data, on every side alike: programs and libraries, Forebay's own among them, are read before the
    /// clock starts.
    fn warm_executables(&self) -> Result<(), Error> {
        let Bench { forebay, scratch, interrupt, .. } = *self.bench;
        let assisted = self.workload.idle.behind([
            forebay.as_os_str(),
            "run".as_ref(),
            "--no-profile".as_ref(),
            "--".as_ref(),
        ]);
        for invocation in [&self.workload.idle, &assisted] {
            invocation.run(scratch, RUN_LIMIT, interrupt)?;
        }
        Ok(())
    }

    /// A run without statistics is a run all the same: then there are none to show.
    fn keep_counters(&mut self, statistics: &Path) {
        for row in take_totals(statistics) {
            self.measured.counters.push(row.metric, row.unit, row.value);
        }
    }
}

/// A sentence on a run of the side named `side`.
pub(crate) fn difference(side: &str, first: &Seen, other: &Seen, stderr_end: &str) -> String {
    let what = if first.0.status != other.0.status {
        format!("ended with {} instead of {}", other.0.status, first.0.status)
    } else if first.1 != other.1 {
        "wrote another file".to_owned()
    } else {
        "printed something else".to_owned()
    };
    let said = if stderr_end.is_empty() { String::new() } else { format!(" (standard error: {stderr_end})") };
    format!("a run of the side {side} {what}{said}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::rounds::in_turn;

    #[test]
    fn no_side_always_comes_behind_the_same_one() {
        let rounds: Vec<_> = (1..=3).map(|round| in_turn(&Side::ALL, round)).collect();
        let mut backwards = Side::ALL;
        backwards.reverse();
        assert_eq!(rounds, [Side::ALL, backwards, Side::ALL]);
        // The first run of all settles what the result has to be.
        assert_eq!(rounds[0][0], Side::Original);
    }
}
