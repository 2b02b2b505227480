//! The meters of a run of a server, and what they counted.

use std::path::Path;
use std::time::Duration;

use forebay_counters::{Files, Meter, Options as Counting, Readings, Ready, Refused, Target as Counted};

use super::disks::Disks;
use super::observer::{Observer, Scope, Seen};
use super::target::Target;
use crate::Error;
use crate::experiments::DiskQueue;

/// What the kernel charges to processes, in user mode and in the kernel, is in multiples of this (`USER_HZ`, proc_pid_stat(5)).
const TICK_S: f64 = 0.01;

/// What was counted began and ended within this share of the load's time, or the machine stood still meanwhile.
const LATE_MAX: f64 = 0.2;

/// What several counters grew by in so many seconds; `None` where there is none of them. Meters start and stop one after the
/// other, so that what they counted is of a little more.
pub(super) fn total(readings: &Readings, names: &[&str], seconds: f64) -> Option<f64> {
    let rates = names.iter().filter_map(|name| readings.per_second(name));
    rates.reduce(|sum, more| sum + more).map(|rate| rate * seconds)
}

/// Processor time of the server. That of its threads is fine, but lacks processes that ended between two samples. What the kernel
/// charges to processes has those, and is cut off at hundredths of a second.
pub(super) fn processor_s(server: &Readings, seconds: f64) -> Option<f64> {
    let of_threads = total(server, &["thread_time"], seconds);
    let charged = total(server, &["cpu_user", "cpu_system"], seconds);
    finer(of_threads, charged, server.get("processes").unwrap_or(1.0))
}

fn finer(of_threads: Option<f64>, charged: Option<f64>, processes: f64) -> Option<f64> {
    match (of_threads, charged) {
        (Some(fine), Some(all)) if all > fine + 2.0 * TICK_S * processes => Some(all),
        (fine, all) => fine.or(all),
    }
}

/// The meters of a run.
pub(super) struct Meters {
    server: Meter,
    group: Option<Meter>,
    machine: Meter,
    disks: Disks,
    observer: Observer,
}

/// What they counted.
pub(super) struct Counts {
    pub(super) server: Readings,
    pub(super) group: Option<Readings>,
    pub(super) machine: Readings,
    pub(super) seen: Seen,
    /// The disk that was asked most.
    pub(super) disk: Option<DiskQueue>,
    pub(super) refused: Vec<Refused>,
    /// How much later than the load they began, or ended.
    pub(super) late_s: f64,
}

impl Counts {
    /// An error where the machine stood still while a load of so many seconds was to be counted.
    pub(super) fn punctual(&self, seconds: f64) -> Result<(), Error> {
        if self.late_s <= seconds * LATE_MAX {
            return Ok(());
        }
        Err(Error::StoodStill { seconds: self.late_s })
    }
}

/// The meters of a run to come.
pub(super) struct Opened {
    server: Ready,
    group: Option<Ready>,
    machine: Ready,
    scope: Scope,
}

impl Opened {
    /// For so many seconds, with what is in memory of the files below `served`.
    pub(super) fn new(target: &Target, seconds: f64, served: Option<&Path>) -> Result<Self, Error> {
        // A short run has some intervals too.
        let interval = Duration::from_secs_f64((seconds / 4.0).clamp(0.05, 1.0));
        let options = Counting { interval, ..Counting::default() };
        let files = served.map_or(Files::None, |folder| Files::Under(vec![folder.to_owned()]));
        let (server, group) = target.counted();
        Ok(Self {
            server: Meter::open(&server, &Counting { hardware: true, ..options.clone() })?,
            // What a group adds is worth no failure.
            group: group.and_then(|group| Meter::open(&group, &options).ok()),
            machine: Meter::open(&Counted::Machine, &Counting { files, ..options })?,
            scope: target.scope.clone(),
        })
    }

    pub(super) fn start(self) -> Result<Meters, Error> {
        Ok(Meters {
            server: self.server.start()?,
            group: self.group.and_then(|group| group.start().ok()),
            machine: self.machine.start()?,
            disks: Disks::now(),
            observer: Observer::start(self.scope),
        })
    }
}

impl Meters {
    pub(super) fn stop(self) -> Counts {
        let mut refused = self.server.refused().to_vec();
        refused.extend(
            self.machine.refused().iter().filter(|one| one.counter.starts_with("file_pages")).cloned(),
        );
        Counts {
            server: self.server.stop(),
            group: self.group.map(Meter::stop),
            machine: self.machine.stop(),
            disk: Disks::now().most_asked_since(&self.disks),
            seen: self.observer.stop(),
            refused,
            late_s: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_threads_is_believed_where_the_charged_time_has_no_other_processes() {
        assert_eq!(finer(Some(0.104), Some(0.12), 1.0), Some(0.104));
        assert_eq!(finer(Some(0.104), Some(0.09), 1.0), Some(0.104));
        assert_eq!(finer(Some(0.104), Some(0.5), 1.0), Some(0.5));
        assert_eq!((finer(None, Some(0.5), 1.0), finer(Some(0.1), None, 1.0)), (Some(0.5), Some(0.1)));
    }
}
