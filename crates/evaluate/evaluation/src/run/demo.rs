//! Real programs without and with Forebay, on this machine, in little more than a minute.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_lab::{Profile, SlowDisk};
use forebay_results::Row;
use rustix::process::geteuid;

use crate::harness::guests::Guests;
use crate::harness::interrupt::Interrupt;
use crate::harness::random::Random;
use crate::harness::table::{percent_or_dash, render, times_spread, yes_no};
use crate::run::comparison::{Bench, Comparison, Measured, Side};
use crate::run::dataset::array;
use crate::run::programs::{Program, Scale, Workload};
use crate::{Error, Progress, scratch_folder};
use forebay_quantity::seconds;

/// The sides shown, in the order of a round.
const SIDES: [Side; 3] = [Side::Original, Side::Forebay, Side::Warm];
const ROUNDS_MAX: usize = 5;
const ARRAY_BYTES: u64 = 256 << 20;
const FILES: usize = 3_000;
const OBJECTS: usize = 562;

/// How long the demonstration may take and what it may use.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `forebay` program.
    pub forebay: PathBuf,
    /// No round is started that would end after this.
    pub budget: Duration,
    /// Whether to use the slow disk as well, which takes root.
    pub slow_disk: bool,
    /// How much the programs have to do; `None` fits it to this machine's disk.
    pub scale: Option<Scale>,
}

impl Options {
    /// 75 seconds, and the slow disk for root.
    pub fn new(forebay: PathBuf) -> Self {
        Self { forebay, budget: Duration::from_secs(75), slow_disk: geteuid().is_root(), scale: None }
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One entry a disk and program.
    pub measured: Vec<(Profile, Measured)>,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

/// Runs the demonstration. Nothing of it is left behind, however it ends.
///
/// # Errors
///
/// No place for the data, a program that fails by itself, or an interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    let mut stage = Stage { options, started: Instant::now(), interrupt: &interrupt, progress };
    let mut outcome = Outcome { measured: Vec::new(), skipped: Vec::new() };
    let programs: Vec<Program> = Program::PUBLISHED
        .into_iter()
        .filter(|program| match program.check_installed() {
            Ok(()) => true,
            Err(missing) => {
                outcome.skipped.push(format!("{}: {missing}", program.description()));
                false
            }
        })
        .collect();
    let local_share = if options.slow_disk { 0.4 } else { 1.0 };
    let scale = match options.scale {
        Some(scale) => scale,
        None => fitted_scale(read_seconds(&interrupt)?),
    };
    let local = stage.play(Profile::Local, scale, &programs, 0.0, local_share)?;
    outcome.measured.extend(local.into_iter().map(|measured| (Profile::Local, measured)));
    if options.slow_disk {
        let scale = options.scale.unwrap_or_else(|| fitted_scale(0.001));
        match stage.play(Profile::Ssd1Ms, scale, &programs, local_share, 1.0) {
            Ok(slow) => outcome.measured.extend(slow.into_iter().map(|measured| (Profile::Ssd1Ms, measured))),
            Err(Error::Rig(missing)) => {
                outcome.skipped.push(format!("the disk with a latency of 1 ms: {missing}"))
            }
            Err(error) => return Err(error),
        }
    } else {
        outcome.skipped.push("the disk with a latency of 1 ms, which takes root".to_owned());
    }
    stage.tell(1.0, "done");
    Ok(outcome)
}

/// As much as takes a few seconds on a disk where one random read takes `read_s`.
fn fitted_scale(read_s: f64) -> Scale {
    const READS_S: f64 = 3.0;
    let reads = (READS_S / read_s) as usize;
    // A disk that turns takes tens of milliseconds a file.
    let shrink = if read_s > 0.004 { 6 } else { 1 };
    Scale {
        files: FILES / shrink,
        objects: OBJECTS / shrink.min(2),
        array_bytes: ARRAY_BYTES,
        reads: reads.clamp(300, 20_000),
        ..Scale::of(Profile::Local)
    }
}

/// How long this machine's disk takes for a random read: the median of a few.
fn read_seconds(interrupt: &Interrupt) -> Result<f64, Error> {
    const PROBE_BYTES: u64 = 64 << 20;
    const PROBES: usize = 41;
    let disk = SlowDisk::start(Profile::Local, PROBE_BYTES)?;
    let path = disk.mount_point().join("probe");
    array::write(&path, PROBE_BYTES).map_err(Error::file("write", &path))?;
    disk.make_cold()?;
    interrupt.check()?;
    probe(&path, PROBE_BYTES, PROBES).map_err(Error::file("read", &path))
}

fn probe(path: &Path, bytes: u64, probes: usize) -> std::io::Result<f64> {
    let file = File::open(path)?;
    let mut random = Random::new(bytes);
    let mut page = [0; 4096];
    let mut times = Vec::new();
    for _ in 0..probes {
        let offset = random.below(bytes as usize / page.len()) * page.len();
        let started = Instant::now();
        file.read_exact_at(&mut page, offset as u64)?;
        times.push(started.elapsed().as_secs_f64());
    }
    Ok(forebay_results::median(&times).unwrap_or_default())
}

struct Stage<'a> {
    options: &'a Options,
    started: Instant,
    interrupt: &'a Interrupt,
    progress: &'a mut dyn FnMut(Progress),
}

