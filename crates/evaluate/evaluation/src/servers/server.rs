//! Real servers under real loads: their throughput, their cost a request and a megabyte, and what limits them.
//!
//! [`experiments`](crate::experiments) describes experiments and decides verdicts; this module carries them out.

mod asking;
mod ceilings;
mod clients;
mod disks;
mod eviction;
mod files;
mod http;
mod load_meter;
mod load_output;
mod measure;
mod meters;
mod need;
mod observer;
mod owner;
mod pages;
mod predicted;
pub(crate) mod process;
mod processors;
mod proxy;
mod report;
mod router;
mod run;
mod simulation;
mod slow_files;
pub(crate) mod streaming;
mod takers;
mod target;
mod tls;
pub(crate) mod web;
mod why;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use forebay_results::{Row, Statement};

use crate::experiments::{Ceilings, Description, Fewer, Load, RtspServer, Server, Trial};
use tempfile::TempDir;

use crate::harness::interrupt::Interrupt;
use crate::harness::prediction::{Costs, read_host};
use crate::harness::progress::Steps;
use crate::servers::mediamtx;
use crate::{Error, Progress, scratch_folder};
use measure::{Bench, Given};
use run::Run;
use slow_files::SlowFiles;
use web::Documents;

pub use crate::experiments::{Finding, Limit, Resource, SHIPPED, Verdict};
pub use need::{Condition, Need, NeedOf, NeedOptions, need};
pub use why::{Answer, Asked as WhyAsked, Why, why};

/// So many runs bring into memory what a server needs of files, at most.
const WARMING_MAX: usize = 4;

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The experiment.
    pub description: Description,
    /// Whether to simulate what requests miss in caches, too.
    pub simulate: bool,
    /// Results of `forebay evaluate host`, to set misses against, and to predict by; else a second is spent on misses, and
    /// nothing is predicted.
    pub host: Option<PathBuf>,
    /// The `forebay` that is measured as a streaming server.
    pub forebay: PathBuf,
}

impl Options {
    /// The experiment of this name that comes with forebay, or that of the file, with other levels for some factors.
    ///
    /// # Errors
    /// There is no such file, or it makes no sense.
    pub fn read(name_or_file: &Path, set: &[String]) -> Result<Self, Error> {
        let shipped = name_or_file.to_str().and_then(crate::experiments::shipped);
        let text = match shipped {
            Some(shipped) => shipped.text.to_owned(),
            None => std::fs::read_to_string(name_or_file)
                .map_err(Error::file("read the experiment", name_or_file))?,
        };
        Ok(Self {
            description: Description::read(&text, set)?,
            simulate: false,
            host: None,
            forebay: "forebay".into(),
        })
    }
}

/// A server at one level of each factor.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Server and load.
    pub trial: Trial,
    runs: Vec<Run>,
    /// A run to compare with, where memory was limited and nothing else that was measured tells what that costs.
    with_all_memory: Option<Run>,
    /// A run with fewer clients, where that tells what the requests wait for.
    with_fewer_clients: Option<Run>,
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    /// What it was about.
    pub title: String,
    /// One entry for each combination of levels.
    pub cells: Vec<Cell>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
    /// Of the host, where they are known, for predictions.
    costs: Option<Costs>,
    /// Processor time of servers that ran already, in seconds.
    attached_s: f64,
}

/// What an experiment tells, all of it or what there was when something stopped it.
pub trait Told {
    /// For people.
    fn table(&self) -> String;
    /// For machines, by the schema.
    fn rows(&self) -> Vec<Row>;
    /// What follows from the rows, in words.
    fn statements(&self) -> Vec<Statement>;
    /// Processor time of servers that ran already, in seconds: it is part of what was measured, and no child's.
    fn attached_s(&self) -> f64 {
        0.0
    }
    /// Why there is not all of it.
    fn stopped(self) -> Option<Error>;
}

