//! One run: a server, its players, and what is counted of both.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_counters::{Meter, Options as Counting, Readings, Target};
use forebay_lab::MemoryLimit;
use forebay_linux::kernel_text;
use forebay_stream_clients::{Order, Outcome as Seen, Processors, Start, Transport, allow_descriptors};

use super::disturbance::{Disturbance, Disturber};
use super::media::{Media, Shelf};
use super::players::Players;
use super::servers::{Kitchen, Running, Subject};
use super::{Disk, Options};
use crate::harness::interrupt::Interrupt;
use crate::servers::server::process::free_port;
use crate::{Error, scratch_folder};

/// Players that come in a second at most.
const RAMP_PER_SECOND: f64 = 250.0;
/// What media have to last beyond what is measured, in seconds, for players that come before the others.
const SPARE_S: f64 = 5.0;
/// How often is looked for an interrupt, and whether the server is still there.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PAGE_BYTES: f64 = 4096.0;
/// Descriptors that a server may need for each client: pipelines have several.
const DESCRIPTORS_OF_SERVER: u64 = 16;

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) seen: Seen,
    /// Processor time of the server, in seconds, of as long as the players watched.
    pub(super) processor_s: Option<f64>,
    /// How often it left a processor, and how many pages it was given without waiting, in that time.
    pub(super) switches: Option<f64>,
    pub(super) minor_faults: Option<f64>,
    /// Memory of the server at the end, in bytes.
    pub(super) resident_bytes: Option<f64>,
    /// The same, with what it shares with others divided among them.
    pub(super) proportional_bytes: Option<f64>,
    /// What the server read from a disk, in bytes.
    pub(super) disk_read_bytes: Option<f64>,
    /// Clients or connections that disturbed, where any were to.
    pub(super) disturbers: Option<u64>,
}

impl Run {
    /// Whether every client had its stream, and none of them was disturbed.
    pub(super) fn holds(&self, clients: u32) -> bool {
        self.seen.late_streams == 0 && self.seen.failed == 0 && self.seen.playing >= clients
    }

    /// What came, in bits a second.
    pub(super) fn bits_per_second(&self) -> f64 {
        self.seen.bytes as f64 * 8.0 / self.seen.seconds.max(f64::EPSILON)
    }
}

/// Where runs are made.
pub(super) struct Stage<'a> {
    pub(super) options: &'a Options,
    pub(super) scratch: &'a Path,
    pub(super) shelf: &'a Shelf,
    pub(super) processors: Processors,
    pub(super) interrupt: &'a Interrupt,
}

/// A condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    pub(super) media: &'a Media,
    pub(super) transport: Transport,
    pub(super) clients: u32,
    pub(super) disturbance: Option<Disturbance>,
    pub(super) seed: u64,
}

