//! Has the kernel send processes a signal after each page fault that waited for a device.
//!
//! The events are this process's, so that the program finds no descriptor that it did not open; they end with its image.
//! Most processes never fault so: an event is opened for one when it was seen to.

use std::{
    collections::HashMap,
    fs,
    os::fd::OwnedFd,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
    time::Instant,
};

use forebay_speculation::channel::{
    Header, WISH_FEW, WISH_NEVER, WISH_QUIET, WISH_SIGNALS, Watched, feature,
};
use forebay_speculation::quiet::{FEW, Pauses, are_few_enough_of};
use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};

use crate::ffi::{self, FaultSignals};

/// Faults between two looks that are worth an event.
const FAULTS_MIN: u64 = 4;
/// The processes that want to be told of their faults.
#[derive(Default)]
pub struct Faults(HashMap<usize, Process>);

/// One of them.
struct Process {
    image: u32,
    /// Those that were seen last, and when.
    faults: u64,
    seen_at: Instant,
    event: Option<OwnedFd>,
    /// It is for one fault in so many.
    period: u64,
    /// It will get none.
    refused: bool,
    quiet: Pauses,
    quiet_until: Option<Instant>,
}

impl Faults {
    /// Looks at all of them.
    pub fn look(&mut self, header: &Header) {
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
            process.look(header, entry, pid);
        }
    }
}

impl Process {
    fn new(image: u32) -> Self {
        let quiet = Pauses::default();
        let (faults, seen_at) = (u64::MAX, Instant::now());
        Self { image, faults, seen_at, event: None, period: 1, refused: false, quiet, quiet_until: None }
    }

    fn look(&mut self, header: &Header, entry: &Watched, pid: u32) {
        match (entry.wish.load(Acquire), &self.event) {
            (WISH_NEVER, _) => self.refuse(entry),
            // Speculators then wait for the same pages as the program, and spare it none.
            _ if header.missing.load(Relaxed) & feature::USERFAULTFD != 0 => self.refuse(entry),
            (WISH_QUIET, Some(event)) => match self.quiet_until {
                None => {
                    ffi::signal_faults(event, FaultSignals::Off);
                    self.quiet_until = Some(Instant::now() + self.quiet.take());
                }
                Some(until) if Instant::now() >= until => {
                    self.quiet_until = None;
                    // Unless it wants none at all by now; then the next look takes the event away.
                    let wish = if self.period == FEW { WISH_FEW } else { WISH_SIGNALS };
                    let _ = entry.wish.compare_exchange(WISH_QUIET, wish, Relaxed, Relaxed);
                    ffi::signal_faults(event, FaultSignals::OneIn(self.period));
                }
                Some(_) => {}
            },
            (wish, Some(event)) => {
                let period = if wish == WISH_FEW { FEW } else { 1 };
                let was_quiet = self.quiet_until.take().is_some();
                if period != std::mem::replace(&mut self.period, period) || was_quiet {
                    ffi::signal_faults(event, FaultSignals::OneIn(period));
                }
            }
            (_, None) => self.open_if_it_faults(header, entry, pid),
        }
    }

    fn refuse(&mut self, entry: &Watched) {
        self.event = None;
        self.refused = true;
        entry.open.store(0, Release);
    }

    fn open_if_it_faults(&mut self, header: &Header, entry: &Watched, pid: u32) {
        if self.refused {
            return;
        }
        let Some(faults) = major_faults(pid) else { return };
        let more = faults.saturating_sub(std::mem::replace(&mut self.faults, faults));
        let elapsed = std::mem::replace(&mut self.seen_at, Instant::now()).elapsed();
        if more < FAULTS_MIN {
            return;
        }
        if !ffi::has_userfaultfd() {
            header.missing.fetch_or(feature::USERFAULTFD, Relaxed);
            self.refuse(entry);
            return;
        }
        // Said before there are any, so that a program that wants the signal waits for us.
        entry.open.store(1, Release);
        // Until the process wishes otherwise, which it can only when it is told of one, and which is seen at the next look.
        let (wish, period) =
            if are_few_enough_of(more, elapsed) { (WISH_FEW, FEW) } else { (WISH_SIGNALS, 1) };
        let _ = entry.wish.compare_exchange(WISH_SIGNALS, wish, Relaxed, Relaxed);
        match ffi::open_fault_signals(pid, period) {
            Ok(event) => (self.event, self.period) = (Some(event), period),
            Err(error) => {
                self.refuse(entry);
                // It may just have ended.
                if error.raw_os_error() != Some(Errno::SRCH.raw_os_error()) {
                    header.missing.fetch_or(feature::PERF_EVENTS, Relaxed);
                }
            }
        }
    }
}

fn ended(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Page faults of the process that waited for a device, of all its threads.
fn major_faults(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the faults are the tenth word behind it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_count_of_faults() {
        assert!(major_faults(std::process::id()).is_some());
        assert!(major_faults(0).is_none());
    }

    #[test]
    fn who_is_nobody_has_ended() {
        assert!(ended(u32::MAX));
        assert!(!ended(std::process::id()));
    }
}
