//! Records what a run needs, from two sources: the access log, and the kernel's samples of page faults.

use std::{
    cell::Cell,
    fs::{self, File},
    io::IoSliceMut,
    path::Path,
    sync::atomic::Ordering::{Relaxed, SeqCst},
    time::{Duration, Instant},
};

use forebay_linux::kernel_text::ProcessStat;
use forebay_profile::{Kind, Need};
use forebay_protocol::{
    access_log::{AccessLog, wanted},
    layout::replay,
};

use rustix::{
    io::{ReadWriteFlags, preadv2},
    param::clock_ticks_per_second,
};

use super::{
    access::{Entry, LogReader, microseconds},
    fault_samples::{FaultSamples, Found},
    needs::{Needs, Recorded},
    opening::{Answer, Opening},
};
use crate::{
    channel::Channel,
    ffi::{self, FaultEvents},
    storms::family,
};

/// A program with an agent has its faults watched when it lasts so long: its agent sees what it maps.
const LASTS: Duration = Duration::from_millis(50);
/// Without a fault for so long, faults are watched no longer: while they are, each switch between processes costs more.
const QUIET: Duration = Duration::from_secs(10);
/// The same by the processor time of the program. One that waits for a device may fault again when it has what it waits for.
const QUIET_USED: Duration = Duration::from_millis(500);

/// What is prepared in the process that becomes the program, or starts it, before it does.
pub struct Recording {
    clock: Clock,
    /// Whether the recorder is to watch the program's faults.
    is_cold: Cell<bool>,
}

/// The start of the run.
#[derive(Clone, Copy)]
struct Clock {
    raw_ns: u64,
    ticks_per_second: u64,
}

impl Recording {
    /// Has agents of this channel write down what their programs need.
    #[must_use]
    pub fn prepare(channel: &Channel) -> Self {
        let log = channel.access_log();
        let (ticks, raw_ns) = ffi::simultaneous();
        log.since.store(ticks, Relaxed);
        log.wanted.store(wanted::ACCESSES | wanted::MAPPED, Relaxed);
        let ticks_per_second = channel.header().ticks_per_second.load(Relaxed);
        Self { clock: Clock { raw_ns, ticks_per_second }, is_cold: Cell::new(false) }
    }

    /// Has the recorder watch the faults of the program at `path` unless that is in memory.
    pub fn look_at(&self, path: &Path) {
        self.is_cold.set(self.is_cold.get() || !begins_in_memory(path));
    }

    /// Agents need not tell which mapped pages their programs have.
    pub fn leave_mapped(&self, channel: &Channel) {
        channel.access_log().wanted.fetch_and(!wanted::MAPPED, Relaxed);
    }

    /// The program has other rights than this process: nothing of the run is recorded or replayed, and the supervisor leaves.
    pub fn renounce(&self, channel: &Channel) {
        channel.access_log().wanted.store(0, Relaxed);
        channel.header().replay.state.store(replay::STOPPED, SeqCst);
        channel.header().enabled.store(0, Relaxed);
    }
}

/// Collects what a run needs.
pub struct Recorder {
    clock: Clock,
    faults: Watch,
    found: Found,
    last_fault: Instant,
    /// Processor time of the program at that time.
    used: Duration,
    is_beside: bool,
}

/// How far the program's faults are watched.
enum Watch {
    /// Not at all.
    Off,
    /// From when it has lasted.
    Due(Instant),
    /// The kernel opens events.
    Begins(Opening),
    On(Box<FaultSamples>),
}

impl Recorder {
    /// Begins, in the supervisor of a program that is not begun, or beside one that is about to begin.
    #[must_use]
    pub fn start(recording: &Recording, is_beside: bool) -> Self {
        Self {
            clock: recording.clock,
            faults: if recording.is_cold.get() { Watch::Due(Instant::now() + LASTS) } else { Watch::Off },
            found: Found::default(),
            last_fault: Instant::now(),
            used: Duration::ZERO,
            is_beside,
        }
    }

    /// A process has no agent, so faults are watched at once.
    pub fn watch_soon(&mut self) {
        if let Watch::Due(at) = &mut self.faults {
            *at = Instant::now();
        }
    }

    /// Goes on with the watch of the faults of the program `pid`: begins it where that is due, and takes what was sampled. Neither the
    /// program nor the end of its run waits for the kernel. Without events, what agents see is recorded. The calling thread must be the
    /// only one.
    pub fn watch(&mut self, pid: u32) {
        self.faults = match std::mem::replace(&mut self.faults, Watch::Off) {
            Watch::Due(at) if Instant::now() >= at => Opening::begin(pid).map_or(Watch::Off, Watch::Begins),
            Watch::Begins(opening) => match opening.answer() {
                Answer::None => Watch::Begins(opening),
                Answer::Refused => Watch::Off,
                Answer::Opened(events) => self.samples_from(events, pid).map_or(Watch::Off, Watch::On),
            },
            Watch::On(mut faults) => {
                if faults.look() {
                    (self.last_fault, self.used) = (Instant::now(), processor_time(pid).unwrap_or(self.used));
                }
                Watch::On(faults)
            }
            other => other,
        };
    }

    fn samples_from(&mut self, events: FaultEvents, pid: u32) -> Option<Box<FaultSamples>> {
        let mut samples = Box::new(FaultSamples::new(events).ok()?);
        (self.last_fault, self.used) = (Instant::now(), processor_time(pid).unwrap_or_default());
        family::processes(pid).for_each(|process| samples.begin_with(process, self.clock.raw_ns));
        Some(samples)
    }

