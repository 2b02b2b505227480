//! What programs that share memory would do with more hosts than this machine has processors: recorded here with as many
//! hosts within one process, run again in simulated time. A projection, not a measurement; beside it, for two hosts, what was
//! measured.

mod calibration;
mod recorded;
mod report;

use std::fmt::Display;
use std::thread;

use crate::projection::{Costs, Network, Projection, Trace, project};
use forebay_millipage::{Host, in_process};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::harness::interrupt::{Interrupt, kept};
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::share::millipage::{Kernel, Size};
use crate::{Error, Progress};
use calibration::Calibration;

/// Hosts of the run that is measured as well as projected: one for each processor of a small machine.
const MEASURED_HOSTS: u16 = 2;

/// What to project.
#[derive(Clone, Debug)]
pub struct Options {
    /// The programs.
    pub kernels: Vec<Kernel>,
    /// Numbers of hosts, each recorded by itself.
    pub hosts: Vec<u16>,
    /// Latencies of the networks, in nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// What each host can send.
    pub bytes_per_second: f64,
    /// Runs with two hosts that are measured, and as many that are projected.
    pub runs: usize,
    /// How much the programs have to do.
    pub size: Size,
}

impl Options {
    /// 8 to 1,024 hosts, on networks of today at 10 Gbit/s.
    pub fn new() -> Self {
        Self {
            kernels: Kernel::ALL.to_vec(),
            hosts: vec![8, 32, 128, 512, 1_024],
            latencies_ns: vec![2_000, 10_000, 50_000],
            bytes_per_second: 1.25e9,
            runs: 5,
            size: Size::Thousand,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// What was projected.
#[derive(Debug)]
pub struct Outcome {
    /// What things take on this machine.
    pub costs: Costs,
    /// One entry for each program.
    pub programs: Vec<Projected>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// What was projected of a program.
#[derive(Clone, Debug)]
pub struct Projected {
    /// Which.
    pub kernel: Kernel,
    /// One host, which needs no network.
    pub alone: Projection,
    /// One entry for each number of hosts and each network.
    pub cells: Vec<Cell>,
    /// Seconds that two hosts within one process took, one value a run.
    pub measured_s: Series,
    /// Seconds that runs recorded in turn with those would take, on what is between hosts within one process.
    pub projected_s: Series,
    /// What could not be recorded, and why: a sentence each.
    pub refused: Vec<String>,
}

/// So many hosts on one network.
#[derive(Clone, Debug)]
pub struct Cell {
    /// How many.
    pub hosts: u16,
    /// Of the network.
    pub latency_ns: u64,
    /// What it would be like.
    pub projection: Projection,
}

/// Measures what things take, records the programs, and projects them.
///
/// # Errors
///
/// No memory for two hosts, or an interrupt. That there is none for more is told in the outcome.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    allow_many_files();
    let mut steps = Steps::new(1 + options.kernels.len() * (options.hosts.len() + 2), progress);
    steps.begin("measuring what faults and messages take");
    let calibration = calibration::measure()?;
    let mut programs = Vec::new();
    let ended = options.kernels.iter().try_for_each(|&kernel| {
        let mut projected = one(kernel, &calibration, options, &interrupt, &mut steps)?;
        let ended = on_more(&mut projected, &calibration.costs, options, &interrupt, &mut steps);
        programs.push(projected);
        ended
    });
    steps.end(&ended);
    let stopped = kept(ended, !programs.is_empty())?;
    Ok(Outcome { costs: calibration.costs, programs, stopped })
}

/// Runs a program on two hosts, measured and projected, and records it on one.
fn one(
    kernel: Kernel,
    Calibration { costs, local }: &Calibration,
    options: &Options,
    interrupt: &Interrupt,
    steps: &mut Steps<'_>,
) -> Result<Projected, Error> {
    let program = kernel.program(options.size);
    steps.begin(format!("running {kernel} on two hosts"));
    let (mut measured_s, mut projected_s) = (Series::default(), Series::default());
    for _ in 0..options.runs {
        interrupt.check()?;
        measured_s.push(recorded::measure(MEASURED_HOSTS, program)?);
        let trace = recorded::record(MEASURED_HOSTS, program)?;
        projected_s.push(report::elapsed_s(&projected(&trace, costs, local)?));
    }
    steps.begin(format!("recording {kernel} on one host"));
    let alone = projected(&recorded::record(1, program)?, costs, local)?;
    let (cells, refused) = (Vec::new(), Vec::new());
    Ok(Projected { kernel, alone, cells, measured_s, projected_s, refused })
}

/// Records a program on each number of hosts, and projects it to each network.
fn on_more(
    Projected { kernel, cells, refused, .. }: &mut Projected,
    costs: &Costs,
    options: &Options,
    interrupt: &Interrupt,
    steps: &mut Steps<'_>,
) -> Result<(), Error> {
    let program = kernel.program(options.size);
    for &hosts in &options.hosts {
        interrupt.check()?;
        steps.begin(format!("recording {kernel} on {hosts} hosts"));
        match recorded::record(hosts, program) {
            Ok(trace) => {
                for &latency_ns in &options.latencies_ns {
                    let network = Network { latency_ns, bytes_per_second: options.bytes_per_second };
                    let projection = projected(&trace, costs, &network)?;
                    cells.push(Cell { hosts, latency_ns, projection });
                }
            }
            Err(error) => refused.push(format!("{hosts} hosts: {error}; give fewer --hosts.")),
        }
    }
    Ok(())
}

fn projected(trace: &Trace, costs: &Costs, network: &Network) -> Result<Projection, Error> {
    Ok(project(trace, costs, network)?)
}

/// What each of so many hosts within this process comes to, each with a thread that does `act`.
fn on_each<R: Send, E: Display + Send>(
    hosts: u16,
    bytes: usize,
    act: impl Fn(&Host) -> Result<R, E> + Sync,
) -> Result<Vec<R>, Error> {
    let options = forebay_millipage::Options { bytes, ..forebay_millipage::Options::default() };
    let hosts = in_process(hosts, options)?;
    thread::scope(|scope| {
        let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(|| act(host))).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended.map_err(|error| Error::HostFailed { why: error.to_string() }),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

/// A host takes two files, and many machines let a process have 1,024 unless it asks for more.
fn allow_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where that is refused, fewer hosts fit, and the outcome tells.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
