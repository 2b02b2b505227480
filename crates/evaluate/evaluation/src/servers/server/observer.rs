//! What a server's threads do, looked at again and again: where they wait, and what memory the server holds.
//!
//! It takes at most a hundredth of a processor: looks that take longer are made more seldom.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_linux::kernel_text;

use crate::experiments::{Activity, Call, Threads};

/// The shortest time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// So many times the time that a look takes lie between two.
const PAUSE: u32 = 100;
/// How often the processes are looked for, and what they hold.
const LIST_EVERY: Duration = Duration::from_millis(250);
/// No more threads than this are looked at.
const THREADS_MAX: usize = 256;

/// Whose threads.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    /// Of a process and all its descendants.
    Tree(u32),
    /// Of a control group.
    Cgroup(PathBuf),
}

impl Scope {
    /// The processes, as of now.
    pub(super) fn processes(&self) -> Vec<u32> {
        match self {
            Self::Tree(root) => {
                let mut found = vec![*root];
                let mut next = 0;
                while let Some(&process) = found.get(next) {
                    next += 1;
                    for task in tasks(process) {
                        let children = read(process, &format!("task/{task}/children"));
                        found.extend(
                            children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()),
                        );
                    }
                }
                found
            }
            Self::Cgroup(folder) => {
                let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                processes
                    .lines()
                    .filter_map(|process| process.parse().ok())
                    .collect::<BTreeSet<u32>>()
                    .into_iter()
                    .collect()
            }
        }
    }
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// `None` where the kernel does not tell.
    pub(super) threads: Option<Threads>,
    /// Memory that is in no file, swapped or not, in bytes, at even distances of time.
    pub(super) held_bytes: Vec<f64>,
    /// Calls that read or write; `None` where that may not be seen.
    pub(super) calls: Option<Calls>,
}

/// Looks from its start to its stop.
#[derive(Debug)]
pub(super) struct Observer {
    running: Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Observer {
    pub(super) fn start(scope: Scope) -> Self {
        let (running, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut looks = Looks::new(scope);
            loop {
                let begun = Instant::now();
                looks.look();
                let pause = (begun.elapsed() * PAUSE).max(LOOK_EVERY);
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return looks.seen();
                }
            }
        });
        Self { running, thread }
    }

    pub(super) fn stop(self) -> Seen {
        drop(self.running);
        self.thread.join().expect("an observer does not panic")
    }
}

struct Looks {
    scope: Scope,
    processes: Vec<u32>,
    listed: Option<Instant>,
    sums: Threads,
    samples: u32,
    hidden: bool,
    held_bytes: Vec<f64>,
    calls: Option<(Calls, Calls)>,
}

impl Looks {
    fn new(scope: Scope) -> Self {
        Self {
            scope,
            processes: vec![],
            listed: None,
            sums: Threads::default(),
            samples: 0,
            hidden: false,
            held_bytes: vec![],
            calls: None,
        }
    }

    fn look(&mut self) {
        if self.listed.is_none_or(|listed| listed.elapsed() >= LIST_EVERY) {
            self.list();
        }
        self.samples += 1;
        let threads = self
            .processes
            .iter()
            .flat_map(|&process| tasks(process).into_iter().map(move |task| (process, task)));
        for (process, task) in threads.take(THREADS_MAX) {
            let stat = kernel_text::ProcessStat::parse(&read(process, &format!("task/{task}/stat")));
            let Some(state) = stat.map(|stat| stat.state) else { continue };
            let call =
                (state != 'R').then(|| fs::read_to_string(format!("/proc/{process}/task/{task}/syscall")));
            let call = call.map(|text| text.map(|text| waits_in(&text)));
            let running = call.as_ref().is_some_and(|text| matches!(text, Ok(Waits::Not)));
            self.hidden |= call.as_ref().is_some_and(|text| {
                text.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
            });
            let call = call.and_then(Result::ok).and_then(|waits| match waits {
                Waits::In(call) => Some(call),
                Waits::Not => None,
            });
            self.sums += if running { Activity::Processor } else { Activity::of(state, call) };
        }
    }

    fn list(&mut self) {
        self.processes = self.scope.processes();
        self.listed = Some(Instant::now());
        let all = || self.processes.iter();
        self.held_bytes.push(all().map(|&process| held_bytes(&read(process, "status"))).sum());
        let calls = all().filter_map(|&process| Calls::parse(&read(process, "io"))).reduce(Calls::plus);
        self.calls = calls.map(|now| (self.calls.map_or(now, |(first, _)| first), now));
    }

