//! Asks the kernel to send threads of a process a signal after each of their page faults that waited for a device.
//!
//! The supervisor owns the events, so the program finds no descriptor that it did not open. They end when the process
//! executes another program. Most processes have no such faults: one gets an event only after its agent saw a fault.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs, io, mem,
    os::fd::OwnedFd,
    sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst},
    time::Instant,
};

use forebay_linux::features::has_userfaultfd;
use forebay_linux::kernel_text::ProcessStat;
use forebay_policy::fault_signals::{event_period, is_pause, period_of, price_us};
use forebay_policy::price::{EVENT_BUSIER_TIMES, EVENT_FAULTS_MIN};
use forebay_protocol::layout::{Header, WATCHED_THREADS, WISH_NEVER, Watched, WatchedThread, feature};
use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};

use crate::ffi;

/// Threads of a process that have events.
const EVENTS_MAX: usize = 8;

/// SIGURG in a set of signals. A blocked one would be seen; libc blocks all for a moment at times.
const SIGNAL: u64 = 1 << (libc::SIGURG - 1);

/// The processes that want to be told of their faults.
#[derive(Default)]
pub struct Faults(HashMap<usize, Process>);

/// One of them.
struct Process {
    image: u32,
    signals: Signals,
    threads: [Thread; WATCHED_THREADS],
}

/// Whether there are events for it. Those that cause no signals cost each switch to the process, and each from it, too; so
/// there are none while none are wanted.
enum Signals {
    /// It has not been seen to fault: how many it had, and when.
    NotYet { faults: u64, seen_at: Instant },
    /// One fault in `period` has a signal. How many it had.
    OneIn { period: u32, faults: u64 },
    /// There is no event until it has had so many faults, or wishes otherwise.
    Pause { until: u64 },
    /// It will get none.
    Refused,
}

/// A thread of a process.
#[derive(Default)]
struct Thread {
    /// Its name in the header.
    name: u64,
    /// How many faults it had.
    faults: u64,
    event: Option<OwnedFd>,
}

impl Faults {
    /// Looks at all of them; whether one is told of its faults that was not before. The process whose faults are `spared` is told
    /// of none.
    pub fn look(&mut self, header: &Header, spared: Option<u32>) -> bool {
        let mut is_newly_told = false;
        for (index, entry) in header.watched.iter().enumerate() {
            let pid = entry.pid.load(Acquire);
            if pid == 0 {
                continue;
            }
            let told = &header.watched_threads[index];
            if ended(pid) {
                self.0.remove(&index);
                entry.wish.store(0, Relaxed);
                told.iter().for_each(|thread| thread.open.store(0, Relaxed));
                entry.open.store(0, Relaxed);
                entry.pid.store(0, Release);
                continue;
            }
            let image = entry.image.load(Acquire);
            let process = self.0.entry(index).or_insert_with(|| Process::new(image));
            if process.image != image {
                process.close(entry, told);
                *process = Process::new(image);
            }
            if spared == Some(pid) && !matches!(process.signals, Signals::Refused) {
                process.close(entry, told);
                *process = Process::new(image);
                continue;
            }
            let was_told = process.is_told();
            process.look(header, entry, told, pid);
            is_newly_told |= process.is_told() && !was_told;
        }
        is_newly_told
    }
}

type Told = [WatchedThread; WATCHED_THREADS];

impl Process {
    fn new(image: u32) -> Self {
        let signals = Signals::NotYet { faults: u64::MAX, seen_at: Instant::now() };
        Self { image, signals, threads: Default::default() }
    }

    fn is_told(&self) -> bool {
        matches!(self.signals, Signals::OneIn { .. })
    }