/// Carries an experiment out. Whatever was started has ended when this returns.
///
/// # Errors
/// Nothing could be measured. Where something was, the outcome has it, and what stopped the rest.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    let description = &options.description;
    let cells: Vec<Cell> = description
        .trials()
        .into_iter()
        .map(|trial| Cell { trial, runs: vec![], with_all_memory: None, with_fewer_clients: None })
        .collect();
    // A file that is none is told before anything is measured.
    let host = options.host.as_deref().map(read_host).transpose()?;
    let ceilings = host.as_ref().map(ceilings::of).transpose()?;
    let mut outcome = Outcome {
        title: description.title.clone(),
        cells,
        stopped: None,
        costs: host.as_ref().and_then(|host| Costs::of(&host.rows)),
        attached_s: 0.0,
    };
    leave_out_missing(&mut outcome.cells);
    for cell in &outcome.cells {
        check_installed(description, &cell.trial)?;
    }
    if options.simulate {
        simulation::valgrind()?;
    }
    let mut experiment = Experiment::new(options, &interrupt)?;
    let passes = usize::from(description.runs) + usize::from(options.simulate);
    let mut steps = Steps::new(outcome.cells.len() * passes, progress);
    let stopped = experiment.run(&mut outcome.cells, &mut steps).and_then(|()| {
        experiment.compare_with_all_memory(&mut outcome.cells, &mut steps)?;
        experiment.compare_with_fewer_clients(&mut outcome.cells, &mut steps)?;
        experiment.account_for_misses(&mut outcome.cells, options.simulate, ceilings, &mut steps)
    });
    steps.end(&stopped);
    outcome.stopped = stopped.err();
    outcome.attached_s = experiment.attached_s;
    outcome.cells.retain(|cell| !cell.runs.is_empty());
    match outcome.stopped {
        Some(error) if outcome.cells.is_empty() => Err(error),
        _ => Ok(outcome),
    }
}

/// A server that no distribution has is compared where it is there.
fn leave_out_missing(cells: &mut Vec<Cell>) {
    let may_be_missing = |cell: &Cell| cell.trial.server == Server::Rtsp(RtspServer::Mediamtx);
    if !mediamtx::is_there() && !cells.iter().all(may_be_missing) {
        cells.retain(|cell| !may_be_missing(cell));
    }
}

/// Says what is missing before anything is measured.
fn check_installed(description: &Description, trial: &Trial) -> Result<(), Error> {
    if let Server::Web(server) = &trial.server {
        web::program(*server)?;
    }
    if let Server::Rtsp(server) = &trial.server {
        streaming::check()?;
        if *server == RtspServer::Mediamtx {
            mediamtx::check()?;
        }
    }
    if let Server::Forwarding(_) = &trial.server {
        router::check()?;
    }
    if let Load::Address { url, asked, .. } = &trial.load {
        http::check(&url.replace("{port}", "80"), asked).map_err(Error::Load)?;
    }
    if trial.memory_bytes.is_some() {
        forebay_lab::MemoryLimit::supported()?;
    }
    let lines = [
        match &trial.server {
            Server::Command(line) => line.first(),
            _ => None,
        },
        description.ready().and_then(<[String]>::first),
        match &trial.load {
            Load::Command { arguments, .. } => arguments.first(),
            _ => None,
        },
    ];
    for program in lines.into_iter().flatten() {
        if find_program(program).is_none() {
            return Err(Error::Load(format!("there is no program {program}; install it, or give its path")));
        }
    }
    Ok(())
}

/// Where a program is: as given, on PATH, or where the administrator's programs are.
pub(crate) fn find_program(program: &str) -> Option<OsString> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/local/sbin".into(), "/usr/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file()).map(Into::into)
}

struct Experiment<'a> {
    description: &'a Description,
    interrupt: &'a Interrupt,
    forebay: &'a Path,
    scratch: TempDir,
    /// By the size of each, or the bits of each second, and by the size or the number of all.
    documents: BTreeMap<(u64, u64), Documents>,
    given: Given,
    /// Where files are with a dose of a later disk.
    slow: Option<SlowFiles>,
    /// Processor time that servers which ran already used while they were measured, in seconds.
    attached_s: f64,
}

