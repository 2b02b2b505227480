//! Detects lost hosts. A connection reports a process that ended, but not a stopped process or a broken link. So every
//! host sends every other host a message now and then, and silence counts as a loss. On one machine a host also sees
//! processes end. There it tells a process that is stopped from one that waits for a processor, and is patient with that.

use std::{fs, os::fd::OwnedFd, time::Duration};

use forebay_coherence::HostId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

use crate::join::Whereabouts;

/// How often the time is looked at.
pub const TICK: Duration = Duration::from_millis(100);
/// A tick counts for no more than this: while this host was stopped itself it could not hear anybody.
const TICK_MAX: Duration = Duration::from_millis(300);
/// A host that has nothing to say for so long says that.
const QUIET: Duration = Duration::from_millis(800);
/// So many times as long, a process may be silent that runs on this machine.
const PATIENCE: u32 = 12;
/// A host that has not been heard for so long is lost, unless the environment says otherwise.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Why a host is lost whose process was seen to end.
pub const ENDED: &str = "its process has ended";
/// Why a host is lost that has been silent.
pub const SILENT: &str = "nothing was heard of it for too long";
/// Why a host is lost that says so itself.
pub const FAILED: &str = "it has failed";

/// For how long each host has not been heard, and not been talked to.
#[derive(Debug)]
pub struct Liveness {
    me: HostId,
    silence: Duration,
    unheard: Vec<Duration>,
    untold: Vec<Duration>,
}

impl Liveness {
    /// All have just been heard.
    pub fn new(me: HostId, hosts: usize, silence: Duration) -> Self {
        Self { me, silence, unheard: vec![Duration::ZERO; hosts], untold: vec![Duration::ZERO; hosts] }
    }

    /// Something came from it.
    pub fn heard(&mut self, host: HostId) {
        if let Some(unheard) = self.unheard.get_mut(host.index()) {
            *unheard = Duration::ZERO;
        }
    }

    /// Something went to it.
    pub fn told(&mut self, host: HostId) {
        self.untold[host.index()] = Duration::ZERO;
    }

    /// So much time has passed. Calls `tell` for those that have to be told that this host is there.
    pub fn tick(&mut self, passed: Duration, mut tell: impl FnMut(HostId)) {
        let passed = passed.min(TICK_MAX);
        for host in (0..self.unheard.len()).filter(|host| *host != self.me.index()) {
            self.unheard[host] += passed;
            self.untold[host] += passed;
            if self.untold[host] >= QUIET {
                self.untold[host] = Duration::ZERO;
                tell(HostId(host as u16));
            }
        }
    }

    /// Those that have been silent for too long.
    pub fn lost(&self, processes: &Processes) -> impl Iterator<Item = HostId> {
        let is_lost = |host: &HostId| {
            let unheard = self.unheard[host.index()];
            unheard >= self.silence.saturating_mul(PATIENCE)
                || unheard >= self.silence && !processes.runs(*host)
        };
        (0..self.unheard.len()).map(|host| HostId(host as u16)).filter(is_lost)
    }
}

/// The processes of hosts that this one can see end. Each is held so that its number cannot become that of another one.
pub struct Processes(Vec<(HostId, Pid, OwnedFd)>);

impl Processes {
    /// Those of the hosts at these places, by rank.
    pub fn of(places: &[Whereabouts]) -> Self {
        let held = |(host, place): (usize, &Whereabouts)| {
            let process = place.process?;
            Some((HostId(host as u16), process, pidfd_open(process, PidfdFlags::empty()).ok()?))
        };
        Self(places.iter().enumerate().filter_map(held).collect())
    }

    /// The hosts whose processes have ended.
    pub fn ended(&self) -> Vec<HostId> {
        let mut files: Vec<_> =
            self.0.iter().map(|(_, _, process)| PollFd::new(process, PollFlags::IN)).collect();
        if poll(&mut files, Some(&Timespec::default())).is_err() {
            return vec![];
        }
        let ended = self.0.iter().zip(&files).filter(|(_, file)| !file.revents().is_empty());
        ended.map(|((host, ..), _)| *host).collect()
    }

    /// Whether this host can see that the process runs, or would with a processor: it has not ended, and is not stopped
    /// (proc_pid_stat(5)).
    fn runs(&self, host: HostId) -> bool {
        let Some((_, process, _)) = self.0.iter().find(|(known, ..)| *known == host) else { return false };
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
        // The name before may contain anything.
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['R', 'S', 'D']))
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, thread};

    use rustix::process::{Signal, kill_process};

    use super::*;

    /// Ticks until this much time has passed. Who was told something how often.
    fn pass(liveness: &mut Liveness, time: Duration) -> Vec<u32> {
        let mut told = vec![0; liveness.unheard.len()];
        for _ in 0..time.as_millis() / TICK.as_millis() {
            liveness.tick(TICK, |host| told[host.index()] += 1);
        }
        told
    }

    fn lost(liveness: &Liveness) -> Vec<HostId> {
        liveness.lost(&Processes(vec![])).collect()
    }

    #[test]
    fn only_who_is_silent_is_lost() {
        let mut liveness = Liveness::new(HostId(0), 3, SILENCE);
        for _ in 0..10 {
            pass(&mut liveness, Duration::from_secs(1));
            liveness.heard(HostId(2));
            assert_eq!(lost(&liveness).is_empty(), liveness.unheard[1] < SILENCE);
        }
        assert_eq!(lost(&liveness), [HostId(1)]);
    }

    #[test]
    fn a_process_that_waits_for_a_processor_is_lost_later_than_one_that_is_stopped() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Pid::from_child(&child);
        let place = Whereabouts {
            on_this_machine: true,
            process: Some(process),
            is_in_this_network: true,
            is_of_this_user: true,
        };
        let processes = Processes::of(&[Whereabouts { process: None, ..place }, place]);
        let mut liveness = Liveness::new(HostId(0), 2, SILENCE);
        pass(&mut liveness, SILENCE * 2);
        assert_eq!(liveness.lost(&processes).count(), 0);
        kill_process(process, Signal::STOP).unwrap();
        while processes.runs(HostId(1)) {
            thread::yield_now();
        }
        assert_eq!(liveness.lost(&processes).collect::<Vec<_>>(), [HostId(1)]);
        kill_process(process, Signal::CONT).unwrap();
        pass(&mut liveness, SILENCE * PATIENCE);
        assert_eq!(liveness.lost(&processes).collect::<Vec<_>>(), [HostId(1)]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn all_others_are_told_often_enough_but_not_while_there_is_talk() {
        let mut liveness = Liveness::new(HostId(1), 3, SILENCE);
        assert_eq!(pass(&mut liveness, SILENCE), [6, 0, 6]);
        for _ in 0..50 {
            liveness.told(HostId(2));
            assert_eq!(pass(&mut liveness, QUIET / 2)[2], 0);
        }
    }

    #[test]
    fn a_host_that_was_stopped_reports_no_loss() {
        let mut liveness = Liveness::new(HostId(0), 2, SILENCE);
        liveness.tick(Duration::from_secs(3600), |_| {});
        assert_eq!(lost(&liveness), []);
    }
}
