//! The five programs with more and more processes (Figure 6): time, speedup, where the time goes, requests and bytes; the same
//! with whole pages shared.

use forebay_results::Row;
use forebay_share_workload::{Report, Share, Task};

use super::kernels::{agrees, elapsed_s, sum};
use super::{Kernel, Measured, Setting, Size, jobs::Jobs, metric};
use crate::harness::interrupt::kept;
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::harness::table::{render, times_spread, yes_no};
use crate::{Error, Progress};
use forebay_quantity::{percent, seconds};

/// Minipages that can share a page.
pub(super) const FINE: Share = Share { pages: false, views: 16 };
const PAGES: Share = Share { pages: true, views: 1 };
/// Processes that run with whole pages shared.
const PAGES_HOSTS: [u16; 2] = [1, 2];

/// Where time goes: in the table and the chart, and in reports.
const ACTIVITIES: [(&str, &str); 6] = [
    ("computing", "computing"),
    ("read faults", "in read faults"),
    ("write faults", "in write faults"),
    ("barriers", "at barriers"),
    ("locks", "for locks"),
    ("prefetches", "for prefetches"),
];
/// What else is told of a run.
const COUNTS: [&str; 8] = [
    "service",
    "read faults",
    "write faults",
    "requests",
    "competing requests",
    "prefetches",
    "messages",
    "bytes",
];

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// See there.
    pub setting: Setting,
    /// Which programs.
    pub kernels: Vec<Kernel>,
    /// Numbers of processes.
    pub hosts: Vec<u16>,
    /// How much they have to do.
    pub size: Size,
}

impl Options {
    /// All programs with up to 8 processes.
    pub fn new(setting: Setting) -> Self {
        Self { setting, kernels: Kernel::ALL.to_vec(), hosts: vec![1, 2, 4, 8], size: Size::Full }
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    transport: String,
    processors: usize,
    /// One entry a program.
    kernels: Vec<Compared>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// A program on all its sides.
#[derive(Clone, Debug)]
struct Compared {
    kernel: Kernel,
    /// Its sequential form.
    sequential_s: Series,
    /// The slower of two that run at the same time and share nothing: what the machine has for two processes.
    two_sequential_s: Series,
    sides: Vec<Side>,
}

/// A number of processes, and what they share at a time.
#[derive(Clone, Debug)]
struct Side {
    hosts: u16,
    share: Share,
    elapsed_s: Series,
    /// Times of all processes together, in seconds, and counts.
    measured: Measured,
    /// All runs have computed what the sequential form has.
    is_right: bool,
}

impl Side {
    fn new(hosts: u16, share: Share) -> Self {
        Self { hosts, share, elapsed_s: Series::default(), measured: Measured::default(), is_right: true }
    }

    fn add(&mut self, reports: &[Report], sequential: &Report) {
        self.elapsed_s.push(elapsed_s(reports));
        for name in ACTIVITIES.map(|(_, name)| name).into_iter().chain(COUNTS) {
            self.measured.push(name, sum(reports, name));
        }
        self.is_right &= agrees(reports, sequential);
    }

    /// The part of the time that went there.
    fn part(&self, activity: &str) -> f64 {
        let all: f64 = ACTIVITIES.iter().map(|(_, name)| self.measured.median(name)).sum();
        self.measured.median(activity) / all
    }

    fn name(&self) -> String {
        let grain = if self.share.pages { "pages" } else { "minipages" };
        format!("{} process{}/{grain}", self.hosts, if self.hosts == 1 { "" } else { "es" })
    }
}

impl Compared {
    fn side(&self, hosts: u16, share: Share) -> Option<&Side> {
        self.sides.iter().find(|side| (side.hosts, side.share) == (hosts, share))
    }

    /// How much more two processes get done than one where they share nothing, round by round.
    fn ceiling(&self) -> Series {
        let ratio = self.sequential_s.per_round_ratio(&self.two_sequential_s);
        ratio.values().iter().map(|ratio| 2.0 * ratio).collect()
    }

    /// One process over this side, round by round.
    fn speedup(&self, side: &Side) -> Series {
        self.side(1, FINE).map_or_else(Series::default, |one| one.elapsed_s.per_round_ratio(&side.elapsed_s))
    }
}

/// Measures.
///
/// # Errors
///
/// The workload is not there, a process fails, or an interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let Options { setting, kernels, hosts, size } = options;
    let jobs = Jobs::new(setting)?;
    let fine = hosts.iter().map(|hosts| (*hosts, FINE));
    let pages = PAGES_HOSTS.into_iter().filter(|few| hosts.contains(few)).map(|hosts| (hosts, PAGES));
    let sides: Vec<_> = fine.chain(pages).collect();
    let mut steps = Steps::new(kernels.len() * setting.runs * (sides.len() + 2), progress);
    let unmeasured = |kernel: &Kernel| Compared {
        kernel: *kernel,
        sequential_s: Series::default(),
        two_sequential_s: Series::default(),
        sides: sides.iter().map(|(hosts, share)| Side::new(*hosts, *share)).collect(),
    };
    let mut all: Vec<Compared> = kernels.iter().map(unmeasured).collect();
    let mut measure = || {
        let count = all.len();
        for compared in (0..count).flat_map(|kernel| (0..setting.runs).map(move |_| kernel)) {
            let compared = &mut all[compared];
            let kernel = compared.kernel;
            let program = kernel.program(*size);
            steps.begin(format!("{kernel}, sequential"));
            let sequential = jobs.alone(&Task::Sequential(program))?;
            compared.sequential_s.push(sequential.figure("elapsed"));
            steps.begin(format!("{kernel}, two sequential at the same time"));
            let two = jobs.share(2, &setting.transport, &Task::Sequential(program))?;
            compared.two_sequential_s.push(elapsed_s(&two));
            for side in &mut compared.sides {
                steps.begin(format!("{kernel}, {}", side.name()));
                let task = Task::Program { program, share: side.share };
                side.add(&jobs.share(side.hosts, &setting.transport, &task)?, &sequential);
            }
        }
        Ok(())
    };
    let ended = measure();
    steps.end(&ended);
    all.iter_mut().for_each(|compared| compared.sides.retain(|side| !side.elapsed_s.values().is_empty()));
    all.retain(|compared| !compared.two_sequential_s.values().is_empty());
    let stopped = kept(ended, !all.is_empty())?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Outcome { transport: setting.transport.clone(), processors, kernels: all, stopped })
}

