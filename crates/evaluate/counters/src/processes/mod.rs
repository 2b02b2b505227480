//! What the kernel counts for processes.

mod ledger;
mod observe;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Error, SAME_USER};
use crate::files::OpenFiles;
use crate::sheet::{Sheet, Source};
use ledger::{Id, Ledger, Seen, Used};
use observe::{Observed, Switches, observe, started};

/// What to do where the files of a process lack something.
const NEWER_KERNEL: &str = "run a newer kernel";
/// What to do where the kernel does not account for delays.
const WITH_DELAYS: &str = "boot with delayacct, or run: sysctl kernel.task_delayacct=1";

/// The threads of a process, with `tree` of all that come from it too.
pub(crate) fn threads(pid: u32, tree: bool) -> Vec<u32> {
    let scope = if tree { Scope::Tree(pid) } else { Scope::One(pid) };
    let Ok(mut processes) = Processes::new(scope, false) else { return Vec::new() };
    processes.look().into_iter().flat_map(|one| one.threads).collect()
}

/// Which processes.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// One process.
    One(u32),
    /// A process and all that come from it.
    Tree(u32),
    /// Those of a control group and of the groups below it, by its folder. Only what a control group does not tell itself is
    /// entered of them.
    Group(PathBuf),
}

/// A set of processes, some of which may end, or come.
///
/// What an ended process used is known from the one that waited for it, or else from the last sample. So this is missed: what
/// a process that nobody waits for did after the last sample; and a process that came and went between two samples, if
/// nobody waited for it. Context switches, waiting and the fine time of a thread are known up to the last sample before its end.
pub(crate) struct Processes {
    scope: Scope,
    /// The threads of those that live.
    switches: BTreeMap<Id, Switches>,
    ledger: Ledger,
    has_children_files: bool,
    /// Whether what they read and wrote can be seen.
    has_io: bool,
    /// Whether the kernel tells how long threads waited for a processor.
    has_schedstat: bool,
    /// Whether it accounts for delays.
    has_delays: bool,
    ticks_per_second: f64,
    open_files: Option<OpenFiles>,
}

impl Processes {
    /// Those, with what is in memory of the files that they have `open`, if that is asked for.
    ///
    /// # Errors
    /// There is no such process, or it cannot be looked at.
    pub(crate) fn new(scope: Scope, open: bool) -> Result<Self, Error> {
        let mut has_io = false;
        let mut open_files = open.then(|| OpenFiles::new(None));
        if let Scope::One(pid) | Scope::Tree(pid) = scope {
            open_files = open.then(|| OpenFiles::new(Some(pid)));
            started(pid)?;
            has_io = fs::read(format!("/proc/{pid}/io")).is_ok();
        }
        let ticks_per_second = clock_ticks_per_second() as f64;
        let now = clock_gettime(ClockId::Boottime);
        let now_s = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
        Ok(Self {
            scope,
            switches: BTreeMap::new(),
            ledger: Ledger::new((now_s * ticks_per_second) as u64),
            has_children_files: fs::exists("/proc/thread-self/children").unwrap_or(false),
            has_io,
            has_schedstat: fs::exists("/proc/thread-self/schedstat").unwrap_or(false),
            has_delays: fs::read_to_string("/proc/sys/kernel/task_delayacct")
                .is_ok_and(|on| on.trim() == "1"),
            ticks_per_second,
            open_files,
        })
    }

    /// All of the set that live, each once.
    fn look(&mut self) -> Vec<Observed> {
        let tree = matches!(self.scope, Scope::Tree(_));
        let scanned =
            if tree && !self.has_children_files { observe::children_by_parent() } else { BTreeMap::new() };
        let mut queue = self.candidates();
        let mut met = HashSet::new();
        let mut observed = Vec::new();
        while let Some((pid, expected)) = queue.pop() {
            if met.contains(&pid) {
                continue;
            }
            let Some(one) = observe(pid, tree, &mut self.switches) else { continue };
            // The number may be another process's by now.
            if expected.is_some_and(|started| started != one.seen.id.started) {
                continue;
            }
            met.insert(pid);
            if tree {
                let more = scanned.get(&pid).into_iter().flatten();
                queue.extend(one.children.iter().chain(more).map(|&child| (child, None)));
            }
            observed.push(one);
        }
        let living: HashSet<Id> = observed.iter().map(|one| one.seen.id).collect();
        self.switches.retain(|id, _| living.contains(id));
        observed
    }

