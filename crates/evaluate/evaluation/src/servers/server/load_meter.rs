//! What the processes of a load of one's own take of the processors.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forebay_counters::{Meter, Options as Counting, Target as Counted};

use super::meters::{processor_s, total};
use super::observer::{Schedstat, Scope, tasks};
use crate::experiments::Generator;

/// How often the processes are looked at: one that ends alone is known up to the last look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Counts what a load and all that it starts take.
pub(super) struct LoadMeter {
    scope: Scope,
    meter: Meter,
    /// How long each thread ran, or waited for a processor, as of the last look.
    wanted_s: BTreeMap<(u32, u32), f64>,
    next_look: Instant,
}

impl LoadMeter {
    /// Of the load with this process; `None` where it has ended, or cannot be looked at.
    pub(super) fn start(process: u32) -> Option<Self> {
        let counting = Counting { interval: LOOK_EVERY, ..Counting::default() };
        let meter = Meter::start(&Counted::Tree(process), &counting).ok()?;
        let scope = Scope::Tree(process);
        Some(Self { scope, meter, wanted_s: BTreeMap::new(), next_look: Instant::now() })
    }

    /// Looks at the threads, where it is time.
    pub(super) fn look(&mut self) {
        if Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + LOOK_EVERY;
        self.look_now();
    }

    fn look_now(&mut self) {
        for process in self.scope.processes() {
            for thread in tasks(process) {
                let Some(stat) = Schedstat::of(process, thread) else { continue };
                self.wanted_s.insert((process, thread), stat.ran_s + stat.queued_s);
            }
        }
    }

    /// What the load took in so many seconds, on a machine with so many processors.
    pub(super) fn stop(mut self, seconds: f64, processors: f64) -> Option<Generator> {
        self.look_now();
        let counted = self.meter.stop();
        let processor_s = processor_s(&counted, seconds)?;
        let queued_s = total(&counted, &["cpu_wait"], seconds).unwrap_or(0.0);
        let busiest_s = self.wanted_s.into_values().fold(0.0, f64::max);
        Some(Generator::with_busiest(processor_s, queued_s, busiest_s, processors))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::servers::server::process::Process;

    use super::*;

    #[test]
    fn a_load_that_computes_beside_a_process_that_waits_is_one_busy_thread() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["sh", "-c", "sleep 600 & while :; do :; done"].map(OsString::from);
        let process = Process::start(&arguments, folder.path(), None).unwrap();
        let (begun, mut meter) = (Instant::now(), LoadMeter::start(process.id()).unwrap());
        while meter.wanted_s.values().sum::<f64>() < 0.3 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not compute");
            meter.look();
            std::thread::sleep(LOOK_EVERY);
        }
        let taken = meter.stop(begun.elapsed().as_secs_f64(), 8.0).unwrap();
        assert!(taken.processor_s > 0.0 && taken.processor_s + taken.queued_s >= 0.2, "{taken:?}");
        assert!(taken.threads < 1.6, "{taken:?}");
    }
}