impl<'a> Experiment<'a> {
    fn new(options: &'a Options, interrupt: &'a Interrupt) -> Result<Self, Error> {
        Ok(Self {
            description: &options.description,
            interrupt,
            forebay: &options.forebay,
            scratch: scratch_folder()?,
            documents: BTreeMap::new(),
            given: Given::default(),
            slow: None,
            attached_s: 0.0,
        })
    }

    /// The rounds go over all combinations, so that what drifts drifts for all.
    fn run(&mut self, cells: &mut [Cell], steps: &mut Steps<'_>) -> Result<(), Error> {
        for round in 1..=self.description.runs {
            for cell in &mut *cells {
                let (subject, case) = (&cell.trial.subject, cell.trial.case());
                steps.begin(format!("{subject}, {case} (run {round} of {})", self.description.runs));
                let mut run = self.bench(&cell.trial, |bench| bench.measure(&cell.trial))?;
                if run.evidence.comes_back() {
                    let folder = self.scratch.path();
                    let back_s = pages::back_s(folder, &cell.trial.load);
                    run.knowing_pages(back_s.map_err(Error::file("read and write in", folder))?);
                }
                if Verdict::asks_for_new_page(&run.evidence) {
                    run.knowing_new_pages(pages::new_s());
                }
                cell.runs.push(run);
            }
        }
        Ok(())
    }

    /// Runs with all memory what seems to lack some, where the experiment does not: whether memory limits is then measured, and
    /// not foretold.
    fn compare_with_all_memory(&mut self, cells: &mut [Cell], steps: &mut Steps<'_>) -> Result<(), Error> {
        for number in 0..cells.len() {
            let cell = &cells[number];
            let is_in_question =
                cell.trial.memory_bytes.is_some() && cell.runs.iter().any(Run::may_lack_memory);
            let is_known = |other: &Cell| {
                let has_all = other.trial.memory_bytes.is_none() && !other.runs.is_empty();
                cell.differs_in_memory_at_most(other) && (has_all || other.with_all_memory.is_some())
            };
            if !is_in_question || cells.iter().any(is_known) {
                continue;
            }
            let doing =
                format!("{}, {} (with all memory, to compare)", cell.trial.subject, cell.trial.case());
            let trial = Trial { memory_bytes: None, ..cell.trial.clone() };
            cells[number].with_all_memory = Some(self.with_all_in_memory(&trial, &doing, steps)?);
        }
        Ok(())
    }

    /// A run with all memory, after what it needs of files has come there: what memory would have kept is read once.
    fn with_all_in_memory(
        &mut self,
        trial: &Trial,
        doing: &str,
        steps: &mut Steps<'_>,
    ) -> Result<Run, Error> {
        let mut measure = || {
            steps.add(doing.to_owned());
            self.bench(trial, |bench| bench.measure(trial))
        };
        let mut run = measure()?;
        for _ in 1..WARMING_MAX {
            if !run.evidence.misses_memory() {
                break;
            }
            run = measure()?;
        }
        Ok(run)
    }

    /// Runs with fewer clients what most runs of it ask for.
    fn compare_with_fewer_clients(&mut self, cells: &mut [Cell], steps: &mut Steps<'_>) -> Result<(), Error> {
        for cell in cells {
            let asking = |fewer: &Fewer| {
                let asking = cell.runs.iter().filter(|run| run.asks_for() == Some(*fewer));
                asking.count() * 2 > cell.runs.len()
            };
            let fewer = Fewer::ALL.into_iter().find(asking);
            cell.with_fewer_clients = self.with_fewer_clients(&cell.trial, fewer, steps)?;
        }
        Ok(())
    }

    /// A run with fewer clients, where that is asked for and can be had.
    fn with_fewer_clients(
        &mut self,
        trial: &Trial,
        fewer: Option<Fewer>,
        steps: &mut Steps<'_>,
    ) -> Result<Option<Run>, Error> {
        let Some((fewer, trial)) = fewer.and_then(|fewer| Some((fewer, trial.with_fewer_clients(fewer)?)))
        else {
            return Ok(None);
        };
        steps.add(format!("{}, {} (with {fewer}, to compare)", trial.subject, trial.case()));
        match self.bench(&trial, |bench| bench.measure(&trial)) {
            // A load of one's own may not work with so few.
            Err(Error::Failed { .. }) => Ok(None),
            run => run.map(Some),
        }
    }

