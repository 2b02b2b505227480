//! Detects lost hosts. A connection reports a process that ended, but not a stopped process or a broken link. So every
//! host sends every other host a message now and then, and silence counts as a loss. On one machine a host also sees
//! processes end.

use std::{os::fd::OwnedFd, time::Duration};

use forebay_coherence::HostId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{PidfdFlags, pidfd_open},
};

use crate::join::Whereabouts;

/// How often the time is looked at.
pub const TICK: Duration = Duration::from_millis(100);
/// A tick counts for no more than this: while this host was stopped itself it could not hear anybody.
const TICK_MAX: Duration = Duration::from_millis(300);
/// A host that has nothing to say for so long says that.
const QUIET: Duration = Duration::from_millis(800);
/// A host that has not been heard for so long is lost, unless the environment says otherwise.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Why a host is lost whose process was seen to end.
pub const ENDED: &str = "its process has ended";
/// Why a host is lost that has been silent.
pub const SILENT: &str = "nothing was heard of it for too long";

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

    /// One that has been silent for too long.
    pub fn lost(&self) -> Option<HostId> {
        self.all_lost().next()
    }

    /// All that have.
    pub fn all_lost(&self) -> impl Iterator<Item = HostId> {
        let hosts = (0..self.unheard.len()).filter(|host| self.unheard[*host] >= self.silence);
        hosts.map(|host| HostId(host as u16))
    }
}

/// The processes of hosts that this one can see end. Each is held so that its number cannot become that of another one.
pub struct Processes(Vec<(HostId, OwnedFd)>);

impl Processes {
    /// Those of the hosts at these places, by rank.
    pub fn of(places: &[Whereabouts]) -> Self {
        let held = |(host, place): (usize, &Whereabouts)| {
            let process = pidfd_open(place.process?, PidfdFlags::empty()).ok()?;
            Some((HostId(host as u16), process))
        };
        Self(places.iter().enumerate().filter_map(held).collect())
    }

    /// The hosts whose processes have ended.
    pub fn ended(&self) -> Vec<HostId> {
        let mut files: Vec<_> =
            self.0.iter().map(|(_, process)| PollFd::new(process, PollFlags::IN)).collect();
        if poll(&mut files, Some(&Timespec::default())).is_err() {
            return vec![];
        }
        let ended = self.0.iter().zip(&files).filter(|(_, file)| !file.revents().is_empty());
        ended.map(|((host, _), _)| *host).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks until this much time has passed. Who was told something how often.
    fn pass(liveness: &mut Liveness, time: Duration) -> Vec<u32> {
        let mut told = vec![0; liveness.unheard.len()];
        for _ in 0..time.as_millis() / TICK.as_millis() {
            liveness.tick(TICK, |host| told[host.index()] += 1);
        }
        told
    }

    #[test]
    fn only_who_is_silent_is_lost() {
        let mut liveness = Liveness::new(HostId(0), 3, SILENCE);
        for _ in 0..10 {
            pass(&mut liveness, Duration::from_secs(1));
            liveness.heard(HostId(2));
            assert_eq!(liveness.lost(), (liveness.unheard[1] >= SILENCE).then_some(HostId(1)));
        }
        assert_eq!(liveness.lost(), Some(HostId(1)));
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
        assert_eq!(liveness.lost(), None);
    }
}
