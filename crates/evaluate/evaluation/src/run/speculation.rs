//! The published comparison of speculative prefetching, with today's programs: original, speculating, hinted by hand; and
//! programs that wait in ways that were not published.
//!
//! K. Fraser and F. Chang, "Operating System I/O Speculation: How Two Invocations Are Faster Than One", USENIX 2003;
//! F. Chang and G. Gibson, "Automatic I/O Hint Generation through Speculative Execution", OSDI 1999.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_lab::{FileSystem, Profile, SlowDisk};
use forebay_results::Row;

use crate::harness::guests::Guests;
use crate::harness::interrupt::Interrupt;
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::harness::table::{percent_or_dash, render, times_spread, yes_no};
use crate::run::account::Accountant;
use crate::run::comparison::{Bench, Comparison, Measured, Side};
use crate::run::programs::{Program, Scale, Workload};
use crate::run::rounds::{as_far_as_it_went, in_turn, rounds};
use crate::{Error, Progress, scratch_folder};
use forebay_quantity::{bytes, seconds, times};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk that the data lies on.
    pub profile: Profile,
    /// The file system on it, where it is a device.
    pub file_system: FileSystem,
    /// The programs, in the order they are run.
    pub programs: Vec<Program>,
    /// Rounds; each runs every side once.
    pub runs: usize,
    /// How much the programs have to do.
    pub scale: Scale,
    /// The `forebay` program.
    pub forebay: PathBuf,
}

impl Options {
    /// All programs at the published scale, in five rounds.
    pub fn new(profile: Profile, forebay: PathBuf) -> Self {
        Self {
            profile,
            file_system: FileSystem::Ext4,
            programs: Program::ALL.to_vec(),
            runs: 5,
            scale: Scale::of(profile),
            forebay,
        }
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    /// The disk.
    pub profile: Profile,
    /// The file system on it, where it is a device.
    pub file_system: FileSystem,
    /// One entry a program.
    pub measured: Vec<Measured>,
    /// Why there is not all of it.
    pub stopped: Option<Error>,
}

/// Runs the comparison. Nothing of it is left behind, however it ends; what was measured until something stopped it is in
/// the outcome. A difference between the sides is there too: it is not an error.
///
/// # Errors
///
/// A program or a right that is missing, or a program that fails by itself or an interrupt before the first round of the
/// first program is over.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    measure(options, sides(options.profile), false, progress)
}

fn sides(profile: Profile) -> &'static [Side] {
    if profile.stays_warm() { &Side::ALL } else { &[Side::Original, Side::Forebay, Side::Hinted] }
}

/// Runs every program on `sides`, in turn, with the kernel's accounts of it if `accounted`; as far as that goes.
pub(crate) fn measure(
    options: &Options,
    sides: &[Side],
    accounted: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    options.programs.iter().try_for_each(|program| program.check_installed())?;
    let mut steps = Steps::new(options.programs.len() * (1 + options.runs * sides.len()), progress);

    let scratch = scratch_folder()?;
    let guests = Guests::unpack(scratch.path())?;
    let disk = SlowDisk::with_file_system(options.profile, options.file_system, options.scale.room_bytes())?;
    let accountant = Accountant::new(&guests.accounted, scratch.path());
    let bench = Bench {
        disk: &disk,
        forebay: &options.forebay,
        scratch: scratch.path(),
        interrupt: &interrupt,
        accountant: accounted.then_some(&accountant),
    };
    let mut measured = Vec::new();
    let all = options.programs.iter().try_for_each(|&program| {
        steps.begin(format!("{program}: writing the data"));
        let prepare = |disk: &Path| {
            let data = empty_folder(disk)?;
            Workload::prepare(program, options.scale, &data, scratch.path(), &guests, &interrupt)
        };
        let mut comparison = Comparison::new(&bench, disk.fill(prepare)??);
        let (any, all) = rounds(options.runs, |round| {
            in_turn(sides, round).into_iter().try_for_each(|side| {
                steps.begin(format!("{program}: round {round} of {}, {}", options.runs, side.name()));
                comparison.run(side)
            })
        });
        measured.extend(any.then(|| comparison.finish()));
        all
    });
    steps.end(&all);
    let (measured, stopped) = as_far_as_it_went(measured, all)?;
    Ok(Outcome { profile: options.profile, file_system: options.file_system, measured, stopped })
}

