//! A corpus of real programs that nothing was tuned for, really cold: the disk holds their data, their libraries and
//! themselves. Each runs alone and with forebay, in turn, and with everything in memory.

mod bench;
mod case;
mod cases;
mod needed_files;
mod outcome;
mod reason;
mod table;
mod tools;

use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use tempfile::TempDir;

use crate::harness::interrupt::Interrupt;
use crate::harness::progress::Steps;
use crate::run::comparison::Side;
use crate::run::rounds::in_turn;
use crate::{Error, Profile, Progress, scratch_folder};
use bench::Bench;
use tools::Tools;

pub use case::{Case, Compared, Data, Kind, Need};
pub use cases::all;
pub use outcome::{
    Failed, Figures, HARMED, HELPED, LeftOut, Measured, Outcome, STALLED, STALLED_HELPED, Summary,
};
pub use reason::Reason;
pub use table::list;

/// The sides that are cold, in the order of the first round; the last one where it is asked for.
const COLD: [Side; 3] = [Side::Original, Side::Forebay, Side::Control];

/// Where Linux systems have a file system in memory for everyone.
const MEMORY: &str = "/dev/shm";
/// The kernel's number for such file systems, of statfs(2).
const TMPFS: i64 = 0x0102_1994;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk.
    pub profile: Profile,
    /// The command lines, in the order in which they are measured.
    pub cases: Vec<&'static Case>,
    /// Rounds; each runs every side once.
    pub runs: usize,
    /// Forebay's own files are on the disk, too.
    pub forebay_cold: bool,
    /// Whether each program was recorded once, and its profile is replayed. Without, there are no profiles.
    pub second_run: bool,
    /// Whether each program runs alone twice a round, which tells what chance makes of the figures.
    pub control: bool,
    /// Has packages of Python and Node.
    pub tools: PathBuf,
    /// The `forebay` program.
    pub forebay: PathBuf,
    /// The agent's library, which it finds beside itself.
    pub agent: Option<PathBuf>,
}

impl Options {
    fn cold_sides(&self) -> &'static [Side] {
        if self.control { &COLD } else { &COLD[..2] }
    }
}

/// What becomes of a command line when it was its turn: a line for people.
pub type Told<'a> = dyn FnMut(&str) + 'a;

/// Measures every case that is installed. Nothing is left behind, however it ends. A case that fails does not end the others.
///
/// # Errors
///
/// A right that is missing, or an interrupt before the first case was measured.
pub fn run(
    options: &Options,
    progress: &mut dyn FnMut(Progress),
    told: &mut Told<'_>,
) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    if tools::program("strace").is_none() {
        return Err(Error::Missing { program: "strace", package: "strace" });
    }
    let tools = Tools::new(&options.tools);
    let scratch = folder_in_memory()?;
    let bench = Bench { options, tools: &tools, scratch: scratch.path(), interrupt: &interrupt };
    bench.set_up()?;
    let runs = options.runs * (options.cold_sides().len() + usize::from(options.profile.stays_warm()));
    let mut steps = Steps::new(options.cases.len() * (1 + runs), progress);
    let mut outcome = Outcome {
        profile: options.profile,
        controlled: options.control,
        tools: options.tools.clone(),
        measured: Vec::new(),
        failed: Vec::new(),
        left_out: Vec::new(),
        stopped: None,
    };
    for &case in &options.cases {
        let missing = tools.missing(case);
        if !missing.is_empty() {
            outcome.left_out.push(LeftOut { case, missing });
            continue;
        }
        match measure(&bench, case, &mut steps) {
            Ok(measured) => {
                told(&measured.line());
                outcome.measured.push(measured);
            }
            Err(why @ (Error::Interrupted | Error::Rig(forebay_lab::Error::Unsupported { .. }))) => {
                outcome.stopped = Some(why);
                break;
            }
            Err(why) => {
                told(&format!("{}: {why}", case.name));
                outcome.failed.push(Failed { case, why });
            }
        }
    }
    steps.end(&outcome.stopped.as_ref().map_or(Ok(()), Err));
    match outcome.stopped.take() {
        Some(why) if outcome.measured.is_empty() => Err(why),
        stopped => Ok(Outcome { stopped, ..outcome }),
    }
}

/// A folder for forebay's own files and for what programs print: in memory, where the system lets programs execute what lies there.
/// Elsewhere a run with forebay would wait for the disk that has the folder, as the statistics are written.
fn folder_in_memory() -> Result<TempDir, Error> {
    let memory = Path::new(MEMORY);
    let is_in_memory = statfs(memory).is_ok_and(|found| found.f_type == TMPFS);
    let executes = statvfs(memory).is_ok_and(|found| !found.f_flag.contains(StatVfsMountFlags::NOEXEC));
    if !(is_in_memory && executes) {
        return scratch_folder();
    }
    tempfile::Builder::new()
        .prefix("forebay-")
        .tempdir_in(memory)
        .map_err(Error::file("create a folder in", memory))
}

fn measure(bench: &Bench<'_>, case: &'static Case, steps: &mut Steps<'_>) -> Result<Measured, Error> {
    steps.begin(format!("{}: writing the data", case.name));
    let mut prepared = bench.prepare(case)?;
    prepared.introduce()?;
    let mut measured = Measured::new(case);
    for round in 1..=bench.options.runs {
        let mut step = |side: Side, measured: &mut Measured| {
            steps.begin(format!("{}: round {round} of {}, {}", case.name, bench.options.runs, side.name()));
            prepared.run(side, measured)
        };
        for side in in_turn(bench.options.cold_sides(), round) {
            step(side, &mut measured)?;
        }
        if bench.options.profile.stays_warm() {
            step(Side::Warm, &mut measured)?;
        }
    }
    Ok(measured)
}
