//! `forebay evaluate host`: what memory, kernel, loopback and disk of this machine cost, each measured alone until its values
//! agree.

mod check;
mod found;
mod tables;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_probes::{Case, Limit, Setting, Settled, machine, settle};
use forebay_results::Row;

use crate::harness::interrupt::Interrupt;
use crate::{Error, Progress};

pub use check::Comparison;
pub use forebay_probes::Probe;
pub use found::Found;
pub(crate) use found::quantity;

/// Values agree when the middle half of them is within such a share of their median.
const SPREAD: f64 = 0.05;
const SAMPLES_MIN: usize = 5;
/// The largest working set is so many times the last cache, and so large at least.
const TIMES_LAST_CACHE: usize = 4;
const BYTES_MAX_LEAST: usize = 128 << 20;
/// After so long each quantity gets as few samples as can be.
const PATIENCE: Duration = Duration::from_secs(150);
const PATIENCE_QUICK: Duration = Duration::from_secs(22);

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// In this order.
    pub probes: Vec<Probe>,
    /// Fewer sizes, and less time for each.
    pub quick: bool,
    /// A folder on the disk that is measured.
    pub folder: PathBuf,
    /// Compare with what the archive's tools say.
    pub check: bool,
}

/// One quantity, measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// By which probe.
    pub probe: Probe,
    /// What was measured, e.g. `memory load`.
    pub subject: String,
    /// Under which condition, e.g. `64 KiB/stride 8 B`.
    pub case: String,
    /// Which quantity.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The values, and whether they agree.
    pub settled: Settled,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// In the order it was measured.
    pub measured: Vec<Measured>,
    /// What the values tell.
    pub found: Found,
    /// Beside the tools of the archive.
    pub comparisons: Vec<Comparison>,
    /// What could not be measured, and why: a sentence each.
    pub refused: Vec<String>,
    /// Whether an interrupt ended it.
    pub interrupted: bool,
}

/// Measures. What the machine does not have is left out, and told in the outcome; so is an interrupt, which leaves what has been
/// measured.
///
/// # Errors
/// The folder is none.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    std::fs::read_dir(&options.folder).map_err(Error::file("use the folder", &options.folder))?;
    let setting = Setting {
        quick: options.quick,
        folder: options.folder.clone(),
        bytes_max: bytes_max(options.quick, &machine::caches()),
        stream_bytes: stream_bytes(machine::last_caches_bytes()),
    };
    let interrupt = Interrupt::watch();
    Ok(measure(options, &setting, &interrupt, progress))
}

/// The largest working set. The last cache may be other machines' too, of which a guest sees nothing, so it is no less where the
/// caches are small.
fn bytes_max(quick: bool, caches: &[machine::Told]) -> usize {
    let last = caches.iter().map(|cache| cache.bytes).max().unwrap_or(0);
    if quick { BYTES_MAX_LEAST } else { (TIMES_LAST_CACHE * last).max(BYTES_MAX_LEAST) }
}

/// Each array of a stream, however quick: what all last caches hold of it is to be no matter.
fn stream_bytes(last_caches_bytes: usize) -> usize {
    (TIMES_LAST_CACHE * last_caches_bytes).max(BYTES_MAX_LEAST)
}

fn measure(
    options: &Options,
    setting: &Setting,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Progress),
) -> Outcome {
    let begun = Instant::now();
    let patience = if options.quick { PATIENCE_QUICK } else { PATIENCE };
    let stop = || interrupt.check().is_err();
    let mut outcome = Outcome::default();
    let weight = |probe: &Probe| weight(*probe, options.quick);
    let checks_s = if options.check { check::SECONDS } else { 0.0 };
    let total: f64 = options.probes.iter().map(weight).sum::<f64>() + checks_s;
    let mut done = 0.0;
    for probe in &options.probes {
        let mut tell = |share: f64, doing: String| {
            progress(Progress::before((done + share * weight(probe)) / total, doing));
        };
        tell(0.0, format!("preparing {probe}"));
        let cases = match probe.cases(setting) {
            Ok(cases) => cases,
            Err(why) => {
                outcome.refused.push(format!("{probe}: {why}."));
                continue;
            }
        };
        let count = cases.len();
        for (number, case) in cases.into_iter().enumerate() {
            tell(number as f64 / count as f64, format!("{}, {}", case.subject, case.case));
            let late = begun.elapsed() > patience;
            let time = if late { Duration::ZERO } else { time(*probe, options.quick) };
            let limit = Limit { spread: SPREAD, samples_min: SAMPLES_MIN, time };
            measure_case(*probe, case, limit, &stop, &mut outcome);
        }
        done += weight(probe);
    }
    outcome.found = Found::of(&outcome.measured);
    if options.check && !stop() {
        let share = done / total;
        let mut tell = |part: f64, doing| progress(Progress::before(share + part * (1.0 - share), doing));
        check::run(&options.probes, setting, interrupt, &mut tell, &mut outcome);
    }
    outcome.interrupted = stop();
    progress(Progress::at_the_end());
    outcome
}

/// Adds what came of `case`, or why nothing did.
fn measure_case(probe: Probe, case: Case, limit: Limit, stop: &dyn Fn() -> bool, outcome: &mut Outcome) {
    let Case { subject, case, metric, unit, mut sample } = case;
    match settle(limit, stop, &mut sample) {
        Ok(Some(settled)) => {
            outcome.measured.push(Measured { probe, subject, case, metric, unit, settled });
        }
        // Interrupted before the first value.
        Ok(None) => (),
        Err(why) => outcome.refused.push(format!("{subject}, {case}: {why}.")),
    }
}

