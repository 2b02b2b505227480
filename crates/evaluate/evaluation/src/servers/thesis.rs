//! `forebay evaluate thesis`: the rows of a published evaluation of servers, measured again on this machine.
//!
//! Each [`Part`] is an experiment with a file of results. A part that this machine does not allow is left out, with the reason.
//! `seed` sets what came of it beside what was published.

mod memory;
mod misses;
mod seed;

use std::path::PathBuf;

use forebay_probes::Limit as Settle;
use forebay_results::{Row, Statement};

use super::server::{self, Told, find_program};
use crate::experiments::Description;
use crate::harness::interrupt::Interrupt;
use crate::harness::progress::Whole;
use crate::machine::{cache, model};
use crate::model::LineFill;
use crate::{Error, Progress};

/// Runs agree where the middle half of them is within such a share of their median, of so many at least.
const SETTLED: Settle = Settle { spread: 0.05, samples_min: 3, time: std::time::Duration::ZERO };
/// The cache that the published formulas are also asked for: words of 8 bytes in order, and a miss of a present machine.
const CACHE: cache::Options = cache::Options {
    access_bytes: 8,
    stride_bytes: 8,
    line_bytes: 64,
    penalty_cycles: 100,
    accesses: 1.0,
    instructions: 1e6,
};
/// Over which connections web servers are asked.
const CONNECTIONS: [&str; 2] = ["kept", "new"];
/// Bytes of a data unit of the model.
const UNIT_BYTES: u32 = 1460;

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The table of the latency model, and the formulas of caches.
    Model,
    /// Web servers by clients, over kept and over new connections.
    Web,
    /// A router by layout and size of messages.
    Router,
    /// Cache misses of web servers and of a streaming server, simulated.
    Misses,
    /// Page faults of a streaming server by clients and media, and from which memory on they limit it.
    Memory,
}

// In the order in which they are measured.
forebay_names::names! { "part": Part {
    Model = "model",
    Web = "web",
    Router = "router",
    Misses = "misses",
    Memory = "memory",
} }

impl Part {
    /// About how long it takes, as a share of the whole.
    fn weight(self) -> f64 {
        match self {
            Self::Model => 0.01,
            Self::Web => 0.2,
            Self::Router => 0.2,
            Self::Misses => 0.29,
            Self::Memory => 0.3,
        }
    }

    /// Experiments that it has, at most.
    fn experiments(self, quick: bool) -> usize {
        match self {
            Self::Model | Self::Router => 1,
            Self::Web => CONNECTIONS.len(),
            Self::Misses => misses::experiments(quick),
            Self::Memory => memory::experiments(quick),
        }
    }
}

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// In this order.
    pub parts: Vec<Part>,
    /// One short run of few levels.
    pub quick: bool,
    /// The program whose `serve` is measured.
    pub forebay: PathBuf,
}

/// What came of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Which one.
    pub part: Part,
    /// Its results.
    pub rows: Vec<Row>,
    /// What follows from them.
    pub statements: Vec<Statement>,
}

/// What came of all.
#[derive(Debug, Default)]
pub struct Outcome {
    /// As far as it was measured.
    pub parts: Vec<Measured>,
    /// What was left out, and why: a sentence each.
    pub left_out: Vec<String>,
    /// Why not all of it was measured.
    pub stopped: Option<Error>,
}

/// Measures. What this machine does not allow is left out, and told in the outcome.
///
/// # Errors
/// An interrupt came before anything was measured.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    let total: f64 = options.parts.iter().map(|part| part.weight()).sum();
    let (mut outcome, mut whole) = (Outcome::default(), Whole::new(progress));
    for part in &options.parts {
        let (ended, found) = whole.part(part.weight() / total, |progress| {
            let mut tell = |inner: Progress| {
                progress(Progress { doing: format!("{}: {}", part.name(), inner.doing), ..inner });
            };
            let (found, copy) = (Found::default(), None);
            let progress = Whole::new(&mut tell);
            let each = 1.0 / part.experiments(options.quick) as f64;
            let mut bench = Bench { options, interrupt: &interrupt, progress, each, copy, found };
            (bench.part(*part), bench.found)
        });
        let Found { rows, statements } = found;
        if !rows.is_empty() {
            let rows = rows.into_iter().map(judged).collect();
            outcome.parts.push(Measured { part: *part, rows, statements });
        }
        match ended {
            Ok(()) => {}
            Err(Error::Interrupted) => {
                outcome.stopped = Some(Error::Interrupted);
                break;
            }
            Err(why) => outcome.left_out.push(format!("{}: {why}", part.name())),
        }
    }
    progress(Progress::at_the_end());
    let nothing = outcome.parts.is_empty();
    match outcome.stopped {
        Some(error) if nothing => Err(error),
        _ => Ok(outcome),
    }
}

/// The row with whether its runs agree, where they are enough to tell.
fn judged(row: Row) -> Row {
    let settled = SETTLED.judge(&row.values).filter(|_| row.values.len() >= SETTLED.samples_min);
    Row { settled: settled.map(|settled| settled.settled), ..row }
}

/// What was found of a part.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    statements: Vec<Statement>,
}

/// Where a part is measured.
struct Bench<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    progress: Whole<'a>,
    /// The share of the part that each of its experiments takes.
    each: f64,
    /// A copy of the program that nothing else runs.
    copy: Option<PathBuf>,
    found: Found,
}

