//! What a server does, looked at again and again: where its threads wait, where its connections lead, what memory it holds.
//!
//! Looks at threads take at most a hundredth of a processor, and looks at connections a fiftieth: those that take longer are
//! made more seldom.

mod affinity;
mod ends;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_linux::groups::quota::{self, Quota};
use forebay_linux::kernel_text;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

use crate::experiments::{Activity, Call, Clients, Dependency, Threads, Throttled, Timeouts};
use affinity::allowed_processors;
use ends::{Ends, Lead};
use waits::{Waits, timer_s};

/// The shortest time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// So many times the time that a look takes lie between two.
const PAUSE: u32 = 100;
/// The same for looks at connections.
const PAUSE_OF_CONNECTIONS: u32 = 50;
/// How often the processes are looked for, and what they hold.
const LIST_EVERY: Duration = Duration::from_millis(250);
/// No more threads than this are looked at in one look.
const THREADS_MAX: usize = 128;

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
                    found.extend(tasks(process).into_iter().flat_map(|task| children((process, task))));
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
    /// Threads that were ever seen at something; `None` where not all were looked at.
    pub(super) threads_at_work: Option<f64>,
    /// The share of the looks in which the busiest thread was on a processor or waited for one.
    pub(super) busiest_thread: Option<f64>,
    /// Of the looks in which any thread was, the share in which only one was.
    pub(super) one_at_a_time: Option<f64>,
    /// Threads that wait for each other for a time at most.
    pub(super) timed_locks: f64,
    /// How long threads that sleep do.
    pub(super) sleeps: Timeouts,
    /// How long threads that wait for events are ready to wait.
    pub(super) timeouts: Timeouts,
    /// `None` where the kernel does not list connections.
    pub(super) clients: Option<Clients>,
    pub(super) dependencies: Vec<Dependency>,
    /// What it is connected to without TCP.
    pub(super) leads: Vec<String>,
    /// Processors that the threads which ran may use; `None` where that is not known.
    pub(super) allowed_processors: Option<f64>,
    /// Of the group whose quota ran out most often.
    pub(super) quota: Option<Throttled>,
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
                let took = looks.look();
                let pause = (took * PAUSE).max(LOOK_EVERY);
                looks.look_at_connections();
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

/// A thread, by its process and its own number.
type Thread = (u32, u32);

/// Threads that were seen to wait at one word.
#[derive(Clone, Debug, Default)]
struct Word {
    threads: BTreeSet<Thread>,
    /// How many of them, over all looks.
    sum: f64,
    /// Of those the ones that wait for a time at most.
    timed: f64,
}

/// Threads that wait for the same.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Over all looks.
    sum: f64,
    /// In one look.
    most: f64,
}

struct Looks {
    scope: Scope,
    processes: Vec<u32>,
    begun: Instant,
    listed: Option<Instant>,
    sums: Threads,
    samples: u32,
    hidden: bool,
    /// In how many looks a thread was on a processor, or waited for one.
    running: BTreeMap<Thread, u32>,
    at_work: BTreeSet<Thread>,
    /// By the process and the address.
    words: BTreeMap<(u32, u64), Word>,
    /// Looks that found some thread running, and those that found one only.
    with_any: u32,
    with_one: u32,
    /// There were more threads than are looked at.
    in_part: bool,
    sleeps: Timeouts,
    timeouts: Timeouts,
    ends: Ends,
    /// When the connections are looked at again.
    connections_due: Option<Instant>,
    sees_connections: bool,
    /// Threads that wait for another program without a TCP connection, by its name: in this look, and in all.
    waiting_now: BTreeMap<String, f64>,
    waiting_for: BTreeMap<String, Waiting>,
    quotas: BTreeMap<PathBuf, (Quota, Quota)>,
    held_bytes: Vec<f64>,
    calls: Option<(Calls, Calls)>,
}

