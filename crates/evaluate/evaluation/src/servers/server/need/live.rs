//! What runs while its limit of memory goes down and up: a server under its load, or a program.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_counters::{Meter, Options as Counting, Readings, Target as Counted};
use forebay_lab::{MemoryLimit, cold};
use forebay_linux::kernel_text::Schedstat;
use tempfile::TempDir;

use crate::experiments::{Load, Trial};
use crate::harness::interrupt::Interrupt;
use crate::servers::server::files;
use crate::servers::server::measure::Bench;
use crate::servers::server::meters::total;
use crate::servers::server::observer::{Scope, Seen};
use crate::servers::server::process::{LeftBehind, Process};
use crate::servers::server::target::Target;
use crate::{Error, scratch_folder};

/// How often is looked for an interrupt, and whether the program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often is looked which files a program uses.
const FILES_EVERY: Duration = Duration::from_millis(100);
/// A window lasts until the program has had a processor for this share of it, or so many times as long: where other programs have
/// the processors, a program that misses nothing has done nothing.
const WORKED: f64 = 0.2;
const STRETCHED_MAX: f64 = 10.0;
/// So many windows may pass after a change of the limit until pages are no longer missed.
const WINDOWS_MAX: usize = 4;

/// What was counted in a part of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// Answers in a second; of a program without a load the seconds that it computes in one, or its runs in one.
    pub(super) rate: f64,
    /// Of the answers.
    pub(super) p99_s: Option<f64>,
    /// Pages that came back in a second which memory had no room for.
    pub(super) missed: f64,
    /// Pages that came back in a second for which there is room: they went at a lower limit.
    pub(super) filled: f64,
    pub(super) seconds: f64,
    /// The share of the time in which tasks waited for memory.
    pub(super) pressure: Option<f64>,
    /// What the group used at the end, or at most.
    pub(super) used_bytes: f64,
}

/// What a window is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// Pages that come back: a part of the time tells of them.
    Counting,
    /// The rate and the p99.
    Timing,
}

/// So many windows for counting take as long as one for timing, where each has this time.
const COUNTS: f64 = 4.0;
const COUNTED_S_MIN: f64 = 0.1;

/// So many windows for counting as there is time for in one for timing.
fn counts(seconds: f64) -> usize {
    (seconds / COUNTED_S_MIN).clamp(1.0, COUNTS) as usize
}

/// What runs in a group with a limit.
pub(super) trait Live {
    /// Changes the limit.
    fn limit(&mut self, bytes: u64) -> Result<(), Error>;
    /// Counts for a while.
    fn window(&mut self, of: For) -> Result<Window, Error>;
    /// So many windows for counting take as long as one for timing.
    fn counts(&self) -> usize;
    /// So many windows tell of a limit that it is too little.
    fn windows_max(&self) -> usize {
        WINDOWS_MAX
    }
}

/// Pages that came back which memory had no room for, and those for which it has. Where the limit was not reached, it has.
fn missed_and_filled(pages: Option<f64>, limit_hits: Option<f64>) -> (f64, f64) {
    let pages = pages.unwrap_or(0.0);
    if limit_hits == Some(0.0) { (0.0, pages) } else { (pages, 0.0) }
}

/// A load of somebody else's is given up after so many times what it took with all memory.
const LOAD_TIMES_MAX: f64 = 10.0;

/// A server under its load.
pub(super) struct LiveServer<'a> {
    bench: Bench<'a>,
    trial: &'a Trial,
    /// How long the load of the first window took.
    first_s: &'a Cell<Option<f64>>,
    target: Target,
    at_rest: Seen,
}

impl<'a> LiveServer<'a> {
    /// Starts it with so much memory.
    pub(super) fn start(
        bench: &Bench<'a>,
        trial: &'a Trial,
        first_s: &'a Cell<Option<f64>>,
        bytes: u64,
    ) -> Result<Self, Error> {
        let limited = Trial { memory_bytes: Some(bytes), ..trial.clone() };
        let (target, at_rest) = bench.start(&limited)?;
        Ok(Self { bench: *bench, trial, first_s, target, at_rest })
    }
}