impl Outcome {
    /// Whether every run has computed what the sequential form has.
    pub fn is_right(&self) -> bool {
        self.kernels.iter().flat_map(|compared| &compared.sides).all(|side| side.is_right)
    }

    /// Times, speedups, breakdowns and requests of all sides.
    pub fn table(&self) -> String {
        let activities = ACTIVITIES.map(|(shown, _)| shown);
        let mut header = vec!["program", "elapsed", "speedup"];
        header.extend(activities);
        header.extend(["requests", "competing", "MB sent", "right"]);
        let lines = self.kernels.iter().flat_map(|compared| {
            let sequential = |name: &str, elapsed_s: &Series, speedup: String| {
                let line = [format!("{}, {name}", compared.kernel), seconds(elapsed_s.median()), speedup];
                line.into_iter().chain(vec![String::new(); header.len() - 3]).collect()
            };
            let ceiling = times_spread(compared.ceiling().spread());
            let alone = sequential("sequential", &compared.sequential_s, String::new());
            let two = sequential("two sequential at once", &compared.two_sequential_s, ceiling);
            let sides = compared.sides.iter().map(|side| self.line(compared, side));
            [alone, two].into_iter().chain(sides).collect::<Vec<Vec<String>>>()
        });
        let note = format!(
            "Over {}; speedups are over one process, round by round; where time goes, of all processes together. With \
             more than {} processes, processors are oversubscribed (*): they cannot be faster, and wait for each other's turns. \
             The sequential form uses ordinary memory; two of it at once share nothing but the machine, so no speedup is \
             larger than theirs.",
            self.transport, self.processors
        );
        [note, render(&header, lines)].join("\n\n")
    }

    fn line(&self, compared: &Compared, side: &Side) -> Vec<String> {
        let count = |name: &str| format!("{:.0}", side.measured.median(name));
        let star = if usize::from(side.hosts) > self.processors { " *" } else { "" };
        let mut line = vec![
            format!("{}, {}{star}", compared.kernel, side.name()),
            seconds(side.elapsed_s.median()),
            times_spread(compared.speedup(side).spread()),
        ];
        line.extend(ACTIVITIES.map(|(_, name)| percent(side.part(name))));
        line.extend([count("requests"), count("competing requests")]);
        line.extend([format!("{:.1}", side.measured.median("bytes") / 1e6), yes_no(side.is_right)]);
        line
    }

    /// Rows by the result schema: subjects are the programs, cases `TRANSPORT/SIDE`.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for compared in &self.kernels {
            let subject = compared.kernel.name();
            let mut add = |case: &str, metric: &str, unit: &str, series: &Series| {
                rows.extend(series.spread().map(|spread| Row::of(subject, case, metric, unit, spread)));
            };
            add("sequential", "elapsed", "s", &compared.sequential_s);
            add("two sequential", "elapsed", "s", &compared.two_sequential_s);
            add("two sequential", "speedup", "1", &compared.ceiling());
            for side in &compared.sides {
                let case = format!("{}/{}", self.transport, side.name());
                add(&case, "elapsed", "s", &side.elapsed_s);
                add(&case, "speedup", "1", &compared.speedup(side));
                for (name, series) in side.measured.iter() {
                    let is_activity = ACTIVITIES.iter().any(|(_, activity)| *activity == name);
                    let (metric, unit) = match name {
                        _ if is_activity => (format!("time/{}", metric(name)), "s"),
                        "service" => (metric(name), "s"),
                        "bytes" => (metric(name), "B"),
                        _ => (metric(name), "1"),
                    };
                    add(&case, &metric, unit, series);
                }
                let is_right = [f64::from(u8::from(side.is_right))].into_iter().collect();
                add(&case, "right", "1", &is_right);
            }
        }
        rows
    }
}