    fn look(&mut self, header: &Header, entry: &Watched, told: &Told, pid: u32) {
        let wish = entry.wish.load(SeqCst);
        // Without userfaultfd speculators wait for the same pages as the program, and spare it none.
        if wish == WISH_NEVER || header.missing.load(Relaxed) & feature::USERFAULTFD != 0 {
            self.refuse(entry, told);
            return;
        }
        match &mut self.signals {
            Signals::NotYet { faults, seen_at } => {
                let Some(now) = major_faults(pid) else { return };
                let more = now.saturating_sub(mem::replace(faults, now));
                let elapsed = mem::replace(seen_at, Instant::now()).elapsed();
                if more < EVENT_FAULTS_MIN {
                    return;
                }
                // Until the process wishes otherwise, which it can only when it is told of one, and which is seen at the
                // next look.
                let period = period_of(more, elapsed, signal_us(header));
                self.begin(header, entry, told, pid, period);
            }
            Signals::OneIn { .. } if is_pause(wish) => {
                let Some(now) = major_faults(pid) else { return };
                self.signals = Signals::Pause { until: now.saturating_add(wish.into()) };
                self.close(entry, told);
            }
            Signals::OneIn { period, .. } => {
                let wanted = event_period(wish);
                if mem::replace(period, wanted) != wanted {
                    let events = self.threads.iter().filter_map(|thread| thread.event.as_ref());
                    events.for_each(|event| ffi::signal_one_in(event, wanted.into()));
                }
                self.look_at_threads(header, entry, told, pid);
            }
            // A pause ends before its time where the process has been forked meanwhile.
            Signals::Pause { until } => {
                if !is_pause(wish) || major_faults(pid).is_none_or(|now| now >= *until) {
                    self.begin(header, entry, told, pid, event_period(wish));
                }
            }
            Signals::Refused => {}
        }
    }

    /// Tells the threads of the process of one fault in `period`.
    fn begin(&mut self, header: &Header, entry: &Watched, told: &Told, pid: u32, period: u32) {
        if !has_userfaultfd() {
            header.missing.fetch_or(feature::USERFAULTFD, Relaxed);
            self.refuse(entry, told);
            return;
        }
        // Said before there are any, so that a program that wants the signal waits for us; unless it wants it since we looked.
        entry.open.store(1, SeqCst);
        let wish = |wish| (wish != WISH_NEVER).then_some(period);
        if entry.wish.fetch_update(SeqCst, SeqCst, wish).is_err() {
            self.refuse(entry, told);
            return;
        }
        self.signals = Signals::OneIn { period, faults: 0 };
        self.look_at_threads(header, entry, told, pid);
    }

    /// Opens events of those threads that have had most faults since this was last done, and closes those of threads that have
    /// left, or have had few where there are too many.
    fn look_at_threads(&mut self, header: &Header, entry: &Watched, told: &Told, pid: u32) {
        let mut are_all_told = true;
        for (thread, told) in self.threads.iter_mut().zip(told) {
            let name = told.ready.load(SeqCst);
            if thread.name != name {
                *thread = Thread { name, ..Thread::default() };
                told.open.store(0, Release);
            }
            are_all_told &= name == 0 || thread.event.is_some();
        }
        let Signals::OneIn { period, faults } = &mut self.signals else { return };
        let period = u64::from(*period);
        let Some(now) = major_faults(pid).filter(|_| !are_all_told) else { return };
        if now.saturating_sub(mem::replace(faults, now)) < EVENT_FAULTS_MIN {
            return;
        }
        let busiest = self.busiest(|thread| stat_of(pid, thread));
        self.open_events(header, entry, told, busiest, period);
    }

    /// Has those threads told, which have all events that there are. The others are not told when this returns.
    fn open_events(
        &mut self,
        header: &Header,
        entry: &Watched,
        told: &Told,
        busiest: Vec<usize>,
        period: u64,
    ) {
        for index in busiest {
            let thread = &mut self.threads[index];
            if thread.event.is_some() {
                continue;
            }
            match thread.open(&told[index], period) {
                Ok(event) => thread.event = event,
                // It may just have ended.
                Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                Err(_) => {
                    header.missing.fetch_or(feature::PERF_EVENTS, Relaxed);
                    self.refuse(entry, told);
                    return;
                }
            }
        }
        let without = self.threads.iter().zip(told).filter(|(thread, _)| thread.event.is_none());
        without.for_each(|(_, told)| told.open.store(0, Release));
    }

    /// The threads that should have an event, by what is known of each. All others have none when this returns.
    fn busiest(&mut self, stat_of: impl Fn(u32) -> Option<ProcessStat>) -> Vec<usize> {
        let mut ranked = Vec::new();
        for (index, thread) in self.threads.iter_mut().enumerate().filter(|(_, thread)| thread.name != 0) {
            let Some(stat) = stat_of(thread.id()) else {
                thread.event = None;
                continue;
            };
            let now = stat.own.major_faults;
            let more = now.saturating_sub(mem::replace(&mut thread.faults, now));
            if thread.event.is_some() {
                ranked.push((Reverse(more.saturating_mul(EVENT_BUSIER_TIMES)), index));
            } else if more >= EVENT_FAULTS_MIN && stat.blocked_signals & SIGNAL == 0 {
                ranked.push((Reverse(more), index));
            }
        }
        ranked.sort_unstable();
        for (_, index) in ranked.iter().skip(EVENTS_MAX) {
            self.threads[*index].event = None;
        }
        ranked.into_iter().take(EVENTS_MAX).map(|(_, index)| index).collect()
    }

