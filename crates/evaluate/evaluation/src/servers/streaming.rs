//! Streaming servers under thousands of players: what they deliver, how late, and what it costs; ours with one buffer and with
//! more, and those of others, in turn.
//!
//! Server and players have a processor each. What the loopback carries at best, and how punctual timers are, is measured in the same
//! rounds, so that results are shares of what could be had here and now.

mod ceilings;
mod disturbance;
mod films;
mod loopback_port;
mod media;
mod players;
mod predicted;
mod report;
mod search;
mod servers;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_lab::{MemoryLimit, Profile};
use forebay_results::Host;
use forebay_stream_clients::{Processors, Transport};

use crate::harness::interrupt::Interrupt;
use crate::harness::prediction::{Costs, read_host};
use crate::harness::progress::Steps;
use crate::{Error, Progress, scratch_folder};
use ceilings::Ceilings;
use films::Clips;
use media::{Container, Media, Shelf};
use search::Search;
use trial::{Load, Run, Stage};

pub use disturbance::Disturbance;
pub use films::Films;
pub use servers::Subject;

/// A number of clients that nobody held is tried so often: a machine that others use may have stood still.
const TRIES: usize = 2;
/// Media take at most a third of this, even on a larger machine: more than a server is to have.
const MEMORY_BYTES_MAX: u64 = 6 << 30;
/// A search goes no further.
const CLIENTS_MAX: u32 = 20_000;
/// What the loopback carries is measured with so many receivers at least.
const RECEIVERS_MIN: u32 = 64;

/// Where the media are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// In memory already.
    Cached,
    /// Out of memory, on such a disk.
    Cold(Profile),
}

impl FromStr for Disk {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "cached" {
            return Ok(Self::Cached);
        }
        let unknown = |_| {
            let disks = Profile::NAMES.join(", ");
            format!("unknown place for media '{name}'; expected one of: cached, {disks}")
        };
        name.parse().map(Self::Cold).map_err(unknown)
    }
}

/// Whether clients play the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// All of them.
    One,
    /// Each another one, as long as files fit.
    Many,
}

forebay_names::names! { "choice of files": Files {
    One = "one",
    Many = "many",
} }

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `forebay` that serves, and that is the players.
    pub program: PathBuf,
    /// Servers, in turn.
    pub subjects: Vec<Subject>,
    /// Bits a second of each stream.
    pub rates: Vec<u64>,
    /// How packets come.
    pub transports: Vec<Transport>,
    /// How many play at the same time; a search begins with the first, and goes no further than the most of several.
    pub clients: Vec<u32>,
    /// What they play.
    pub films: Films,
    /// Whether they play the same.
    pub files: Files,
    /// Where that is.
    pub disk: Disk,
    /// Memory of the server, with what it reads.
    pub memory_bytes: Option<u64>,
    /// Whether to look for the most clients without a late stream.
    pub search: bool,
    /// How long is watched, in seconds.
    pub seconds: f64,
    /// How long players play before, in seconds.
    pub warm_up: f64,
    /// Rounds; each runs every server once.
    pub runs: u16,
    /// What disturbs them: each server runs without, and with each of these, in turn.
    pub disturbances: Vec<Disturbance>,
    /// Each player's link carries so many times its film's mean rate; without it, what the loopback does.
    pub link: Option<f64>,
    /// Packets that come so long after they were due are late, in seconds.
    pub late_s: f64,
    /// Each player seeks so often, on average, in seconds.
    pub seek_every_s: Option<f64>,
    /// Each player leaves after so long, on average, in seconds, and another one comes.
    pub stay_s: Option<f64>,
    /// Results of `forebay evaluate host`, to predict by.
    pub host: Option<PathBuf>,
}

impl Options {
    /// How many take part when it is measured what the loopback carries: as many as clients, if that is known before, and enough
    /// that calls are full.
    fn receivers(&self) -> u32 {
        if self.search { RECEIVERS_MIN } else { self.clients_most().max(RECEIVERS_MIN) }
    }

    /// As many clients as there may be at the same time.
    fn clients_most(&self) -> u32 {
        match (self.search, self.clients.as_slice()) {
            (true, [] | [_]) => CLIENTS_MAX,
            (_, clients) => clients.iter().copied().max().unwrap_or(1),
        }
    }
}