impl Live for LiveServer<'_> {
    fn limit(&mut self, bytes: u64) -> Result<(), Error> {
        let group = self.target.group().ok_or_else(|| Error::Load("the server has no group".into()))?;
        Ok(group.set(bytes)?)
    }

    fn window(&mut self, of: For) -> Result<Window, Error> {
        let limit_s = self.first_s.get().map(|first_s| first_s * LOAD_TIMES_MAX);
        self.bench.given.load_limit = limit_s.map(Duration::from_secs_f64);
        let mut description = self.bench.description.clone();
        let shorter = if of == For::Counting { self.counts() as f64 } else { 1.0 };
        description.seconds /= shorter;
        description.warm_up /= shorter;
        let bench = Bench { description: &description, ..self.bench };
        let run = bench.loaded(self.trial, &mut self.target, &self.at_rest)?;
        let evidence = &run.evidence;
        self.first_s.set(self.first_s.get().or(Some(evidence.seconds)));
        let pages = evidence.refaults.or(evidence.major_faults);
        let (missed, filled) = missed_and_filled(pages, evidence.memory_limit_hits);
        Ok(Window {
            rate: evidence.requests / evidence.seconds,
            p99_s: run.figure("latency_p99").or_else(|| run.figure("lateness_p99")),
            missed: missed / evidence.seconds,
            filled: filled / evidence.seconds,
            seconds: evidence.seconds,
            pressure: evidence.memory_pressure_s.map(|pressure_s| pressure_s / evidence.seconds),
            used_bytes: used_bytes(self.target.group()),
        })
    }

    fn counts(&self) -> usize {
        // A load of somebody else's may take whole seconds only.
        let is_own = !matches!(self.trial.load, Load::Command { .. });
        if is_own { counts(self.bench.description.seconds) } else { 1 }
    }
}

/// A program without a load: one that goes on, or one that is run again and again because it ends by itself.
pub(super) struct LiveProgram<'a> {
    line: &'a [OsString],
    interrupt: &'a Interrupt,
    seconds: f64,
    ends: bool,
    folder: TempDir,
    /// The process goes before its group.
    process: Option<Process>,
    _left: LeftBehind,
    group: MemoryLimit,
    files: BTreeSet<PathBuf>,
    looked: Option<Instant>,
}

impl<'a> LiveProgram<'a> {
    /// Starts it with so much memory. One that `ends` is started by each window. `files` are those that it is known to use.
    pub(super) fn start(
        line: &'a [OsString],
        interrupt: &'a Interrupt,
        (seconds, ends): (f64, bool),
        bytes: u64,
        files: BTreeSet<PathBuf>,
    ) -> Result<Self, Error> {
        let group = MemoryLimit::start(bytes)?;
        let left = LeftBehind::of(group.processes_file());
        let folder = scratch_folder()?;
        let mut live = Self {
            line,
            interrupt,
            seconds,
            ends,
            folder,
            process: None,
            _left: left,
            group,
            files,
            looked: None,
        };
        if !ends {
            live.begin()?;
        }
        Ok(live)
    }

    /// Files that it was seen to use.
    pub(super) fn files(&self) -> BTreeSet<PathBuf> {
        self.files.clone()
    }

    /// Whether it ends by itself within so long.
    pub(super) fn ends_within(&mut self, time: Duration) -> Result<bool, Error> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.look();
            if self.pause(LOOK_EVERY)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What was in memory before would not count as its own.
    fn begin(&mut self) -> Result<(), Error> {
        self.process = None;
        for file in &self.files {
            // A file that is gone, or may not be opened, is not evicted.
            let _ = cold::evict(&[file], cold::Extent::Data);
        }
        let folder = std::env::current_dir().unwrap_or_else(|_| self.folder.path().to_owned());
        let said = self.folder.path().join("said");
        let join = self.group.processes_file();
        self.process = Some(Process::start_in(self.line, &folder, &said, Some(&join))?);
        Ok(())
    }

    /// Waits a little; whether the program has ended meanwhile, which is an error where it failed.
    fn pause(&mut self, time: Duration) -> Result<bool, Error> {
        self.interrupt.check()?;
        let killed = self.group.kills()?;
        if killed > 0 {
            return Err(Error::Load(format!(
                "the kernel killed {killed} of its processes for want of memory"
            )));
        }
        let Some(process) = self.process.as_mut() else { return Ok(true) };
        if process.has_ended()? {
            return Ok(true);
        }
        std::thread::sleep(time);
        Ok(false)
    }