impl Looks {
    fn new(scope: Scope) -> Self {
        Self {
            scope,
            processes: vec![],
            begun: Instant::now(),
            listed: None,
            sums: Threads::default(),
            samples: 0,
            hidden: false,
            running: BTreeMap::new(),
            at_work: BTreeSet::new(),
            words: BTreeMap::new(),
            sleeps: Timeouts::default(),
            with_any: 0,
            with_one: 0,
            in_part: false,
            timeouts: Timeouts::default(),
            ends: Ends::default(),
            connections_due: None,
            sees_connections: false,
            waiting_now: BTreeMap::new(),
            waiting_for: BTreeMap::new(),
            quotas: BTreeMap::new(),
            held_bytes: vec![],
            calls: None,
        }
    }

    /// Looks at the threads; the processor time that this took.
    fn look(&mut self) -> Duration {
        let begun = thread_time();
        if self.listed.is_none_or(|listed| listed.elapsed() >= LIST_EVERY) {
            self.list();
        } else if matches!(self.scope, Scope::Cgroup(_)) {
            // That is one file.
            self.processes = self.scope.processes();
        }
        let threads: Vec<Thread> = self
            .processes
            .iter()
            .flat_map(|&process| tasks(process).into_iter().map(move |task| (process, task)))
            .collect();
        // Of many threads each look takes others, at even distances.
        let distance = threads.len().div_ceil(THREADS_MAX).max(1);
        let begin = self.samples as usize % distance;
        self.in_part |= distance > 1;
        self.samples += 1;
        let weight = distance as f64;
        let mut looked_at: Vec<Thread> = threads.into_iter().skip(begin).step_by(distance).collect();
        self.add_young(&mut looked_at);
        let moments: Vec<(Thread, char, Waits)> = looked_at
            .into_iter()
            .filter_map(|thread| self.moment(thread).map(|(state, waits)| (thread, state, waits)))
            .collect();
        let mut running = 0;
        for (thread, state, waits) in moments {
            let call = self.call(thread.0, state, &waits, weight);
            let activity = if waits == Waits::Not && state != 'Z' {
                Activity::Processor
            } else {
                Activity::of(state, call)
            };
            self.sums.add(activity, weight);
            if activity == Activity::Processor {
                running += 1;
                *self.running.entry(thread).or_default() += 1;
            }
            match call {
                Some(Call::Futex { word, timed }) if activity == Activity::Parked => {
                    let word = self.words.entry((thread.0, word)).or_default();
                    word.threads.insert(thread);
                    word.sum += weight;
                    word.timed += if timed { weight } else { 0.0 };
                }
                _ if activity == Activity::Idle => {}
                _ => drop(self.at_work.insert(thread)),
            }
        }
        self.with_any += u32::from(running > 0);
        self.with_one += u32::from(running == 1);
        for (name, threads) in std::mem::take(&mut self.waiting_now) {
            let waiting = self.waiting_for.entry(name).or_default();
            waiting.sum += threads;
            waiting.most = waiting.most.max(threads);
        }
        thread_time().saturating_sub(begun)
    }

    /// Adds the threads of processes that began after the last list: most may live shorter than from one list to the next.
    fn add_young(&self, looked_at: &mut Vec<Thread>) {
        if matches!(self.scope, Scope::Cgroup(_)) {
            return;
        }
        let mut next = 0;
        while let Some(&parent) = looked_at.get(next) {
            next += 1;
            let young = children(parent).into_iter().filter(|child| !self.processes.contains(child));
            looked_at.extend(young.flat_map(|child| tasks(child).into_iter().map(move |task| (child, task))));
        }
    }

    /// The state of a thread, and what it waits in; `None` where it has ended.
    fn moment(&mut self, (process, task): Thread) -> Option<(char, Waits)> {
        let text = read(process, &format!("task/{task}/stat"));
        let state = kernel_text::ProcessStat::parse(&text)?.state;
        if state == 'R' {
            return Some((state, Waits::Not));
        }
        // Threads by which the kernel carries out what a ring of requests asks for.
        if text.contains("(iou-") {
            return Some((state, Waits::In(Call::Unknown)));
        }
        let waits = match fs::read_to_string(format!("/proc/{process}/task/{task}/syscall")) {
            Ok(text) => Waits::parse(&text, File::open(format!("/proc/{process}/mem")).ok().as_ref()),
            Err(error) => {
                self.hidden |= error.kind() == std::io::ErrorKind::PermissionDenied;
                Waits::In(Call::Unknown)
            }
        };
        let in_kernel_lock = state == 'D' && waits == Waits::In(Call::None) && {
            let place = read(process, &format!("task/{task}/wchan"));
            place.starts_with("rwsem_") || place.starts_with("down_")
        };
        Some((state, if in_kernel_lock { Waits::In(Call::AddressSpace) } else { waits }))
    }