/// About how long a probe takes, in seconds.
fn weight(probe: Probe, quick: bool) -> f64 {
    let (full, quick_s) = match probe {
        Probe::Memory => (25.0, 5.0),
        Probe::Latency => (25.0, 5.0),
        Probe::Switches => (9.0, 3.0),
        Probe::Faults => (2.0, 1.0),
        Probe::Calls => (0.1, 0.1),
        Probe::Packets => (1.0, 0.5),
        Probe::Documents => (32.0, 1.0),
        Probe::Disk => (9.0, 3.0),
    };
    if quick { quick_s } else { full }
}

/// How long a quantity may take until its values agree.
fn time(probe: Probe, quick: bool) -> Duration {
    let ms = match probe {
        Probe::Memory => 400,
        Probe::Latency => 400,
        Probe::Switches | Probe::Faults | Probe::Calls | Probe::Packets | Probe::Documents => 1000,
        Probe::Disk => 2000,
    };
    Duration::from_millis(if quick { ms / 3 } else { ms })
}

impl Measured {
    fn row(&self) -> Row {
        let Self { subject, case, metric, unit, settled, .. } = self;
        Row::of(subject, case, *metric, *unit, settled.values.clone()).of_samples(Some(settled.settled))
    }
}

impl Outcome {
    /// The rows for machines.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let measured = self.measured.iter().map(Measured::row);
        let found = self.found.rows();
        measured.chain(found).chain(self.comparisons.iter().flat_map(Comparison::rows)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(probes: &[Probe], folder: &std::path::Path) -> Options {
        Options { probes: probes.to_vec(), quick: true, folder: folder.into(), check: false }
    }

    #[test]
    fn probes_are_made_in_order_and_progress_grows() {
        let folder = tempfile::tempdir().unwrap();
        let mut shares = Vec::new();
        let setting = Setting {
            quick: true,
            folder: folder.path().into(),
            bytes_max: 256 << 10,
            stream_bytes: 64 << 10,
        };
        let options = options(&[Probe::Calls, Probe::Memory], folder.path());
        let outcome =
            measure(&options, &setting, &Interrupt::watch(), &mut |progress| shares.push(progress.share));
        assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
        assert_eq!(outcome.refused, [""; 0]);
        assert_eq!(
            (outcome.measured[0].probe, outcome.measured.last().unwrap().probe),
            (Probe::Calls, Probe::Memory)
        );
        assert!(
            outcome.rows().iter().any(|row| row.subject == "memory load" && row.case == "32 KiB/stride 8 B")
        );
        let table = outcome.table();
        assert!(table.contains("getppid") && table.contains("| 32 KiB"), "{table}");
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        let folder = tempfile::tempdir().unwrap();
        let setting = Setting {
            quick: true,
            folder: folder.path().into(),
            bytes_max: 256 << 10,
            stream_bytes: 64 << 10,
        };
        let interrupt = Interrupt::watch();
        let outcome = measure(
            &options(&[Probe::Calls, Probe::Memory], folder.path()),
            &setting,
            &interrupt,
            &mut |progress| {
                if progress.doing.starts_with("preparing memory") {
                    interrupt.raise();
                }
            },
        );
        assert!(outcome.interrupted && outcome.measured.len() == 3, "{outcome:?}");
        assert!(outcome.table().contains("interrupted"), "{}", outcome.table());
    }

    #[test]
    fn what_cannot_be_measured_is_told_and_the_rest_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let setting =
            Setting { quick: true, folder: "/proc".into(), bytes_max: 1 << 45, stream_bytes: 64 << 10 };
        let options = options(&[Probe::Memory, Probe::Faults, Probe::Calls], folder.path());
        let outcome = measure(&options, &setting, &Interrupt::watch(), &mut |_| ());
        assert_eq!((outcome.refused.len(), outcome.measured.len()), (2, 3), "{outcome:?}");
        assert!(outcome.table().contains("Left out: memory: a working set of"), "{}", outcome.table());
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        let refusal =
            run(&options(&[], std::path::Path::new("/nowhere")), &mut |_| ()).unwrap_err().to_string();
        assert!(refusal.contains("/nowhere"), "{refusal}");
    }

    #[test]
    fn an_array_of_a_stream_is_four_times_all_last_caches_at_least() {
        assert_eq!((stream_bytes(256 << 20), stream_bytes(105 << 20)), (1 << 30, 420 << 20));
        assert_eq!(stream_bytes(0), 128 << 20);
        assert!(stream_bytes(machine::last_caches_bytes()) >= 4 * machine::last_caches_bytes());
    }

    #[test]
    fn the_largest_working_set_goes_beyond_the_last_cache() {
        let cache = |bytes| [machine::Told { level: 3, bytes }];
        assert_eq!(bytes_max(false, &cache(105 << 20)), 420 << 20);
        assert_eq!(bytes_max(false, &cache(1 << 20)), 128 << 20);
        assert_eq!((bytes_max(false, &[]), bytes_max(true, &cache(105 << 20))), (128 << 20, 128 << 20));
    }
}