impl Stage<'_> {
    /// Starts the server, lets the players come, watches, and ends both.
    pub(super) fn run(&self, subject: Subject, load: Load<'_>) -> Result<Run, Error> {
        self.interrupt.check()?;
        allow_descriptors(u64::from(load.clients) * DESCRIPTORS_OF_SERVER);
        self.shelf.prepare(load.media)?;
        let folder = scratch_folder()?;
        let group = self.options.memory_bytes.map(MemoryLimit::start).transpose()?;
        let join = group.as_ref().map(MemoryLimit::processes_file);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let kitchen = Kitchen {
            program: &self.options.program,
            films: self.options.films,
            clients: load.clients,
            scratch: self.scratch,
            processors: self.processors,
            interrupt: self.interrupt,
        };
        let mut running = kitchen.start(subject, load.media, folder.path(), address, join.as_deref())?;
        let mut players = Players::start(&self.options.program, self.processors.players)?;
        let order = self.order(load, address, &running);
        let gathered = players.play(&order, || self.check(&mut running, group.as_ref()))?;
        if gathered.playing == 0 {
            let why = gathered.first_failure.unwrap_or_else(|| "nothing came".into());
            return Err(Error::Load(format!("{subject} plays for nobody: {why}")));
        }
        let disturber = load.disturbance.map(|disturbance| {
            let program = self.options.program.clone();
            Disturber::start(disturbance, program, self.processors.players, &order)
        });
        let run = self.watch(&mut players, &mut running, group.as_ref())?;
        Ok(Run { disturbers: disturber.map(Disturber::end), ..run })
    }

    fn order(&self, load: Load<'_>, address: SocketAddr, running: &Running) -> Order {
        let options = self.options;
        let links = |factor: f64| running.rates.iter().map(|rate| rate * factor).collect();
        let ramp_s = f64::from(load.clients) / RAMP_PER_SECOND;
        Order {
            address,
            paths: running.paths.clone(),
            links: options.link.map(links).unwrap_or_default(),
            drifts: running.drifts.clone(),
            players: load.clients,
            transport: load.transport,
            ramp_per_second: RAMP_PER_SECOND,
            start: Start::Anywhere,
            needed_s: ramp_s + options.warm_up + options.seconds + SPARE_S,
            seek_every_s: options.seek_every_s,
            stay_s: options.stay_s,
            late_s: options.late_s,
            seed: load.seed,
        }
    }

    fn watch(
        &self,
        players: &mut Players,
        running: &mut Running,
        group: Option<&MemoryLimit>,
    ) -> Result<Run, Error> {
        let Options { warm_up, seconds, .. } = *self.options;
        let server = running.server.id();
        let begin = Instant::now() + Duration::from_secs_f64(warm_up);
        let end = begin + Duration::from_secs_f64(seconds);
        let interval = Duration::from_secs_f64((seconds / 4.0).clamp(0.05, 1.0));
        let counting = Counting { interval, ..Counting::default() };
        let (mut meter, mut counted) = (None, None);
        let seen = players.watch(warm_up, seconds, || {
            self.check(running, group)?;
            let now = Instant::now();
            if meter.is_none() && counted.is_none() && now >= begin {
                meter = Some(Meter::start(&Target::Tree(server), &counting)?);
            }
            if now + LOOK_EVERY >= end
                && let Some(meter) = meter.take()
            {
                counted = Some((meter.stop(), proportional_bytes(server)));
            }
            Ok(())
        })?;
        if let Some(meter) = meter {
            counted = Some((meter.stop(), proportional_bytes(server)));
        }
        let (readings, proportional_bytes) = counted.unwrap_or_default();
        // Counted is a little less than what was watched.
        let total = |names: &[&str]| {
            let rates = names.iter().filter_map(|name| readings.per_second(name));
            rates.reduce(|sum, more| sum + more).map(|rate| rate * seen.seconds)
        };
        Ok(Run {
            processor_s: total(&["cpu_user", "cpu_system"]),
            switches: total(&["voluntary_switches", "involuntary_switches"]),
            minor_faults: total(&["minor_faults"]),
            resident_bytes: last(&readings, "resident_pages").map(|pages| pages * PAGE_BYTES),
            proportional_bytes,
            disk_read_bytes: total(&["disk_read_bytes"]),
            disturbers: None,
            seen,
        })
    }

    /// Whether to go on.
    fn check(&self, running: &mut Running, group: Option<&MemoryLimit>) -> Result<(), Error> {
        self.interrupt.check()?;
        let killed = group.map_or(Ok(0), MemoryLimit::kills)?;
        if killed > 0 {
            return Err(Error::Load(format!(
                "the kernel killed {killed} of its processes for want of memory"
            )));
        }
        running.check()
    }
}

/// A level at the end, which is when it is highest in a server that grows.
fn last(readings: &Readings, name: &str) -> Option<f64> {
    let place = readings.readings.iter().position(|reading| reading.counter.name == name)?;
    let values = readings.intervals.iter().rev().map(|interval| interval.values[place]);
    values.into_iter().find(|value| value.is_finite())
}

/// What the kernel says of a process and of those that it started (proc_pid_smaps(5)).
fn proportional_bytes(process: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let own = kernel_text::bytes(&text, "Pss")? as f64;
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    Some(own + children.filter_map(proportional_bytes).sum::<f64>())
}

/// How a disk is called in cases.
pub(super) fn disk_name(disk: Disk) -> String {
    match disk {
        Disk::Cached => "cached".into(),
        Disk::Cold(profile) => profile.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_share_of_its_memory() {
        assert!(proportional_bytes(std::process::id()).unwrap() > 100_000.0);
    }
}
