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

use std::path::PathBuf;

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

/// The sides that are cold, in the order of the first round.
const COLD: [Side; 2] = [Side::Original, Side::Forebay];

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
    /// Has packages of Python and Node.
    pub tools: PathBuf,
    /// The `forebay` program.
    pub forebay: PathBuf,
    /// The agent's library, which it finds beside itself.
    pub agent: Option<PathBuf>,
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
    let scratch = scratch_folder()?;
    let bench = Bench { options, tools: &tools, scratch: scratch.path(), interrupt: &interrupt };
    bench.set_up()?;
    let mut steps = Steps::new(options.cases.len() * (1 + options.runs * 3), progress);
    let mut outcome = Outcome {
        profile: options.profile,
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
    steps.end();
    match outcome.stopped.take() {
        Some(why) if outcome.measured.is_empty() => Err(why),
        stopped => Ok(Outcome { stopped, ..outcome }),
    }
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
        for side in in_turn(&COLD, round) {
            step(side, &mut measured)?;
        }
        step(Side::Warm, &mut measured)?;
    }
    Ok(measured)
}
