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
use forebay_policy::fault_signals::{FEW, Pauses, are_few_enough_of};
use forebay_protocol::layout::{Header, WISH_FEW, WISH_NEVER, WISH_QUIET, WISH_SIGNALS, Watched, feature};
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
    quiet: Pauses,
}

/// Whether there is an event for it. One that causes no signals costs each switch to the process, and each from it, too; so
/// there is none while none are wanted.
enum Signals {
    /// It has not been seen to fault: how many it had, and when.
    NotYet { faults: u64, seen_at: Instant },
    /// One fault in `period` has a signal.
    OneIn { period: u64, event: OwnedFd },
    /// It has asked for quiet; before that one in `period` had.
    Quiet { period: u64, until: Instant },
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
                entry.wish.store(WISH_SIGNALS, Relaxed);
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
        Self { image, signals, quiet: Pauses::default() }
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
                let few = are_few_enough_of(more, elapsed);
                self.open(header, entry, pid, if few { FEW } else { 1 });
            }
            Signals::OneIn { period, .. } if wish == WISH_QUIET => {
                self.signals = Signals::Quiet { period: *period, until: Instant::now() + self.quiet.take() };
                entry.open.store(0, Release);
            }
            Signals::OneIn { period, event } => {
                let wanted = if wish == WISH_FEW { FEW } else { 1 };
                if mem::replace(period, wanted) != wanted {
                    ffi::signal_one_in(event, wanted);
                }
            }
            // A quiet ends before its time where the process has been forked meanwhile.
            Signals::Quiet { period, until } if wish != WISH_QUIET || Instant::now() >= *until => {
                let period = *period;
                self.open(header, entry, pid, period);
            }
            Signals::Quiet { .. } | Signals::Refused => {}
        }
    }

    fn open(&mut self, header: &Header, entry: &Watched, pid: u32, period: u64) {
        if !has_userfaultfd() {
            header.missing.fetch_or(feature::USERFAULTFD, Relaxed);
            self.refuse(entry);
            return;
        }
        // Said before there are any, so that a program that wants the signal waits for us; unless it wants it since we looked.
        entry.open.store(1, SeqCst);
        let wish = if period == FEW { WISH_FEW } else { WISH_SIGNALS };
        for before in [WISH_SIGNALS, WISH_QUIET] {
            let _ = entry.wish.compare_exchange(before, wish, SeqCst, Relaxed);
        }
        if entry.wish.load(SeqCst) == WISH_NEVER {
            self.refuse(entry);
            return;
        }
        match ffi::open_fault_signals(pid, period) {
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

    /// A process that wants to be told of its faults: this one.
    fn told(header: &Header) -> (Process, &Watched) {
        let entry = &header.watched[0];
        entry.pid.store(std::process::id(), Relaxed);
        let mut process = Process::new(0);
        process.open(header, entry, std::process::id(), FEW);
        (process, entry)
    }

    #[test]
    fn a_process_that_asks_for_quiet_has_no_event_until_it_is_forked() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let (mut process, entry) = told(header);
        let mut look = |wish| {
            entry.wish.store(wish, Relaxed);
            process.look(header, entry, std::process::id());
            (entry.open.load(Relaxed), process.is_told())
        };
        if !ffi::has_fault_signals() || !has_userfaultfd() {
            assert_eq!(look(WISH_FEW), (0, false));
            return;
        }
        assert_eq!(look(WISH_FEW), (1, true));
        assert_eq!(look(WISH_QUIET), (0, false));
        assert_eq!(look(WISH_QUIET), (0, false), "for half a second");
        assert_eq!(look(WISH_FEW), (1, true), "it has a speculator");
        assert_eq!(look(WISH_NEVER), (0, false));
        assert_eq!(look(WISH_SIGNALS), (0, false), "not in this image");
    }

    #[test]
    fn quiet_ends_by_itself() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let (mut process, entry) = told(header);
        process.signals = Signals::Quiet { period: FEW, until: Instant::now() };
        entry.wish.store(WISH_QUIET, Relaxed);
        process.look(header, entry, std::process::id());
        let has_event = ffi::has_fault_signals() && has_userfaultfd();
        assert_eq!(entry.open.load(Relaxed) == 1, has_event);
        assert!(!has_event || entry.wish.load(Relaxed) == WISH_FEW);
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