    fn seen(mut self) -> Seen {
        self.list();
        let threads = (!self.hidden && self.samples > 0).then(|| self.sums.mean_of(self.samples));
        let calls = self.calls.map(|(first, last)| last.minus(first));
        Seen { threads, held_bytes: self.held_bytes, calls }
    }
}

fn tasks(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// A file of a process; nothing where it has ended.
fn read(process: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    In(Call),
    /// It runs by now.
    Not,
}

/// What a thread waits in (proc_pid_syscall(5)).
fn waits_in(syscall: &str) -> Waits {
    let Some(Ok(number)) = syscall.split_whitespace().next().map(str::parse::<i64>) else {
        return Waits::Not;
    };
    Waits::In(match number {
        -1 => Call::None,
        libc::SYS_futex | libc::SYS_futex_waitv => Call::Futex,
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile
        | libc::SYS_splice => Call::Send,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Sleep,
        _ => Call::Other,
    })
}

/// Anonymous memory and what of it is swapped out (proc_pid_status(5)).
fn held_bytes(status: &str) -> f64 {
    let bytes = |name| kernel_text::bytes(status, name).unwrap_or(0);
    (bytes("RssAnon") + bytes("VmSwap")) as f64
}

/// Calls that read or write, and what they move (proc_pid_io(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Calls {
    pub(super) number: f64,
    pub(super) bytes: f64,
}

impl Calls {
    fn parse(io: &str) -> Option<Self> {
        let field = |name: &str| kernel_text::field(io, name)?.parse::<f64>().ok();
        let sum = |one: &str, two: &str| Some(field(one)? + field(two)?);
        Some(Self { number: sum("syscr", "syscw")?, bytes: sum("rchar", "wchar")? })
    }

    fn plus(self, other: Self) -> Self {
        Self { number: self.number + other.number, bytes: self.bytes + other.bytes }
    }

    fn minus(self, other: Self) -> Self {
        Self { number: self.number - other.number, bytes: self.bytes - other.bytes }
    }
}

/// Times that the scheduler keeps of a thread (Documentation/scheduler/sched-stats.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Schedstat {
    /// On a processor.
    pub(super) ran_s: f64,
    /// Waiting for one.
    pub(super) queued_s: f64,
}

impl Schedstat {
    pub(super) fn of_this_thread() -> Self {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let stat = kernel_text::Schedstat::parse(&text).unwrap_or_default();
        Self { ran_s: stat.ran_ns as f64 / 1e9, queued_s: stat.queued_ns as f64 / 1e9 }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self { ran_s: self.ran_s - before.ran_s, queued_s: self.queued_s - before.queued_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_by_the_call() {
        assert_eq!(waits_in("running"), Waits::Not);
        assert_eq!(waits_in(&format!("{} 0x0 0x0", libc::SYS_futex)), Waits::In(Call::Futex));
        assert_eq!(waits_in("-1 0x7ffc 0x7f1a"), Waits::In(Call::None));
        assert_eq!(waits_in(&format!("{} 0x5", libc::SYS_epoll_pwait)), Waits::In(Call::Other));
    }

    #[test]
    fn memory_that_is_swapped_out_is_still_held() {
        assert_eq!(held_bytes("VmRSS:\t 900 kB\nRssAnon:\t 100 kB\nVmSwap:\t 20 kB\n"), 120.0 * 1024.0);
    }

    #[test]
    fn calls_are_those_that_read_and_those_that_write() {
        let io = "rchar: 100\nwchar: 20\nsyscr: 3\nsyscw: 1\nread_bytes: 0\n";
        assert_eq!(Calls::parse(io), Some(Calls { number: 4.0, bytes: 120.0 }));
        assert_eq!(Calls::parse(""), None);
    }

    #[test]
    fn a_process_that_sleeps_is_seen_to() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let begun = Instant::now();
        // The child may not have come as far as its sleep yet.
        let seen = loop {
            let seen = Observer::start(Scope::Tree(child.id())).stop();
            let asleep = seen.threads.as_ref().is_some_and(|threads| threads.asleep > threads.processor);
            if asleep || begun.elapsed() > Duration::from_secs(60) {
                break seen;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        let threads = seen.threads.unwrap();
        assert!(threads.asleep > threads.processor && threads.lock == 0.0, "{threads:?}");
        assert!(!seen.held_bytes.is_empty());
    }
}