impl Stage<'_> {
    fn tell(&mut self, share: f64, doing: impl Into<String>) {
        (self.progress)(Progress::before(share, doing));
    }

    /// All programs on one disk, round by round, while the budget's share `until` lasts; the first round always.
    fn play(
        &mut self,
        profile: Profile,
        scale: Scale,
        programs: &[Program],
        from: f64,
        until: f64,
    ) -> Result<Vec<Measured>, Error> {
        let place = place(profile);
        self.tell(from, format!("{place}: writing the data"));
        let scratch = scratch_folder()?;
        let guests = Guests::unpack(scratch.path())?;
        let disk = SlowDisk::start(profile, scale.room_bytes())?;
        let (interrupt, forebay) = (self.interrupt, self.options.forebay.as_path());
        let bench = Bench { disk: &disk, forebay, scratch: scratch.path(), interrupt, accountant: None };
        let mut comparisons = Vec::new();
        for &program in programs {
            let prepare =
                |data: &Path| Workload::prepare(program, scale, data, scratch.path(), &guests, interrupt);
            comparisons.push(Comparison::new(&bench, disk.fill(prepare)??));
        }
        for round in 1..=ROUNDS_MAX {
            let round_started = Instant::now();
            for comparison in &mut comparisons {
                for side in SIDES {
                    let doing = format!(
                        "{place}: {}, {}, round {round}",
                        comparison.program().description(),
                        heading(side)
                    );
                    self.tell(self.share().clamp(from, until), doing);
                    comparison.run(side)?;
                }
            }
            if self.started.elapsed() + round_started.elapsed() > self.options.budget.mul_f64(until) {
                break;
            }
        }
        Ok(comparisons.into_iter().map(Comparison::finish).collect())
    }

    fn share(&self) -> f64 {
        self.started.elapsed().div_duration_f64(self.options.budget)
    }
}

fn place(profile: Profile) -> &'static str {
    match profile {
        Profile::Local => "this machine's disk",
        Profile::Nvme => "a disk with 0.06 ms",
        Profile::Ssd1Ms => "a disk with 1 ms",
        Profile::Raid12Ms => "four disks with 12 ms",
        Profile::Hdd1Ms => "a disk with 1 ms, one request at a time",
        Profile::Remote => "a file system over a distance of 5 ms",
    }
}

fn heading(side: Side) -> &'static str {
    match side {
        Side::Original => "cold",
        Side::Forebay => "with forebay",
        Side::Control => "cold, once more",
        Side::Hinted => "hints by hand",
        Side::Warm => "warm",
    }
}

impl Outcome {
    /// Rows by the result schema.
    pub fn rows(&self) -> Vec<Row> {
        self.measured.iter().flat_map(|(profile, measured)| measured.rows(&profile.to_string())).collect()
    }

    /// Whether every run of every program gave the same output, exit status and file.
    pub fn identical(&self) -> bool {
        self.measured.iter().all(|(_, measured)| measured.identical())
    }

    /// Medians by disk and program, what was left out, and every difference found.
    pub fn table(&self) -> String {
        let header = [
            "program",
            "disk",
            "cold",
            "with forebay",
            "warm",
            "speedup (min - max)",
            "stall removed",
            "output identical",
        ];
        let rows = self.measured.iter().map(|(profile, measured)| {
            let mut cells = vec![measured.program.description().to_owned(), place(*profile).to_owned()];
            cells.extend(SIDES.map(|side| seconds(measured.elapsed_s(side).median())));
            cells.extend([
                times_spread(measured.speedup().spread()),
                percent_or_dash(measured.stall_removed()),
                yes_no(measured.identical()),
            ]);
            cells
        });
        let mut parts = vec![render(&header, rows)];
        parts.extend(self.skipped.iter().map(|reason| format!("Left out: {reason}.")));
        parts.extend(self.measured.iter().flat_map(|(_, measured)| measured.remarks()));
        parts.join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_fits_the_disk() {
        assert_eq!(fitted_scale(0.000_08).reads, 20_000);
        assert_eq!(fitted_scale(0.001).reads, 3_000);
        let turning = fitted_scale(0.012);
        assert_eq!((turning.files, turning.reads), (500, 300));
    }
}