    /// What the call of a thread waits for, where its descriptors lead.
    fn call(&mut self, process: u32, state: char, waits: &Waits, weight: f64) -> Option<Call> {
        let lead = match waits {
            Waits::Not => return None,
            Waits::In(call) => return Some(*call),
            Waits::Asleep(seconds) => {
                self.sleeps.add(seconds.unwrap_or(0.0), weight);
                return Some(Call::Sleep);
            }
            _ if state != 'S' => return Some(Call::Unknown),
            Waits::On(descriptor) => self.ends.lead(process, *descriptor),
            Waits::To(descriptor) => match self.ends.lead(process, *descriptor) {
                Lead::Client | Lead::Unknown => return Some(Call::Send),
                lead => lead,
            },
            Waits::OnAny(descriptors, timeout) => {
                self.note_timeout(*timeout, weight);
                let leads = descriptors.iter().map(|descriptor| self.ends.lead(process, *descriptor));
                let leads: Vec<Lead> = leads.collect();
                // One that a client may wake waits for clients.
                let other = |lead: &&Lead| matches!(lead, Lead::Server | Lead::Named(_));
                match leads.iter().find(other) {
                    Some(lead) if !leads.contains(&Lead::Client) => lead.clone(),
                    _ => Lead::Unknown,
                }
            }
            Waits::Events(epoll, timeout) => {
                let timer = epoll.and_then(|epoll| self.timer_of(process, epoll));
                let sooner = [*timeout, timer].into_iter().flatten().reduce(f64::min);
                self.note_timeout(sooner, weight);
                Lead::Unknown
            }
        };
        if let Lead::Named(name) = &lead {
            *self.waiting_now.entry(name.clone()).or_default() += weight;
        }
        Some(lead.call())
    }

    fn note_timeout(&mut self, timeout: Option<f64>, weight: f64) {
        if let Some(seconds) = timeout.filter(|seconds| *seconds > 0.0) {
            self.timeouts.add(seconds, weight);
        }
    }

