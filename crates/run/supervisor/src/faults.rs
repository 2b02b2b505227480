//! Asks the kernel to send a process a signal after each page fault that waited for a device.
//!
//! The supervisor owns the events, so the program finds no descriptor that it did not open. They end when the process
//! executes another program. Most processes have no such faults: one gets an event only after its agent saw a fault.

use std::{
    collections::HashMap,
    fs, mem,
    os::fd::OwnedFd,
    sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst},
    time::Instant,
};

use forebay_linux::features::has_userfaultfd;
use forebay_linux::kernel_text::ProcessStat;
use forebay_policy::fault_signals::{event_period, is_pause, period_of};
use forebay_protocol::layout::{Header, WISH_NEVER, Watched, feature};
use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};

use crate::ffi;

/// Faults between two looks that are worth an event.
const FAULTS_MIN: u64 = 4;

/// The processes that want to be told of their faults.
#[derive(Default)]
pub struct Faults(HashMap<usize, Process>);

/// One of them.
struct Process {
    image: u32,
    signals: Signals,
}

/// Whether there is an event for it. One that causes no signals costs each switch to the process, and each from it, too; so
/// there is none while none are wanted.
enum Signals {
    /// It has not been seen to fault: how many it had, and when.
    NotYet { faults: u64, seen_at: Instant },
    /// One fault in `period` has a signal.
    OneIn { period: u32, event: OwnedFd },
    /// There is no event until it has had so many faults, or wishes otherwise.
    Pause { until: u64 },
    /// It will get none.
    Refused,
}

impl Faults {
    /// Looks at all of them; whether one is told of its faults that was not before.
    pub fn look(&mut self, header: &Header) -> bool {
        let mut is_newly_told = false;
        for (index, entry) in header.watched.iter().enumerate() {
            let pid = entry.pid.load(Acquire);
            if pid == 0 {
                continue;
            }
            if ended(pid) {
                self.0.remove(&index);
                entry.wish.store(0, Relaxed);
                entry.open.store(0, Relaxed);
                entry.pid.store(0, Release);
                continue;
            }
            let image = entry.image.load(Acquire);
            let process = self.0.entry(index).or_insert_with(|| Process::new(image));
            if process.image != image {
                *process = Process::new(image);
                entry.open.store(0, Relaxed);
            }
            let was_told = process.is_told();
            process.look(header, entry, pid);
            is_newly_told |= process.is_told() && !was_told;
        }
        is_newly_told
    }
}

impl Process {
    fn new(image: u32) -> Self {
        let signals = Signals::NotYet { faults: u64::MAX, seen_at: Instant::now() };
        Self { image, signals }
    }

    fn is_told(&self) -> bool {
        matches!(self.signals, Signals::OneIn { .. })
    }

    fn look(&mut self, header: &Header, entry: &Watched, pid: u32) {
        let wish = entry.wish.load(SeqCst);
        // Without userfaultfd speculators wait for the same pages as the program, and spare it none.
        if wish == WISH_NEVER || header.missing.load(Relaxed) & feature::USERFAULTFD != 0 {
            self.refuse(entry);
            return;
        }
        match &mut self.signals {
            Signals::NotYet { faults, seen_at } => {
                let Some(now) = major_faults(pid) else { return };
                let more = now.saturating_sub(mem::replace(faults, now));
                let elapsed = mem::replace(seen_at, Instant::now()).elapsed();
                if more < FAULTS_MIN {
                    return;
                }
                // Until the process wishes otherwise, which it can only when it is told of one, and which is seen at the
                // next look.
                self.open(header, entry, pid, period_of(more, elapsed));
            }
            Signals::OneIn { .. } if is_pause(wish) => {
                let Some(now) = major_faults(pid) else { return };
                self.signals = Signals::Pause { until: now.saturating_add(wish.into()) };
                entry.open.store(0, Release);
            }
            Signals::OneIn { period, event } => {
                let wanted = event_period(wish);
                if mem::replace(period, wanted) != wanted {
                    ffi::signal_one_in(event, wanted.into());
                }
            }
            // A pause ends before its time where the process has been forked meanwhile.
            Signals::Pause { until } => {
                if !is_pause(wish) || major_faults(pid).is_none_or(|now| now >= *until) {
                    self.open(header, entry, pid, event_period(wish));
                }
            }
            Signals::Refused => {}
        }
    }

    fn open(&mut self, header: &Header, entry: &Watched, pid: u32, period: u32) {
        if !has_userfaultfd() {
            header.missing.fetch_or(feature::USERFAULTFD, Relaxed);
            self.refuse(entry);
            return;
        }
        // Said before there are any, so that a program that wants the signal waits for us; unless it wants it since we looked.
        entry.open.store(1, SeqCst);
        let wish = |wish| (wish != WISH_NEVER).then_some(period);
        if entry.wish.fetch_update(SeqCst, SeqCst, wish).is_err() {
            self.refuse(entry);
            return;
        }
        match ffi::open_fault_signals(pid, period.into()) {
            Ok(event) => self.signals = Signals::OneIn { period, event },
            Err(error) => {
                self.refuse(entry);
                // It may just have ended.
                if error.raw_os_error() != Some(Errno::SRCH.raw_os_error()) {
                    header.missing.fetch_or(feature::PERF_EVENTS, Relaxed);
                }
            }
        }
    }

    fn refuse(&mut self, entry: &Watched) {
        self.signals = Signals::Refused;
        entry.open.store(0, Release);
    }
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

#[cfg(test)]
mod tests {
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
        process.open(header, entry, std::process::id(), FEW);
        (process, entry)
    }

    #[test]
    fn a_process_that_wishes_for_few_signals_has_no_event_until_it_is_forked() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let (mut process, entry) = told(header);
        let mut look = |wish| {
            entry.wish.store(wish, Relaxed);
            process.look(header, entry, std::process::id());
            (entry.open.load(Relaxed), process.is_told())
        };
        if !ffi::has_fault_signals() || !has_userfaultfd() {
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
    fn a_pause_ends_when_the_process_has_had_as_many_faults() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let (mut process, entry) = told(header);
        process.signals = Signals::Pause { until: major_faults(std::process::id()).unwrap() };
        entry.wish.store(RARE, Relaxed);
        process.look(header, entry, std::process::id());
        let has_event = ffi::has_fault_signals() && has_userfaultfd();
        assert_eq!(entry.open.load(Relaxed) == 1, has_event);
        assert!(!has_event || entry.wish.load(Relaxed) < RARE, "signals come sooner than pauses end");
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