    /// Sets what requests miss in caches, counted or else simulated, against what misses take on this machine.
    fn account_for_misses(
        &mut self,
        cells: &mut [Cell],
        simulate: bool,
        ceilings: Option<Ceilings>,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error> {
        let counted = |cell: &Cell| cell.runs.iter().any(|run| run.evidence.misses.is_some());
        if !simulate && !cells.iter().any(counted) {
            return Ok(());
        }
        let ceilings = ceilings.unwrap_or_else(ceilings::measured);
        for cell in cells {
            let simulated = if simulate && !counted(cell) {
                steps.begin(format!(
                    "{}, {} (cache misses, simulated)",
                    cell.trial.subject,
                    cell.trial.case()
                ));
                self.interrupt.check()?;
                self.bench(&cell.trial, |bench| simulation::misses(bench, &cell.trial))?
            } else {
                None
            };
            for run in &mut cell.runs {
                if let Some(misses) = run.evidence.misses.or(simulated) {
                    run.knowing(misses, ceilings);
                }
            }
        }
        Ok(())
    }

    /// Works where one server is measured once.
    fn bench<T>(
        &mut self,
        trial: &Trial,
        work: impl FnOnce(&Bench<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let documents = self.documents(&trial.load)?;
        let (documents, folder) = match (self.given.disk_is_slow, &self.slow) {
            (Some(is_slow), Some(slow)) => {
                slow.set_slow(is_slow)?;
                (slow.copy(), slow.scratch_folder()?)
            }
            _ => (documents, scratch_folder()?),
        };
        let before_s = target::attached_s(&trial.server);
        let done = work(&Bench {
            description: self.description,
            folder: folder.path(),
            documents: documents.as_ref(),
            forebay: self.forebay,
            interrupt: self.interrupt,
            given: self.given,
        });
        self.attached_s += (target::attached_s(&trial.server) - before_s).max(0.0);
        done
    }

    /// What a server serves; made once for all of its runs.
    fn documents(&mut self, load: &Load) -> Result<Option<Documents>, Error> {
        let (each, all) = match *load {
            Load::Documents { bytes, total_bytes, .. } => (bytes, total_bytes),
            Load::Media { bits_per_second, media, .. } => (bits_per_second, media.into()),
            Load::Messages { .. } => return Ok(None),
            Load::Address { .. } | Load::Command { .. } => {
                return self.description.files().map(Documents::of).transpose();
            }
        };
        if !self.documents.contains_key(&(each, all)) {
            web::open(self.scratch.path())?;
            let folder = self.scratch.path().join(format!("{each}-{all}"));
            let documents = match *load {
                Load::Media { bits_per_second, media, .. } => {
                    let seconds = self.description.warm_up + self.description.seconds;
                    streaming::prepare(&folder, bits_per_second, media, seconds, self.interrupt)?
                }
                _ => Documents::write(folder, each, all)?,
            };
            self.documents.insert((each, all), documents);
        }
        Ok(self.documents.get(&(each, all)).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_are_not_there_are_told_before_anything_is_measured() {
        for (lines, missing) in [
            ("server = [\"no-such-a\"]\nurl = \"http://127.0.0.1:{port}/\"", "no-such-a"),
            ("server = [\"sh\"]\nready = [\"no-such-b\"]\nurl = \"http://127.0.0.1:{port}/\"", "no-such-b"),
            ("server = [\"sh\"]\nload = [\"no-such-c\"]", "no-such-c"),
        ] {
            let text = format!("title = \"t\"\n[any]\nname = \"n\"\n{lines}\n");
            let description = Description::read(&text, &[]).unwrap();
            let error = check_installed(&description, &description.trials()[0]).unwrap_err().to_string();
            assert!(error.contains(&format!("there is no program {missing}")), "{error}");
        }
    }
}