    /// The seconds until the next timer of a set of descriptors fires.
    fn timer_of(&self, process: u32, epoll: u64) -> Option<f64> {
        let timers = self.ends.timers(process);
        if timers.is_empty() {
            return None;
        }
        let text = read(process, &format!("fdinfo/{epoll}"));
        let members = text
            .lines()
            .filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse::<u64>().ok());
        let set = members.filter(|member| timers.contains(member));
        set.filter_map(|timer| timer_s(process, timer)).reduce(f64::min)
    }

    /// Looks at the connections, where it is time, and adds what the threads waited for that has none.
    fn look_at_connections(&mut self) {
        if self.connections_due.is_some_and(|due| due > Instant::now()) {
            return;
        }
        let begun = thread_time();
        if self.connections_due.is_none() {
            self.sees_connections = enter_network_of(self.processes.first().copied());
        }
        if self.sees_connections {
            self.ends.look(self.begun.elapsed().as_secs_f64());
        }
        let took = thread_time().saturating_sub(begun);
        self.connections_due = Some(Instant::now() + took * PAUSE_OF_CONNECTIONS);
    }

    fn list(&mut self) {
        self.processes = self.scope.processes();
        self.listed = Some(Instant::now());
        self.ends.belong_to(&self.processes);
        let all = || self.processes.iter();
        self.held_bytes.push(all().map(|&process| held_bytes(&read(process, "status"))).sum());
        let calls = all().filter_map(|&process| Calls::parse(&read(process, "io"))).reduce(Calls::plus);
        self.calls = calls.map(|now| (self.calls.map_or(now, |(first, _)| first), now));
        let groups: BTreeSet<PathBuf> = all().flat_map(|&process| quota::limiting(process)).collect();
        for group in groups {
            let Some(now) = quota::of(&group) else { continue };
            let first = self.quotas.get(&group).map_or(now, |(first, _)| *first);
            self.quotas.insert(group, (first, now));
        }
    }

    fn seen(mut self) -> Seen {
        self.list();
        self.look_at_connections();
        let mut timed = 0.0;
        for word in self.words.values().filter(|word| word.threads.len() > 1) {
            self.sums.parked_together(word.sum);
            self.at_work.extend(&word.threads);
            timed += word.timed;
        }
        let whole = |value: f64| Some(value).filter(|_| !self.in_part && !self.hidden && self.samples > 0);
        let samples = f64::from(self.samples.max(1));
        let busiest = self.running.values().max().copied().unwrap_or(0);
        let of_process = |&process: &u32| tasks(process).into_iter().map(move |task| (process, task));
        let all = || self.processes.iter().flat_map(of_process);
        let ran = allowed_processors(self.running.keys().copied());
        let mut seen = Seen {
            threads: (!self.hidden && self.samples > 0).then(|| self.sums.mean_of(self.samples)),
            threads_at_work: whole(self.at_work.len() as f64),
            busiest_thread: whole(f64::from(busiest) / samples),
            one_at_a_time: whole(f64::from(self.with_one) / f64::from(self.with_any))
                .filter(|_| self.with_any > 0),
            timed_locks: timed / samples,
            sleeps: self.sleeps.mean_of(self.samples),
            timeouts: self.timeouts.mean_of(self.samples),
            allowed_processors: ran.or_else(|| allowed_processors(all())),
            quota: throttled(self.quotas.values()),
            held_bytes: self.held_bytes,
            calls: self.calls.map(|(first, last)| last.minus(first)),
            ..Seen::default()
        };
        if self.sees_connections && self.ends.is_complete() {
            if let Some((clients, dependencies)) = self.ends.sockets.means() {
                (seen.clients, seen.dependencies) = (Some(clients), dependencies);
            }
            seen.leads = self.ends.leads();
        }
        seen.dependencies.extend(self.waiting_for.into_iter().map(|(name, threads)| Dependency {
            name,
            connections: threads.most,
            waiting: threads.sum / samples,
            ..Dependency::default()
        }));
        seen
    }
}

/// The quota that ran out in the largest share of its periods.
fn throttled<'a>(quotas: impl Iterator<Item = &'a (Quota, Quota)>) -> Option<Throttled> {
    let shares = quotas.filter_map(|(first, last)| {
        let periods = last.periods - first.periods;
        let share = (last.throttled - first.throttled) / periods;
        (periods > 0.0).then_some(Throttled { processors: last.processors, share })
    });
    shares.max_by(|one, other| one.share.total_cmp(&other.share))
}

/// Puts this thread into the network namespace of the process; whether it is in that one.
fn enter_network_of(process: Option<u32>) -> bool {
    let Some(process) = process else { return false };
    let path = format!("/proc/{process}/ns/net");
    let (Ok(own), Ok(its)) = (fs::read_link("/proc/thread-self/ns/net"), fs::read_link(&path)) else {
        return false;
    };
    own == its
        || File::open(path).is_ok_and(|namespace| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).is_ok()
        })
}

/// Processor time of this thread. What the scheduler says in `/proc` is as old as the thread's last switch.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

pub(super) fn tasks(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// Processes that a thread has started (proc_tid_children(5)).
fn children((process, task): Thread) -> Vec<u32> {
    let children = read(process, &format!("task/{task}/children"));
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// A file of a process; nothing where it has ended.
fn read(process: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default()
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
        Self::parse(&text).unwrap_or_default()
    }

    /// `None` where the thread has ended.
    pub(super) fn of(process: u32, thread: u32) -> Option<Self> {
        Self::parse(&read(process, &format!("task/{thread}/schedstat")))
    }

    fn parse(text: &str) -> Option<Self> {
        let stat = kernel_text::Schedstat::parse(text)?;
        Some(Self { ran_s: stat.ran_ns as f64 / 1e9, queued_s: stat.queued_ns as f64 / 1e9 })
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self { ran_s: self.ran_s - before.ran_s, queued_s: self.queued_s - before.queued_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
