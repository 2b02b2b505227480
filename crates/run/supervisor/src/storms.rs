//! Notices processes that fault through a large mapped file in no order, and chooses what the executor reads ahead of them.
//!
//! While the machine has few major faults, a look is one read of `/proc/vmstat`. Otherwise the processes of the run are asked for
//! their counts, and page maps of those that fault show where. `forebay_policy::storm` decides, and the executor reads. One file
//! is read ahead at a time.

pub(crate) mod family;
mod mapped;

use std::{
    collections::HashMap,
    fs,
    sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release},
    time::{Duration, Instant},
};

use forebay_linux::kernel_text;
use forebay_policy::price::{FAULTED_BYTES_MIN, STORM_FAULTS_MIN, STORM_IDLE_MS, WAITED_PART};
use forebay_policy::storm::{AREAS, Prices, Storm};
use forebay_protocol::layout::{
    GO, Header, MEMORY_FULL, MEMORY_SHORT, SLOT_CLAIMED, STREAM_PATH_BYTES, replay,
};

use crate::{channel::Channel, devices::limit_of, executor, memory_limits::MemoryLimits};
use mapped::Mapped;
pub use mapped::Touched;

/// Files that are watched at once.
const WATCHED_MAX: usize = 4;
/// Between looks at files.
const ROUND: Duration = Duration::from_millis(20);
/// Looks take one part in so many of the time at most: as much as waiting pays for what may be of no use.
const LOOK_PART: u32 = WAITED_PART as u32;
/// A file of which nothing was touched for so long is not watched any more.
const IDLE: Duration = Duration::from_millis(STORM_IDLE_MS);
/// Files that were streamed which are remembered.
const DONE_MAX: usize = 256;

/// What streams did for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFigures {
    /// Files.
    pub files: u64,
    /// Bytes that the device read for them.
    pub bytes: u64,
    /// About what of them a process had mapped later.
    pub bytes_used: u64,
}

/// What the supervisor knows of storms.
#[derive(Default)]
pub struct Storms {
    /// Faults that the machine has had, if it tells.
    machine: Option<u64>,
    /// The same of processes of the run.
    processes: HashMap<u32, u64>,
    watched: Vec<Watch>,
    /// Process and inode of files that are not streamed again.
    done: Vec<(u32, u64)>,
    figures: StreamFigures,
}

/// A file that is watched.
struct Watch {
    process: u32,
    file: Mapped,
    storm: Storm,
    /// So many of its areas may be streamed.
    areas_max: usize,
    is_streamed: bool,
    pays: bool,
    touched_at: Instant,
    missed: u64,
}

impl Storms {
    /// Looks at the run of `program`. Also when to look again, if that is soon.
    pub fn look(&mut self, program: u32, channel: &Channel, limits: &MemoryLimits) -> Option<Duration> {
        let header = channel.header();
        let machine = machine_faults();
        let before = std::mem::replace(&mut self.machine, machine);
        // Where the machine does not tell, there may always be some.
        let is_storm =
            before.zip(machine).is_none_or(|(before, now)| now.saturating_sub(before) >= STORM_FAULTS_MIN);
        if !is_storm && self.watched.is_empty() {
            return None;
        }
        if !may_stream(header) {
            hold(header);
            return None;
        }
        let began = Instant::now();
        let faulting = if is_storm { self.faulting(program, channel) } else { HashMap::new() };
        self.find_files(&faulting, limits);
        self.see(header);
        self.grant(channel, &faulting);
        self.forget_idle(header);
        (!self.watched.is_empty()).then(|| ROUND.max(began.elapsed() * LOOK_PART))
    }

    /// A process whose faults a stream spares: signals of them are of no use.
    pub fn spared(&self) -> Option<u32> {
        self.watched.iter().find(|watch| watch.is_streamed && watch.pays).map(|watch| watch.process)
    }

    /// What they did.
    pub fn figures(&self, header: &Header) -> StreamFigures {
        let used = self.watched.iter().map(|watch| watch.storm.used_bytes()).fold(0, u64::saturating_add);
        let bytes = header.stream.bytes.load(Relaxed);
        let bytes_used = self.figures.bytes_used.saturating_add(used).min(bytes);
        StreamFigures { bytes, bytes_used, ..self.figures }
    }

    /// Processes of the run with many faults since they were last asked, with how many.
    fn faulting(&mut self, program: u32, channel: &Channel) -> HashMap<u32, u64> {
        let slots = channel.slots_in(SLOT_CLAIMED).map(|slot| channel.slot(slot).pid.load(Relaxed));
        let now: HashMap<u32, u64> = family::major_faults(slots.chain([program]));
        let before = std::mem::replace(&mut self.processes, now);
        let more = |(process, now): (&u32, &u64)| {
            let more = now.saturating_sub(before.get(process).copied().unwrap_or(0));
            (more >= STORM_FAULTS_MIN).then_some((*process, more))
        };
        self.processes.iter().filter_map(more).collect()
    }

