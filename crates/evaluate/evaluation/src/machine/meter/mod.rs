//! What the processor and the kernel count while a program runs, or of what runs already.

pub mod overhead;
mod program;
mod simulate;
mod table;

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use forebay_counters::{Counter, Interval, Kind, Meter, Readings, Refused, Target};
use forebay_results::{Row, Tier};

use crate::Error;
use crate::harness::interrupt::Interrupt;
use crate::harness::metric;
use program::{Ending, Program};

pub use program::MaxRss;
pub use simulate::{ACCESSES_DEFAULT, Simulation};
pub use table::{Lines, table};

/// How long nobody looks for an interrupt.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What is measured.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A command line, from its start to its end, with all that it starts.
    Command(Vec<OsString>),
    /// What runs already, until it has ended or for this long.
    Running(Target, Option<Duration>),
}

impl Subject {
    /// What it is called in results.
    fn name(&self) -> String {
        match self {
            Self::Command(command) => {
                let program = command.first().map(|program| program.to_string_lossy().into_owned());
                let program = program.unwrap_or_default();
                program.rsplit('/').next().unwrap_or_default().to_owned()
            }
            Self::Running(Target::Machine, _) => "machine".to_owned(),
            Self::Running(Target::Process(pid) | Target::Tree(pid), _) => format!("process {pid}"),
            Self::Running(Target::Cgroup(path), _) => path.display().to_string(),
        }
    }
}

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is measured.
    pub subject: Subject,
    /// How the counters are sampled.
    pub sampling: forebay_counters::Options,
    /// Whether a command is run again under Valgrind, for as many accesses to data; of nothing else.
    pub simulated_accesses: Option<u64>,
}

/// What was counted.
#[derive(Clone, Debug)]
pub struct Outcome {
    subject: String,
    /// The counters that could be had.
    pub readings: Readings,
    /// Those that could not.
    pub refused: Vec<Refused>,
    /// What a simulation of the same command counted.
    pub simulation: Option<Simulation>,
    /// How the command ended.
    pub status: Option<ExitStatus>,
    /// What the largest process of the command had in memory at most.
    pub max_rss: Option<MaxRss>,
    /// Whether it was ended by SIGINT, SIGTERM or SIGHUP, which is how one ends it that has no end.
    pub interrupted: bool,
}

impl Outcome {
    /// Results by the schema.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.readings.rows(&self.subject, "meter");
        for reading in self.simulation.iter().flat_map(|simulation| &simulation.readings) {
            let Counter { name, unit, .. } = &reading.counter;
            let row = Row::once(&self.subject, "meter/simulated", name.as_ref(), *unit, reading.value);
            rows.push(row.with_tier(Tier::Simulated));
        }
        if let Some(MaxRss::Bytes(bytes) | MaxRss::AtMost(bytes)) = self.max_rss {
            rows.push(Row::once(&self.subject, "meter", metric::MAX_RSS, "B", bytes as f64).of_samples(None));
        }
        rows
    }
}

/// What a measurement tells while it goes on.
pub enum Event<'a> {
    /// An interval is over.
    Interval(&'a [Counter], &'a Interval),
    /// Something begins that takes long, in words.
    Doing(&'a str),
}

/// Measures, and tells `told` how it goes on.
///
/// # Errors
/// The program cannot be started, or there is nothing to measure. An interrupt is no error: what was counted is told.
pub fn run(options: &Options, told: &mut dyn FnMut(Event<'_>)) -> Result<Outcome, Error> {
    if options.simulated_accesses.is_some() {
        simulate::check()?;
    }
    let interrupt = Interrupt::watch();
    let (mut program, target, limit) = match &options.subject {
        Subject::Command(command) => {
            let program = Program::start(command, &interrupt)?;
            let target = Target::Tree(program.id());
            (Some(program), target, None)
        }
        Subject::Running(target, limit) => (None, target.clone(), *limit),
    };
    let mut ending = Ending::of(&target)?;
    let meter = Meter::start(&target, &options.sampling)?;
    if let Some(program) = &mut program {
        program.go_on()?;
    }
    let counters = meter.counters();
    let mut tell = |interval: &Interval| told(Event::Interval(&counters, interval));
    let over = attend(&meter, &mut ending, limit, &interrupt, &mut tell)?;
    let interrupted = interrupt.check().is_err();
    // A program that is interrupted is measured to its end; one that has ended is still there to be looked at.
    if let Some(program) = program.as_mut().filter(|_| interrupted) {
        program.end(&mut ending)?;
    }
    let mut refused = meter.refused().to_vec();
    let mut readings = meter.stop();
    if program.is_some() {
        forget_before_start(&mut readings);
    }
    readings.intervals.iter().skip(over).for_each(tell);
    let ended = program.map(Program::ended).transpose()?;
    let (status, max_rss) = ended.map(|ended| (ended.status, ended.max_rss)).unzip();
    let simulation = match (&options.subject, options.simulated_accesses) {
        (Subject::Command(command), Some(accesses)) if !interrupted => {
            let simulated = simulate::run(command, accesses, &interrupt, told);
            simulated.map_err(|error| refused.push(not_simulated(&error))).ok()
        }
        _ => None,
    };
    Ok(Outcome {
        subject: options.subject.name(),
        readings,
        refused,
        simulation,
        status,
        max_rss,
        interrupted,
    })
}

/// Levels of a program that ended before they were looked at again are those of the shell that it was at first.
fn forget_before_start(readings: &mut Readings) {
    for (index, reading) in readings.readings.iter_mut().enumerate() {
        let was_seen = readings.intervals.iter().any(|interval| interval.values[index].is_finite());
        if reading.counter.kind == Kind::Level && !was_seen {
            (reading.value, reading.min, reading.max) = (f64::NAN, f64::NAN, f64::NAN);
        }
    }
}

/// What was counted is told all the same.
fn not_simulated(error: &Error) -> Refused {
    Refused {
        counter: "misses of caches and translation buffers".to_owned(),
        tier: Tier::Simulated,
        why: error.to_string(),
        remedy: "try again, or see whether the program runs under valgrind by hand".to_owned(),
    }
}

/// Waits for the end, the limit or an interrupt. Tells the intervals that are over meanwhile, and gives their number.
fn attend(
    meter: &Meter,
    ending: &mut Ending,
    limit: Option<Duration>,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(&Interval),
) -> Result<usize, Error> {
    let started = Instant::now();
    let mut number = 0;
    loop {
        let left = limit.map_or(LOOK_INTERVAL, |limit| limit.saturating_sub(started.elapsed()));
        let ended = ending.within(left.min(LOOK_INTERVAL))?;
        while let Some(interval) = meter.interval(number) {
            tell(&interval);
            number += 1;
        }
        if ended || limit.is_some_and(|limit| started.elapsed() >= limit) || interrupt.check().is_err() {
            return Ok(number);
        }
    }
}