impl Bench<'_> {
    fn part(&mut self, part: Part) -> Result<(), Error> {
        self.interrupt.check()?;
        match part {
            Part::Model => self.model(),
            Part::Web => self.web(),
            Part::Router => self.router(),
            Part::Misses => self.misses(),
            Part::Memory => self.memory(),
        }
    }

    fn model(&mut self) -> Result<(), Error> {
        let what_if = model::WhatIf::default();
        let published = model::run(&model::Options { bytes: UNIT_BYTES, fill: LineFill::Byte, what_if });
        self.found.rows.extend(published.rows());
        self.found.rows.extend(cache::run(&CACHE).rows());
        Ok(())
    }

    fn web(&mut self) -> Result<(), Error> {
        let servers = installed_web_servers()?;
        let clients = if self.options.quick { "[4]" } else { "[1, 4, 16, 64]" };
        for connections in CONNECTIONS {
            let text = format!(
                "{}[web]\nservers = {servers:?}\ndocument = \"10K\"\ndocuments = \"16M\"\nclients = {clients}\n\
                 connections = \"{connections}\"\n",
                self.head("Static files of 10 KiB over HTTP")
            );
            self.measure(&text, false, &format!("/{connections} connections"))?;
        }
        Ok(())
    }

    fn router(&mut self) -> Result<(), Error> {
        let messages = if self.options.quick { "[\"64K\"]" } else { "[\"64\", \"10K\", \"64K\"]" };
        let layouts = "[\"one-to-one\", \"full-duplex\", \"many-to-one\"]";
        let head = self.head("Packets forwarded by Linux");
        self.measure(&format!("{head}[router]\nlayout = {layouts}\nmessage = {messages}\n"), false, "")
    }

    /// Title, runs and times of an experiment file.
    fn head(&self, title: &str) -> String {
        let (runs, seconds, warm_up) = if self.options.quick { (1, 0.4, 0.1) } else { (3, 2.0, 0.5) };
        format!("title = \"{title}\"\nruns = {runs}\nseconds = {seconds}\nwarm_up = {warm_up}\n")
    }

    /// Carries an experiment out, and adds what came of it, with `suffix` behind each condition.
    fn measure(&mut self, text: &str, simulate: bool, suffix: &str) -> Result<(), Error> {
        let outcome = self.carried_out(text, simulate)?;
        let marked = |case: String| format!("{case}{suffix}");
        let rows = outcome.rows().into_iter().map(|row| Row { case: marked(row.case), ..row });
        self.found.rows.extend(rows);
        let statements = outcome.statements().into_iter();
        self.found.statements.extend(statements.map(|one| Statement { case: marked(one.case), ..one }));
        outcome.stopped.map_or(Ok(()), Err)
    }

    fn carried_out(&mut self, text: &str, simulate: bool) -> Result<server::Outcome, Error> {
        self.interrupt.check()?;
        let description = Description::read(text, &[])?;
        let forebay = self.copy.clone().unwrap_or_else(|| self.options.forebay.clone());
        let options = server::Options { description, simulate, host: None, forebay };
        self.progress.part(self.each, |progress| server::run(&options, progress))
    }
}

/// Names of those web servers of the experiments that are here.
fn installed_web_servers() -> Result<Vec<&'static str>, Error> {
    let known = [("nginx", "nginx"), ("apache", "apache2")];
    let here = known.into_iter().filter(|(_, program)| find_program(program).is_some());
    let here: Vec<&str> = here.map(|(name, _)| name).collect();
    if here.is_empty() { Err(Error::Missing { program: "nginx", package: "nginx" }) } else { Ok(here) }
}

impl Outcome {
    /// What was published beside what was measured, and what was left out.
    #[must_use]
    pub fn table(&self) -> String {
        let rows: Vec<&Row> = self.parts.iter().flat_map(|part| &part.rows).collect();
        let mut text = seed::table(&rows);
        let findings = self.parts.iter().filter(|part| part.part == Part::Memory);
        for statement in
            findings.flat_map(|part| &part.statements).filter(|one| one.subject == memory::SUBJECT)
        {
            text += &format!("\n{}.", statement.text);
        }
        for why in &self.left_out {
            text += &format!("\nLeft out: {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_parts_make_a_whole() {
        let all: f64 = Part::ALL.iter().map(|part| part.weight()).sum();
        assert!((all - 1.0).abs() < 1e-9, "{all}");
    }

    #[test]
    fn the_model_is_a_part_without_any_server() {
        let options = Options { parts: vec![Part::Model], quick: true, forebay: "/nowhere".into() };
        let outcome = run(&options, &mut |_| ()).unwrap();
        assert!(outcome.left_out.is_empty() && outcome.parts[0].rows.len() > 12);
        let table = outcome.table();
        assert!(table.contains("3,640 |") && table.contains("4,264 |"), "{table}");
    }

    #[test]
    fn runs_are_judged_where_they_are_enough() {
        let row = |values: &[f64]| {
            judged(Row::of("s", "c", "m", "1", forebay_results::Spread::of(values).unwrap())).settled
        };
        assert_eq!(row(&[1.0, 1.01, 1.02]), Some(true));
        assert_eq!(row(&[1.0, 2.0, 3.0]), Some(false));
        assert_eq!(row(&[1.0, 1.0]), None);
    }
}