    fn close(&mut self, entry: &Watched, told: &Told) {
        for (thread, told) in self.threads.iter_mut().zip(told) {
            *thread = Thread::default();
            told.open.store(0, Release);
        }
        entry.open.store(0, Release);
    }

    fn refuse(&mut self, entry: &Watched, told: &Told) {
        self.signals = Signals::Refused;
        self.close(entry, told);
    }
}

impl Thread {
    fn id(&self) -> u32 {
        self.name as u32
    }

    /// An event that tells it of one fault in `period`; none where it has left meanwhile.
    fn open(&self, told: &WatchedThread, period: u64) -> io::Result<Option<OwnedFd>> {
        // In the same order as for the process.
        told.open.store(self.name, SeqCst);
        let stays = told.ready.load(SeqCst) == self.name;
        stays.then(|| ffi::open_fault_signals(self.id(), period)).transpose()
    }
}

/// What a signal takes on this machine, which is measured for the first process that gets any.
fn signal_us(header: &Header) -> u32 {
    if header.signal_us.load(Relaxed) == 0 {
        header.signal_us.store(price_us(ffi::fault_signal_time().unwrap_or_default()), Relaxed);
    }
    header.signal_us.load(Relaxed)
}

fn ended(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Page faults of the process that waited for a device, of all its threads.
fn major_faults(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ProcessStat::parse(&stat)?.own.major_faults)
}

fn stat_of(pid: u32, thread: u32) -> Option<ProcessStat> {
    ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
}

#[cfg(test)]
mod tests {
    use forebay_linux::kernel_text::Usage;

    use super::*;
    use crate::channel::Channel;

    const FEW: u32 = 8;
    /// Too few for an event.
    const RARE: u32 = u32::MAX / 2;

    /// A process that wants to be told of its faults: this one.
    fn told(header: &Header) -> (Process, &Watched) {
        let entry = &header.watched[0];
        entry.pid.store(std::process::id(), Relaxed);
        let mut process = Process::new(0);
        process.begin(header, entry, &header.watched_threads[0], std::process::id(), FEW);
        (process, entry)
    }