    /// Numbers of processes to look at, with the start that each must have.
    fn candidates(&self) -> Vec<(u32, Option<u64>)> {
        match &self.scope {
            Scope::Group(folder) => {
                let mut found = Vec::new();
                observe::members(folder, &mut found);
                found.into_iter().map(|pid| (pid, None)).collect()
            }
            Scope::One(root) | Scope::Tree(root) if self.ledger.is_blank() => vec![(*root, None)],
            Scope::One(_) | Scope::Tree(_) => {
                self.ledger.living().map(|id| (id.pid, Some(id.started))).collect()
            }
        }
    }

    fn own(&self, sheet: &mut Sheet, observed: &[Observed], used: &Used) {
        let [user, system, minor_faults, major_faults, read_bytes, written_bytes] = used.handed_on;
        let seconds = |ticks: f64| Some(ticks / self.ticks_per_second);
        sheet.from("/proc/PID/stat", NEWER_KERNEL);
        sheet.total("cpu_user", "s", seconds(user));
        sheet.total("cpu_system", "s", seconds(system));
        sheet.total("minor_faults", "1", Some(minor_faults));
        sheet.total("major_faults", "1", Some(major_faults));
        let moved = |bytes| Some(bytes).filter(|_| self.has_io);
        sheet.from("/proc/PID/io", SAME_USER);
        sheet.total("disk_read_bytes", "B", moved(read_bytes));
        sheet.total("disk_written_bytes", "B", moved(written_bytes));
        let pages = |of: fn(&Observed) -> Option<f64>| {
            let kilobytes = observed.iter().filter_map(of).reduce(|sum, more| sum + more);
            kilobytes.map(|sum| sum * 1024.0 / page_size() as f64)
        };
        sheet.from("/proc/PID/status", NEWER_KERNEL);
        sheet.level("resident_pages", "pages", pages(|one| one.resident_kb));
        sheet.level("resident_anonymous_pages", "pages", pages(|one| one.resident_anonymous_kb));
        sheet.level("resident_file_pages", "pages", pages(|one| one.resident_file_kb));
        sheet.level("swapped_pages", "pages", pages(|one| one.swapped_kb));
    }

    fn waits(&self, sheet: &mut Sheet, used: &Used) {
        let [voluntary, involuntary, cpu_wait, disk_wait, ran] = used.private;
        sheet.from("/proc/PID/task/TID/status", NEWER_KERNEL);
        sheet.total("voluntary_switches", "1", Some(voluntary));
        sheet.total("involuntary_switches", "1", Some(involuntary));
        sheet.from("/proc/PID/task/TID/schedstat", "run a kernel built with CONFIG_SCHED_INFO");
        sheet.total("cpu_wait", "s", Some(cpu_wait / 1e9).filter(|_| self.has_schedstat));
        sheet.total("thread_time", "s", Some(ran / 1e9).filter(|_| self.has_schedstat));
        sheet.from("/proc/PID/stat", WITH_DELAYS);
        sheet.total("disk_wait", "s", Some(disk_wait / self.ticks_per_second).filter(|_| self.has_delays));
    }
}

impl Source for Processes {
    fn sample(&mut self, sheet: &mut Sheet) {
        let observed = self.look();
        let seen: Vec<Seen> = observed.iter().map(|one| one.seen).collect();
        let used = self.ledger.update(&seen);
        if !matches!(self.scope, Scope::Group(_)) {
            self.own(sheet, &observed, &used);
        }
        self.waits(sheet, &used);
        let threads: usize = observed.iter().map(|one| one.threads.len()).sum();
        sheet.from("/proc", NEWER_KERNEL);
        sheet.level("processes", "1", Some(observed.len() as f64));
        sheet.level("threads", "1", Some(threads as f64));
        if let Some(files) = &self.open_files {
            files.sample(observed.iter().map(|one| one.seen.id.pid), sheet);
        }
    }
}