/// A server under a condition.
#[derive(Clone, Debug)]
pub struct Cell {
    subject: Subject,
    rate: u64,
    transport: Transport,
    /// `None` where their number was looked for.
    clients: Option<u32>,
    disturbance: Option<Disturbance>,
    /// Of a search, those with the most clients that held.
    runs: Vec<Run>,
    /// The most clients that held, of each search.
    held: Vec<u32>,
    /// How the server failed under a load, the first time.
    trouble: Option<String>,
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    options: Options,
    /// One entry for each combination.
    cells: Vec<Cell>,
    /// By rate.
    ceilings: BTreeMap<u64, Vec<Ceilings>>,
    /// What streams really have, by rate.
    real_rates: BTreeMap<u64, f64>,
    /// Of the host, where they are known, for predictions.
    costs: Option<Costs>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// Measures. Whatever was started has ended when this returns.
///
/// # Errors
/// Nothing could be measured. Where something was, the outcome has it, and what stopped the rest.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    servers::check(&options.subjects)?;
    if options.memory_bytes.is_some() {
        MemoryLimit::supported()?;
    }
    let costs = options.host.as_deref().map(read_host).transpose()?.and_then(|host| Costs::of(&host.rows));
    let mut outcome = Outcome {
        options: options.clone(),
        cells: cells(options),
        ceilings: BTreeMap::new(),
        real_rates: BTreeMap::new(),
        costs,
        stopped: None,
    };
    let passes =
        usize::from(options.runs) * (outcome.cells.len() + options.rates.len()) + options.rates.len();
    let mut steps = Steps::new(passes, progress);
    let stopped = measure(options, &interrupt, &mut outcome, &mut steps);
    steps.end(&stopped);
    outcome.stopped = stopped.err();
    outcome.cells.retain(|cell| !cell.runs.is_empty() || !cell.held.is_empty() || cell.trouble.is_some());
    if outcome.cells.iter().any(|cell| !cell.runs.is_empty() || !cell.held.is_empty()) {
        return Ok(outcome);
    }
    let trouble = outcome.cells.into_iter().find_map(|cell| cell.trouble);
    Err(outcome
        .stopped
        .unwrap_or_else(|| Error::Load(trouble.unwrap_or_else(|| "there was nothing to measure".into()))))
}

fn cells(options: &Options) -> Vec<Cell> {
    let clients: Vec<Option<u32>> =
        if options.search { vec![None] } else { options.clients.iter().copied().map(Some).collect() };
    let mut cells = Vec::new();
    for rate in &options.rates {
        for transport in &options.transports {
            for clients in &clients {
                for subject in &options.subjects {
                    let disturbances = options.disturbances.iter().copied().map(Some);
                    cells.extend([None].into_iter().chain(disturbances).map(|disturbance| Cell {
                        subject: *subject,
                        rate: *rate,
                        transport: *transport,
                        clients: *clients,
                        disturbance,
                        runs: vec![],
                        held: vec![],
                        trouble: None,
                    }));
                }
            }
        }
    }
    cells
}

/// The rounds go over all combinations, so that what drifts drifts for all.
fn measure(
    options: &Options,
    interrupt: &Interrupt,
    outcome: &mut Outcome,
    steps: &mut Steps<'_>,
) -> Result<(), Error> {
    let scratch = scratch_folder()?;
    let processors = Processors::of_this_machine();
    // What makes a disk slow is to take no time of the server's processor.
    let stock = || stock(options, interrupt, scratch.path(), steps);
    let (shelf, media) = Processors::on(processors.players, stock)?;
    // Of the files that ours has.
    let containers = Subject::Forebay { buffers: 1 }.containers(options.films);
    let real_rate = |(rate, media): (&u64, &Media)| (*rate, media.bits_per_second(containers));
    outcome.real_rates = media.iter().map(real_rate).collect();
    let stage = Stage { options, scratch: scratch.path(), shelf: &shelf, processors, interrupt };
    for round in 1..=options.runs {
        let (ceilings, cells) = (&mut outcome.ceilings, &mut outcome.cells);
        for (rate, real_rate) in &outcome.real_rates {
            steps.begin(format!("what the loopback carries (round {round} of {})", options.runs));
            interrupt.check()?;
            let measured = Ceilings::measure(*real_rate, options.receivers(), processors)?;
            ceilings.entry(*rate).or_default().push(measured);
        }
        for cell in cells {
            let media = &media[&cell.rate];
            let doing = format!("{}, {cell} (round {round} of {})", cell.subject, options.runs);
            steps.begin(doing);
            cell.fill(&stage, media, round.into())?;
        }
    }
    Ok(())
}

impl Cell {
    fn fill(&mut self, stage: &Stage<'_>, media: &Media, seed: u64) -> Result<(), Error> {
        if let Some(clients) = self.clients {
            let run = self.try_with(stage, media, clients, seed)?;
            self.runs.extend(run);
            return Ok(());
        }
        // A later search begins where an earlier one ended.
        let first = stage.options.clients.first().copied().unwrap_or(1);
        let first = self.held.last().copied().unwrap_or(first).max(1);
        let search = Search::new(first, stage.options.clients_most());
        self.search(search, |cell, clients| cell.try_with(stage, media, clients, seed))
    }