    #[test]
    fn a_process_that_wishes_for_few_signals_has_no_event_until_it_is_forked() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let (mut process, entry) = told(header);
        let mut look = |wish| {
            entry.wish.store(wish, Relaxed);
            process.look(header, entry, &header.watched_threads[0], std::process::id());
            (entry.open.load(Relaxed), process.is_told())
        };
        if !has_userfaultfd() {
            assert_eq!(look(FEW), (0, false));
            return;
        }
        assert_eq!(look(FEW), (1, true));
        assert_eq!(look(FEW / 2), (1, true), "another period");
        assert_eq!(look(RARE), (0, false));
        assert_eq!(look(RARE), (0, false), "it has hardly a fault");
        assert_eq!(look(FEW), (1, true), "it has a speculator");
        assert_eq!(look(WISH_NEVER), (0, false));
        assert_eq!(look(0), (0, false), "not in this image");
    }

    #[test]
    fn a_process_whose_faults_are_spared_is_told_of_none() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let own = std::process::id();
        let (process, entry) = told(header);
        let mut faults = Faults(HashMap::from([(0, process)]));
        assert_eq!(entry.open.load(Relaxed) == 1, has_userfaultfd());
        faults.look(header, Some(own));
        assert_eq!(entry.open.load(Relaxed), 0);
        assert!(!faults.look(header, Some(own)));
    }

    #[test]
    fn a_pause_ends_when_the_process_has_had_as_many_faults() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let (mut process, entry) = told(header);
        process.signals = Signals::Pause { until: major_faults(std::process::id()).unwrap() };
        entry.wish.store(RARE, Relaxed);
        process.look(header, entry, &header.watched_threads[0], std::process::id());
        assert_eq!(entry.open.load(Relaxed) == 1, has_userfaultfd());
        assert!(!has_userfaultfd() || entry.wish.load(Relaxed) < RARE, "signals come sooner than pauses end");
    }

    #[test]
    fn a_process_that_gives_up_while_an_event_is_opened_gets_none() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let entry = &header.watched[0];
        entry.wish.store(WISH_NEVER, Relaxed);
        let (process, _) = told(header);
        assert!(matches!(process.signals, Signals::Refused));
        assert_eq!(entry.open.load(Relaxed), 0);
    }

    /// What `/proc` could say of a thread.
    fn stat(faults: u64, blocked_signals: u64) -> Option<ProcessStat> {
        let own = Usage { major_faults: faults, ..Usage::default() };
        Some(ProcessStat { own, blocked_signals, ..ProcessStat::default() })
    }

    /// Threads with these ids, all of them ready.
    fn with_threads(ids: impl IntoIterator<Item = u32>) -> Process {
        let mut process = Process::new(0);
        for (thread, id) in process.threads.iter_mut().zip(ids) {
            thread.name = 1 << 32 | u64::from(id);
        }
        process
    }

    #[test]
    fn threads_that_fault_most_have_events() {
        let mut process = with_threads(1..=20);
        let chosen = process.busiest(|id| stat(100 + u64::from(id), 0));
        assert_eq!(chosen, (12..20).rev().collect::<Vec<_>>());
        assert!(process.busiest(|id| stat(100 + u64::from(id), 0)).is_empty(), "none has had more since");
    }

    #[test]
    fn threads_that_block_the_signal_and_those_that_have_ended_have_none() {
        let mut process = with_threads(1..=3);
        let of = |id| if id == 1 { None } else { stat(10, if id == 2 { SIGNAL } else { !SIGNAL }) };
        assert_eq!(process.busiest(of), [2]);
    }

    #[test]
    fn a_thread_keeps_its_event_until_others_are_busier_by_far() {
        let mut process = with_threads(1..=20);
        for thread in &mut process.threads[..EVENTS_MAX] {
            thread.event = fs::File::open("/dev/null").ok().map(Into::into);
        }
        let chosen = process.busiest(|id| stat(if id <= 8 { 6 } else { 10 }, 0));
        assert!(chosen.iter().all(|index| *index < EVENTS_MAX), "{chosen:?}");
        let chosen = process.busiest(|id| stat(if id == 20 { 100 } else { 15 }, 0));
        assert_eq!(chosen.first(), Some(&19));
        let events = process.threads.iter().filter(|thread| thread.event.is_some()).count();
        assert_eq!((chosen.len(), events), (EVENTS_MAX, EVENTS_MAX - 1), "one has made room");
    }

    #[test]
    fn a_thread_is_told_until_it_leaves() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let (mut process, entry) = told(header);
        let told = &header.watched_threads[0];
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let mut look = |name: u64| {
            told[1].ready.store(name, Relaxed);
            process.look(header, entry, told, std::process::id());
            let known = process.threads[1].name;
            process.open_events(header, entry, told, vec![1], FEW.into());
            (known, told[1].open.load(Relaxed))
        };
        if !ffi::has_fault_signals() || !has_userfaultfd() {
            return;
        }
        let (first, second) = (1 << 32 | own, 2 << 32 | own);
        assert_eq!(look(first), (first, first));
        assert_eq!(look(second), (second, second), "a thread that took its place");
        let ended = 3 << 32 | u64::from(u32::MAX >> 1);
        assert_eq!(look(ended), (ended, 0));
        assert_eq!(look(second), (second, second));
        told[1].ready.store(0, Relaxed);
        process.open_events(header, entry, told, vec![], FEW.into());
        process.look(header, entry, told, std::process::id());
        assert_eq!(told[1].open.load(Relaxed), 0, "it has left");
    }

    #[test]
    fn a_thread_that_leaves_while_its_event_is_opened_gets_none() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let (mut process, entry) = told(header);
        let told = &header.watched_threads[0];
        process.threads[1].name = 1 << 32 | 1;
        process.open_events(header, entry, told, vec![1], FEW.into());
        assert!(process.threads[1].event.is_none());
        assert_eq!(told[1].open.load(Relaxed), 0);
    }

    #[test]
    fn what_a_signal_takes_is_measured_once() {
        let channel = Channel::create(true).unwrap();
        let measured = signal_us(channel.header());
        assert!(measured >= price_us(std::time::Duration::ZERO), "{measured}");
        assert_eq!(signal_us(channel.header()), measured);
    }

    #[test]
    fn this_process_has_a_count_of_faults() {
        assert!(major_faults(std::process::id()).is_some());
        assert!(major_faults(0).is_none());
    }

    #[test]
    fn a_number_without_a_process_has_ended() {
        assert!(ended(u32::MAX));
        assert!(!ended(std::process::id()));
    }
}