/// Where a program's data go on the disk, without those of the one before.
fn empty_folder(disk: &Path) -> Result<PathBuf, Error> {
    let folder = disk.join("data");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Error::file("remove", &folder))?;
    }
    fs::create_dir(&folder).map_err(Error::file("create", &folder))?;
    Ok(folder)
}

impl Outcome {
    /// Rows by the result schema.
    pub fn rows(&self) -> Vec<Row> {
        self.measured.iter().flat_map(|measured| measured.rows(&self.disk())).collect()
    }

    /// What results call the disk: the profile, and the file system where it is not ext4.
    pub(crate) fn disk(&self) -> String {
        match self.file_system {
            FileSystem::Ext4 => self.profile.to_string(),
            other => format!("{}/{other}", self.profile),
        }
    }

    /// Whether every run of every program gave the same output, exit status and file.
    pub fn identical(&self) -> bool {
        self.measured.iter().all(Measured::identical)
    }
}

/// Medians beside the published figures, what Forebay counted, and every difference found.
pub fn table(outcome: &Outcome) -> String {
    let measured = &outcome.measured;
    let mut parts = vec![times_table(outcome)];
    parts.extend(counters_table(measured));
    parts.extend(measured.iter().flat_map(Measured::remarks));
    parts.join("\n\n")
}

fn times_table(outcome: &Outcome) -> String {
    let disk = format!("on {}", outcome.disk());
    let header = [
        disk.as_str(),
        "original",
        "forebay",
        "by hand",
        "warm",
        "speedup (min - max)",
        "stall removed",
        "output identical",
        "1999: original",
        "speculating",
        "by hand",
        "speedup",
    ];
    let rows = outcome.measured.iter().map(|measured| {
        let median = |side| seconds(measured.elapsed_s(side).median());
        let published = measured.program.published();
        let mut cells = vec![measured.program.to_string()];
        cells.extend(Side::ALL.map(median));
        cells.extend([
            times_spread(measured.speedup().spread()),
            percent_or_dash(measured.stall_removed()),
            yes_no(measured.identical()),
        ]);
        cells.extend(published.map_or_else(
            || ["-", "-", "-", "-"].map(str::to_owned),
            |published| {
                [
                    seconds(published.original_s),
                    seconds(published.speculating_s),
                    seconds(published.hinted_s),
                    times(published.original_s / published.speculating_s),
                ]
            },
        ));
        cells
    });
    render(&header, rows)
}

/// What was counted at all; `None` where no run left statistics.
fn counters_table(measured: &[Measured]) -> Option<String> {
    let names: BTreeSet<_> = measured.iter().flat_map(|measured| measured.counters.counted()).collect();
    if names.is_empty() {
        return None;
    }
    let header: Vec<&str> = ["forebay counted"]
        .into_iter()
        .chain(measured.iter().map(|measured| measured.program.name()))
        .collect();
    let rows = names.into_iter().map(|(metric, unit)| {
        let value = |measured: &Measured| {
            let median = measured.counters.get(metric).map(Series::median);
            median.map_or_else(|| "-".to_owned(), |value| shown(value, unit))
        };
        [metric.to_owned()].into_iter().chain(measured.iter().map(value)).collect()
    });
    Some(render(&header, rows))
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "s" => seconds(value),
        "us" => seconds(value / 1e6),
        "ns" => seconds(value / 1e9),
        "1" => format!("{value:.0}"),
        "B" => bytes(value),
        _ => format!("{value:.0} {unit}"),
    }
}