    /// Takes note of what these processes, and those that are watched, have mapped now.
    fn find_files(&mut self, faulting: &HashMap<u32, u64>, limits: &MemoryLimits) {
        let mut processes: Vec<u32> =
            faulting.keys().copied().chain(self.watched.iter().map(|watch| watch.process)).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            let mut files = Mapped::of(process).unwrap_or_default();
            files.retain(|file| file.bytes() >= FAULTED_BYTES_MIN && file.path.len() < STREAM_PATH_BYTES);
            for watch in self.watched.iter_mut().filter(|watch| watch.process == process) {
                let found = files
                    .iter()
                    .position(|file| file.inode == watch.file.inode && file.path == watch.file.path);
                watch.file.parts = found.map(|found| files.swap_remove(found).parts).unwrap_or_default();
            }
            if !faulting.contains_key(&process) {
                continue;
            }
            files.retain(|file| !self.done.contains(&(process, file.inode)));
            files.sort_by_key(|file| std::cmp::Reverse(file.bytes()));
            let room = WATCHED_MAX.saturating_sub(self.watched.len());
            self.watched.extend(files.into_iter().take(room).map(|file| Watch::new(process, file, limits)));
        }
    }

    /// Looks at the page maps: at all files, or at the one that is streamed.
    fn see(&mut self, header: &Header) {
        let is_any_streamed = self.watched.iter().any(|watch| watch.is_streamed);
        for watch in &mut self.watched {
            watch.missed = 0;
            if is_any_streamed && !watch.is_streamed {
                continue;
            }
            if let Some(seen) = watch.file.see(watch.process, &watch.storm) {
                let position = if watch.is_streamed { header.stream.position.load(Acquire) } else { 0 };
                let fresh = watch.storm.see(&seen, position);
                watch.missed = fresh.missed;
                if fresh.missed > 0 || fresh.hits > 0 {
                    watch.touched_at = Instant::now();
                }
            }
        }
    }

    /// Says how far the stream may go on, and begins one.
    fn grant(&mut self, channel: &Channel, faulting: &HashMap<u32, u64>) {
        let header = channel.header();
        let prices = prices(header);
        let mut missed: HashMap<u32, u64> = HashMap::new();
        for watch in &self.watched {
            let of_process = missed.entry(watch.process).or_default();
            *of_process = of_process.saturating_add(watch.missed);
        }
        let mut is_any_streamed = self.watched.iter().any(|watch| watch.is_streamed);
        for watch in &mut self.watched {
            let all = faulting.get(&watch.process).copied().unwrap_or(0);
            let faults = u128::from(all) * u128::from(watch.missed);
            let faults = faults.checked_div(missed[&watch.process].into()).unwrap_or(0);
            let faults = u64::try_from(faults).unwrap_or(u64::MAX);
            let position = if watch.is_streamed { header.stream.position.load(Acquire) } else { 0 };
            let granted = watch.storm.on_look(faults, position, prices, watch.areas_max);
            if granted > 0 && !is_any_streamed {
                is_any_streamed = true;
                watch.is_streamed = true;
                self.figures.files += 1;
                publish(header, watch);
            }
            if watch.is_streamed {
                watch.pays = watch.storm.pays(prices);
                for (place, area) in header.stream.order.iter().zip(watch.storm.order()) {
                    place.store(*area, Relaxed);
                }
                header.stream.granted.store(granted, Release);
                executor::wake(channel);
            }
        }
    }

    fn forget_idle(&mut self, header: &Header) {
        let figures = &mut self.figures;
        let done = &mut self.done;
        self.watched.retain(|watch| {
            let stays = !watch.file.parts.is_empty() && watch.touched_at.elapsed() < IDLE;
            if !stays && watch.is_streamed {
                end(header);
                figures.bytes_used = figures.bytes_used.saturating_add(watch.storm.used_bytes());
                if watch.storm.is_over(watch.areas_max) && done.len() < DONE_MAX {
                    done.push((watch.process, watch.file.inode));
                }
            }
            stays
        });
    }
}

impl Watch {
    fn new(process: u32, file: Mapped, limits: &MemoryLimits) -> Self {
        let storm = Storm::new(file.end());
        let areas = limits.stream_bytes() / storm.area_bytes();
        Self {
            process,
            areas_max: usize::try_from(areas).unwrap_or(AREAS),
            storm,
            file,
            is_streamed: false,
            pays: false,
            touched_at: Instant::now(),
            missed: 0,
        }
    }
}

/// A replay knows better what the program needs.
fn may_stream(header: &Header) -> bool {
    header.enabled.load(Relaxed) != 0
        && header.control.load(Relaxed) == GO
        && header.replay.state.load(Relaxed) != replay::ON
        && ![MEMORY_SHORT, MEMORY_FULL].contains(&header.memory.load(Relaxed))
}

/// The stream does not go on for now.
fn hold(header: &Header) {
    header.stream.granted.store(0, Release);
}

fn end(header: &Header) {
    hold(header);
    header.stream.position.store(0, Release);
}

/// Another file is streamed, of which nothing is granted yet.
fn publish(header: &Header, watch: &Watch) {
    let stream = &header.stream;
    end(header);
    stream.path_len.store(watch.file.path.len() as u32, Relaxed);
    for (to, from) in stream.path.iter().zip(&watch.file.path) {
        to.store(*from, Relaxed);
    }
    stream.process.store(watch.process, Relaxed);
    stream.inode.store(watch.file.inode, Relaxed);
    stream.area_bytes.store(watch.storm.area_bytes(), Relaxed);
    stream.device.store(0, Relaxed);
    stream.number.fetch_add(1, AcqRel);
}

fn prices(header: &Header) -> Prices {
    let device = header.stream.device.load(Relaxed);
    Prices::of(&limit_of(header, device), header.ticks_per_second.load(Relaxed))
}

/// Major faults of all programs of the machine.
fn machine_faults() -> Option<u64> {
    kernel_text::number(&fs::read_to_string("/proc/vmstat").ok()?, "pgmajfault")
}