    /// Looks now and then which files it uses.
    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < FILES_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        if let Some(process) = &self.process {
            self.files.extend(files::used(&Scope::Tree(process.id())));
        }
    }

    /// A run from its start to its end.
    fn whole(&mut self) -> Result<Window, Error> {
        let meter = self.meter()?;
        self.begin()?;
        let begun = Instant::now();
        while !self.pause(LOOK_EVERY)? {
            self.look();
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(self.counted(&meter.stop(), seconds, 1.0 / seconds))
    }

    /// A part of its time. One that ends meanwhile is started again.
    fn part(&mut self, least_s: f64) -> Result<Window, Error> {
        if self.pause(Duration::ZERO)? {
            self.begin()?;
        }
        let id = self.process.as_ref().map_or(0, Process::id);
        let own = Meter::open(&Counted::Tree(id), &self.counting())?.start()?;
        let meter = self.meter()?;
        let scope = Scope::Tree(id);
        let (begun, ran_s) = (Instant::now(), ran_s(&scope));
        let is_over = || {
            let elapsed_s = begun.elapsed().as_secs_f64();
            let has_worked = || self::ran_s(&scope) - ran_s >= WORKED * least_s;
            elapsed_s >= STRETCHED_MAX * least_s || elapsed_s >= least_s && has_worked()
        };
        while !is_over() {
            if self.pause(LOOK_EVERY)? {
                break;
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let computed = total(&own.stop(), &["cpu_user"], 1.0).unwrap_or(0.0);
        self.look();
        Ok(self.counted(&meter.stop(), seconds, computed))
    }

    fn counting(&self) -> Counting {
        let interval = Duration::from_secs_f64((self.seconds / 4.0).clamp(0.05, 1.0));
        Counting { interval, ..Counting::default() }
    }

    fn meter(&self) -> Result<Meter, Error> {
        let group = Counted::Cgroup(self.group.folder().to_owned());
        Ok(Meter::open(&group, &self.counting())?.start()?)
    }

    fn counted(&self, counts: &Readings, seconds: f64, rate: f64) -> Window {
        let of = |names: &[&str]| total(counts, names, 1.0);
        let refaults = of(&["refaulted_file_pages", "refaulted_anonymous_pages"]);
        let pages = refaults.or_else(|| of(&["major_faults"]));
        let (missed, filled) = missed_and_filled(pages, of(&["memory_limit_hits"]));
        Window {
            rate,
            p99_s: None,
            missed,
            filled,
            seconds,
            pressure: of(&["memory_pressure_some"]),
            used_bytes: used_bytes(Some(&self.group)),
        }
    }
}

impl Live for LiveProgram<'_> {
    fn limit(&mut self, bytes: u64) -> Result<(), Error> {
        Ok(self.group.set(bytes)?)
    }

    fn window(&mut self, of: For) -> Result<Window, Error> {
        let shorter = if of == For::Counting { self.counts() as f64 } else { 1.0 };
        if self.ends { self.whole() } else { self.part(self.seconds / shorter) }
    }

    fn counts(&self) -> usize {
        if self.ends { 1 } else { counts(self.seconds) }
    }

    fn windows_max(&self) -> usize {
        if self.ends { 1 } else { WINDOWS_MAX }
    }
}

/// Processor time of all threads, in seconds.
fn ran_s(scope: &Scope) -> f64 {
    let folders = scope.processes().into_iter().map(|process| format!("/proc/{process}/task"));
    let threads = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let ran_ns = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some(Schedstat::parse(&text)?.ran_ns as f64)
    });
    ran_ns.sum::<f64>() / 1e9
}

/// What a group used at most, or where the kernel does not tell that, what it uses.
fn used_bytes(group: Option<&MemoryLimit>) -> f64 {
    group.and_then(MemoryLimit::used_at_most).unwrap_or(0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_come_back_below_the_limit_are_not_missed() {
        assert_eq!(missed_and_filled(Some(158.0), Some(0.0)), (0.0, 158.0));
        assert_eq!(missed_and_filled(Some(158.0), Some(3.0)), (158.0, 0.0));
        assert_eq!(missed_and_filled(Some(158.0), None), (158.0, 0.0));
        assert_eq!(missed_and_filled(None, Some(3.0)), (0.0, 0.0));
    }
}