    /// Watches no longer if there was no fault for long.
    pub fn rest(&mut self, pid: u32) {
        let used = || processor_time(pid).unwrap_or(self.used).saturating_sub(self.used);
        if matches!(self.faults, Watch::On(_)) && (self.last_fault.elapsed() > QUIET || used() > QUIET_USED) {
            self.stop_watching();
        }
    }

    /// Nothing more is recorded of the run.
    pub fn stop(&mut self, channel: &Channel) {
        channel.access_log().wanted.store(0, Relaxed);
        self.stop_watching();
    }

    fn stop_watching(&mut self) {
        if let Watch::On(faults) = std::mem::replace(&mut self.faults, Watch::Off) {
            self.found = faults.finish(self.is_beside);
        }
    }

    /// About so many needs that were recorded so far, of the first ones; fewer where there are not as many. Some may not be met
    /// again.
    #[must_use]
    pub fn first_needs(&self, channel: &Channel, count: usize) -> Vec<Need> {
        let mut needs = Needs::default();
        let faults = if let Watch::On(faults) = &self.faults { Some(faults) } else { None };
        for fault in faults.into_iter().flat_map(|faults| faults.so_far()) {
            needs.add(self.clock.of_ns(fault.at_ns), &fault.path, Kind::Mapped, fault.range.clone());
        }
        read_log(channel.access_log(), self.clock, &mut needs, count);
        needs.first(count)
    }

    /// All that was recorded.
    #[must_use]
    pub fn finish(mut self, channel: &Channel) -> Recorded {
        self.stop_watching();
        let mut needs = Needs::default();
        let Found { faults, executed, lost, files, .. } = self.found;
        for fault in faults {
            needs.add(self.clock.of_ns(fault.at_ns), &fault.path, Kind::Mapped, fault.range);
        }
        for program in executed {
            needs.add(self.clock.of_ns(program.at_ns), &program.path, Kind::Executed, 0..0);
        }
        read_log(channel.access_log(), self.clock, &mut needs, usize::MAX);
        needs.finish(&files, lost)
    }
}

/// Whether the beginning of a file is in memory, as far as it can be told.
fn begins_in_memory(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return true };
    preadv2(&file, &mut [IoSliceMut::new(&mut [0])], 0, ReadWriteFlags::NOWAIT).is_ok()
}

/// What the program has used of processors, with the processes that it has waited for.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    let ticks = [stat.own, stat.reaped].iter().map(|usage| usage.user + usage.system).sum::<u64>();
    Some(Duration::from_millis(ticks * 1000 / clock_ticks_per_second()))
}

impl Clock {
    /// Microseconds since the start.
    fn of_ns(self, raw_ns: u64) -> u32 {
        u32::try_from(raw_ns.saturating_sub(self.raw_ns) / 1000).unwrap_or(u32::MAX)
    }

    /// The same from what the access log has.
    fn of_log(self, at: u32) -> u32 {
        microseconds(at, self.ticks_per_second)
    }
}

/// Adds what is recorded, until so many more needs are found.
fn read_log(log: &AccessLog, clock: Clock, needs: &mut Needs, count: usize) {
    let count = needs.added().saturating_add(count);
    let mut reader = LogReader::default();
    while needs.added() < count
        && let Some(entry) = reader.next(log)
    {
        match entry {
            Entry::Needed { at, path, kind, range } => needs.add(clock.of_log(at), &path, kind, range),
            Entry::Made { at, path } => needs.add_made(clock.of_log(at), &path),
            Entry::File { path, identity, .. } => needs.add_identity(&path, identity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_protocol::access_log::{Attributes, Outcome, Use};

    /// A log in which all of a run is: a folder, files found and missing from there, ranges.
    #[test]
    fn paths_begin_where_their_records_say() {
        let channel = Channel::create(false).unwrap();
        let log = channel.access_log();
        let path = b"/folder";
        let base = log.append_path(Outcome::Named, 0, 0, path).unwrap();
        let file = log.append_path(Outcome::Found, 1, base, b"./file").unwrap();
        log.append_path(Outcome::Missing, 2, base, b"none").unwrap();
        log.append_path(Outcome::Missing, 3, 77, b"of-no-folder").unwrap();
        log.append_attributes(0, file, &Attributes { dev: 1, ino: 2, size: 5000, mtime_ns: 3 });
        log.append_range(Use::Read, 4, file, 0, 10).unwrap();
        let last = log.append_range(Use::Read, 5, file, 4096, 4097).unwrap();
        log.extend(last, 4100);
        log.mark(last, true);
        log.append_range(Use::Read, 6, 9999, 0, 10).unwrap();
        let needs = Recorder::start(&Recording::unwatched(), false).finish(&channel).needs;
        let found: Vec<_> =
            needs.iter().map(|need| (&need.path[path.len()..], need.kind, need.range.clone())).collect();
        let expected = [
            (&b"/file"[..], Kind::LookUp, 0..0),
            (b"/none", Kind::Missing, 0..0),
            (b"/file", Kind::Read, 0..10),
            (b"/file", Kind::Read, 4096..5000),
        ];
        assert_eq!(found, expected);
    }

    impl Recording {
        /// Without faults.
        fn unwatched() -> Self {
            Self { clock: Clock { raw_ns: 0, ticks_per_second: 1 << 20 }, is_cold: Cell::new(false) }
        }
    }
}