    /// Keeps what was found where a search does not come to its end.
    fn search(
        &mut self,
        mut search: Search,
        mut run: impl FnMut(&mut Self, u32) -> Result<Option<Run>, Error>,
    ) -> Result<(), Error> {
        let mut best = None;
        let searched = loop {
            let Some(clients) = search.next() else { break Ok(()) };
            let mut tries = (0..TRIES).map(|_| run(self, clients));
            let held =
                tries.find_map(|tried| tried.map(|run| run.filter(|run| run.holds(clients))).transpose());
            match held.transpose() {
                Ok(held) => {
                    search.learn(clients, held.is_some());
                    best = held.or(best);
                }
                Err(error) => break Err(error),
            }
        };
        if searched.is_ok() || search.held() > 0 {
            self.held.push(search.held());
            self.runs.extend(best);
        }
        if searched.is_err() && search.held() > 0 {
            self.trouble.get_or_insert_with(|| "the search did not come to its end: it may hold more".into());
        }
        searched
    }

    /// `None` where the server fails under so many, which is a result like another.
    fn try_with(
        &mut self,
        stage: &Stage<'_>,
        media: &Media,
        clients: u32,
        seed: u64,
    ) -> Result<Option<Run>, Error> {
        let load = Load { media, transport: self.transport, clients, disturbance: self.disturbance, seed };
        match stage.run(self.subject, load) {
            Ok(run) => Ok(Some(run)),
            Err(error @ (Error::Load(_) | Error::Failed { .. } | Error::Unready { .. })) => {
                self.trouble.get_or_insert_with(|| format!("with {clients} clients {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", report::rate(self.rate), self.transport)?;
        self.clients.map_or(Ok(()), |clients| write!(f, "/{clients} clients"))?;
        self.disturbance.map_or(Ok(()), |disturbance| write!(f, "/{disturbance}"))
    }
}

/// Makes the media, and puts them where they are to be.
fn stock(
    options: &Options,
    interrupt: &Interrupt,
    scratch: &Path,
    steps: &mut Steps<'_>,
) -> Result<(Shelf, BTreeMap<u64, Media>), Error> {
    let memory_bytes = Host::detect().memory_bytes.min(MEMORY_BYTES_MAX);
    let clients = options.clients_most();
    // Twice what is watched, so that there are places to begin at.
    let length_s = ((options.warm_up + options.seconds) * 2.0 + 30.0) as u32;
    let containers = options.subjects.iter().flat_map(|subject| subject.containers(options.films));
    let containers: BTreeSet<Container> = containers.copied().chain([Container::Mp4]).collect();
    let containers: Vec<Container> = containers.into_iter().collect();
    let mut all = Vec::new();
    for rate in &options.rates {
        steps.begin(format!("media of {}", report::rate(*rate)));
        let clips = Clips::encode(options.films, *rate, length_s, &containers, scratch, interrupt)?;
        let memory_bytes = memory_bytes / options.rates.len().max(1) as u64;
        let files = media::files(&clips, options.files, clients, memory_bytes);
        all.push((clips, files));
    }
    let bytes = all.iter().map(|(clips, files)| clips.bytes(*files)).sum();
    let shelf = Shelf::new(options.disk, bytes, scratch)?;
    let fill = |(clips, files): &(Clips, u32)| Ok((clips.bits_per_second, shelf.fill(clips, *files)?));
    let media = all.iter().map(fill).collect::<Result<_, Error>>()?;
    Ok((shelf, media))
}

#[cfg(test)]
mod tests {
    use forebay_stream_clients::Outcome as Seen;

    use super::*;

    #[test]
    fn a_search_that_is_interrupted_keeps_what_it_found() {
        let mut cell = Cell {
            subject: Subject::Forebay { buffers: 2 },
            rate: 300_000,
            transport: Transport::Udp,
            clients: None,
            disturbance: None,
            runs: vec![],
            held: vec![],
            trouble: None,
        };
        let run = |playing| Run {
            seen: Seen { playing, ..Seen::default() },
            processor_s: None,
            resident_bytes: None,
            proportional_bytes: None,
            disk_read_bytes: None,
            switches: None,
            minor_faults: None,
            disturbers: None,
        };
        // It holds twenty, and somebody has had enough of it at forty.
        let play = |_: &mut Cell, clients| match clients {
            0..=20 => Ok(Some(run(clients))),
            _ => Err(Error::Interrupted),
        };
        assert!(matches!(cell.search(Search::new(10, 1000), play), Err(Error::Interrupted)));
        assert_eq!((cell.held.as_slice(), cell.runs[0].seen.playing), (&[20][..], 20));
        assert!(cell.trouble.take().is_some_and(|trouble| trouble.contains("may hold more")));
        // The first try of each number fails.
        let mut tries = 0;
        let play = |_: &mut Cell, clients: u32| {
            tries += 1;
            Ok((tries % 2 == 0 && clients <= 20).then(|| run(clients)))
        };
        cell.search(Search::new(10, 1000), play).unwrap();
        assert_eq!((cell.held.as_slice(), cell.trouble), (&[20, 20][..], None));
    }
}
