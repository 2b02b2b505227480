//! One look at a process.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forebay_linux::kernel_text::{ProcessStat, Schedstat, Usage, keyed};

use super::ledger::{Id, Seen};
use crate::error::Error;

/// What a process was seen to be.
pub(super) struct Observed {
    pub(super) seen: Seen,
    /// Numbers of the children that it has.
    pub(super) children: Vec<u32>,
    pub(super) threads: Vec<u32>,
    pub(super) resident_kb: Option<f64>,
    pub(super) resident_anonymous_kb: Option<f64>,
    pub(super) resident_file_kb: Option<f64>,
    pub(super) swapped_kb: Option<f64>,
}

/// What the threads of a process came to: voluntary and involuntary context switches, nanoseconds of waiting for a processor and
/// on one.
#[derive(Default)]
pub(super) struct Switches {
    living: HashMap<u32, [f64; 4]>,
    /// Of threads that have ended.
    ended: [f64; 4],
}

impl Switches {
    fn update(&mut self, living: HashMap<u32, [f64; 4]>) -> [f64; 4] {
        for (thread, last) in &self.living {
            if !living.contains_key(thread) {
                self.ended = add(self.ended, *last);
            }
        }
        self.living = living;
        self.living.values().fold(self.ended, |sum, one| add(sum, *one))
    }
}

fn add(sum: [f64; 4], more: [f64; 4]) -> [f64; 4] {
    std::array::from_fn(|index| sum[index] + more[index])
}

/// When a process started.
///
/// # Errors
/// There is no such process, or `/proc` is not there.
pub(super) fn started(pid: u32) -> Result<u64, Error> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if fs::exists("/proc/self/stat").unwrap_or(false) => Error::NoProcess { pid },
        _ => Error::Read { path, source },
    })?;
    ProcessStat::parse(&text).map(|stat| stat.started).ok_or(Error::NoProcess { pid })
}

/// Looks at a process; `None` where there is none. `whole` counts in the children that it waited for.
pub(super) fn observe(pid: u32, whole: bool, switches: &mut BTreeMap<Id, Switches>) -> Option<Observed> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let stat = ProcessStat::parse(&read("stat"))?;
    let id = Id { started: stat.started, pid };
    let text = read("status");
    let status = keyed(&text);
    let field = |key| status.get(key).copied();
    let text = read("io");
    let io = keyed(&text);
    let moved = |key| io.get(key).copied().unwrap_or(0.0);

    let mut children = Vec::new();
    let mut living = HashMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let Some(number) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        living.insert(number, thread_switches(&read("status"), &read("schedstat")));
        if whole {
            children
                .extend(read("children").split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    let threads = living.keys().copied().collect();
    let [voluntary, involuntary, wait, ran] = switches.entry(id).or_default().update(living);

    let of = |one: fn(&Usage) -> u64| (one(&stat.own) + if whole { one(&stat.reaped) } else { 0 }) as f64;
    let Usage { user, system, minor_faults, major_faults } = stat.reaped;
    let seen = Seen {
        id,
        parent: stat.parent,
        reaped: [user, system, minor_faults, major_faults].map(|number| number as f64),
        handed_on: [
            of(|usage| usage.user),
            of(|usage| usage.system),
            of(|usage| usage.minor_faults),
            of(|usage| usage.major_faults),
            moved("read_bytes"),
            moved("write_bytes"),
        ],
        private: [voluntary, involuntary, wait, stat.disk_wait as f64, ran],
    };
    Some(Observed {
        seen,
        children,
        threads,
        resident_kb: field("VmRSS"),
        resident_anonymous_kb: field("RssAnon"),
        resident_file_kb: field("RssFile"),
        swapped_kb: field("VmSwap"),
    })
}

/// By the text of a thread's `status` and `schedstat` (in the kernel's documentation: Scheduler Statistics).
fn thread_switches(status: &str, schedstat: &str) -> [f64; 4] {
    let status = keyed(status);
    let switches = |key| status.get(key).copied().unwrap_or(0.0);
    let stat = Schedstat::parse(schedstat).unwrap_or_default();
    let (wait_ns, ran_ns) = (stat.queued_ns as f64, stat.ran_ns as f64);
    [switches("voluntary_ctxt_switches"), switches("nonvoluntary_ctxt_switches"), wait_ns, ran_ns]
}

/// The children of every process, for kernels whose processes do not name theirs.
pub(super) fn children_by_parent() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in forebay_linux::processes() {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(stat) = ProcessStat::parse(&text) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    children
}

/// Adds the processes of a control group, and of the groups below it.
pub(super) fn members(folder: &Path, found: &mut Vec<u32>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    found.extend(text.lines().filter_map(|pid| pid.parse::<u32>().ok()));
    for below in fs::read_dir(folder).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            members(&below.path(), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_ended_threads_are_kept() {
        let mut switches = Switches::default();
        assert_eq!(
            switches.update([(1, [5.0, 1.0, 9.0, 2.0]), (2, [7.0, 0.0, 1.0, 3.0])].into()),
            [12.0, 1.0, 10.0, 5.0]
        );
        assert_eq!(switches.update([(1, [6.0, 1.0, 9.0, 2.0])].into()), [13.0, 1.0, 10.0, 5.0]);
        assert_eq!(
            switches.update([(1, [6.0, 1.0, 9.0, 2.0]), (2, [1.0; 4])].into()),
            [14.0, 2.0, 11.0, 6.0]
        );
    }

    #[test]
    fn a_thread_tells_its_switches_and_its_wait() {
        let status = "Name:\tcat\nvoluntary_ctxt_switches:\t146\nnonvoluntary_ctxt_switches:\t14\n";
        assert_eq!(thread_switches(status, "267788 1500 1\n"), [146.0, 14.0, 1500.0, 267_788.0]);
        assert_eq!(thread_switches("", ""), [0.0; 4]);
    }

    #[test]
    fn a_process_finds_itself_among_its_parent_s_children() {
        let own = std::process::id();
        assert!(children_by_parent()[&std::os::unix::process::parent_id()].contains(&own));
    }
}
