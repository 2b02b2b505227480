#![doc = include_str!("../README.md")]
//!
//! A [`Probe`] makes [`Case`]s, one for each quantity; [`settle()`] takes samples of one. [`levels()`] and [`Line`] tell what
//! the values say.
#![forbid(unsafe_code)]

mod calls;
mod disk;
mod documents;
mod faults;
mod fit;
mod latency;
mod levels;
pub mod machine;
mod memory;
mod packets;
mod settle;
mod switching;
mod thief;
mod waking;

use std::fmt;
use std::io;
use std::path::PathBuf;

pub use fit::Line;
pub use levels::{Level, levels};
pub use settle::{Limit, Settled, settle};
pub use thief::Thief;
pub use waking::woken_us;

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Probe {
    /// Throughput of memory by working set and stride.
    Memory,
    /// Latency of memory by working set, and of translations by pages.
    Latency,
    /// Switches between threads on one processor, by working set, and threads that are woken, by how long they slept.
    Switches,
    /// Page faults.
    Faults,
    /// System calls.
    Calls,
    /// Packets over the loopback.
    Packets,
    /// Documents sent by TCP to clients on this machine.
    Documents,
    /// Reads of a disk by depth.
    Disk,
}

// In the order in which they are made.
forebay_names::names! { "probe": Probe {
    Memory = "memory",
    Latency = "latency",
    Switches = "switches",
    Faults = "faults",
    Calls = "calls",
    Packets = "packets",
    Documents = "documents",
    Disk = "disk",
} }

impl Probe {
    /// What it measures on this machine.
    ///
    /// # Errors
    /// The machine does not have what it takes: a sentence with the remedy.
    pub fn cases(self, setting: &Setting) -> Result<Vec<Case>, Error> {
        match self {
            Self::Memory => memory::cases(setting),
            Self::Latency => latency::cases(setting),
            Self::Switches => {
                Ok(switching::cases(setting)?.into_iter().chain(waking::cases(setting)).collect())
            }
            Self::Faults => faults::cases(setting),
            Self::Calls => calls::cases(),
            Self::Packets => packets::cases(setting),
            Self::Documents => documents::cases(setting),
            Self::Disk => disk::cases(setting),
        }
    }
}

/// Under which conditions probes measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Fewer sizes.
    pub quick: bool,
    /// A folder on the disk that is measured.
    pub folder: PathBuf,
    /// The largest working set.
    pub bytes_max: usize,
    /// Each array of a stream.
    pub stream_bytes: usize,
}

/// One quantity.
pub struct Case {
    /// What is measured, e.g. `memory load`.
    pub subject: String,
    /// Under which condition, e.g. `64 KiB/stride 8 B`.
    pub case: String,
    /// Which quantity.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Measures it once, which takes some milliseconds, and up to a quarter of a second.
    pub sample: Box<dyn FnMut() -> Result<f64, Error>>,
}

impl Case {
    fn new(
        subject: impl Into<String>,
        case: impl Into<String>,
        (metric, unit): (&'static str, &'static str),
        sample: impl FnMut() -> Result<f64, Error> + 'static,
    ) -> Self {
        Self { subject: subject.into(), case: case.into(), metric, unit, sample: Box::new(sample) }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {} in {}", self.subject, self.case, self.metric, self.unit)
    }
}

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Memory to measure could not be had.
    #[error(transparent)]
    Memory(#[from] forebay_vm::Error),
    /// The kernel refused something.
    #[error("cannot {action}: {source}")]
    Refused {
        /// What was tried, as a verb.
        action: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// What was measured is not what was to be measured.
    #[error(transparent)]
    Unsuited(#[from] Unsuited),
}

/// What makes a measurement one of something else.
#[derive(Debug, thiserror::Error)]
pub enum Unsuited {
    /// Reads of a file system cannot go past the page cache.
    #[error(
        "the file system of '{folder}' has no reads past the page cache, as one in memory; give a folder on a disk with --dir"
    )]
    NoDirectReads {
        /// The folder that was given.
        folder: String,
    },
    /// A packet over the loopback was lost.
    #[error("packets over the loopback did not arrive in {patience:?}; see its filters and limits")]
    LostPackets {
        /// The time it had.
        patience: std::time::Duration,
    },
    /// Other programs would be pushed out of memory.
    #[error(
        "a working set of {needed} is more than half of the {free} that are free; end what takes memory, or give --quick"
    )]
    LittleMemory {
        /// Size of the working set.
        needed: String,
        /// Free memory.
        free: String,
    },
    /// A file stays in memory although it was evicted.
    #[error(
        "the file for page faults stays in memory ({waited} of {expected} faults waited); give a folder on a disk with --dir"
    )]
    StaysInMemory {
        /// Faults that waited.
        waited: u64,
        /// Faults that were to wait.
        expected: usize,
    },
    /// There were more or fewer page faults than expected.
    #[error(
        "{expected} page faults were to be measured and {happened} happened; see \
         /sys/kernel/mm/transparent_hugepage/enabled for pages of another size"
    )]
    OtherFaults {
        /// Faults that were to be measured.
        expected: usize,
        /// Faults that the kernel counted.
        happened: u64,
    },
    /// The kernel does not count page faults.
    #[error("{path} has no counts of page faults")]
    NoFaultCounts {
        /// Where they are expected.
        path: String,
    },
}

impl Error {
    /// For `map_err`.
    fn refused<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |source| Self::Refused { action: action.into(), source: source.into() }
    }
}

/// A size as cases have it.
fn size(bytes: usize) -> String {
    forebay_quantity::exact_bytes(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every probe promises, with sizes that take no time: positive values, in cases that differ.
    #[test]
    fn every_case_of_every_probe_has_positive_values_and_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let setting = Setting {
            quick: true,
            folder: folder.path().to_owned(),
            bytes_max: 4 << 20,
            stream_bytes: 1 << 20,
        };
        let mut names = std::collections::BTreeSet::new();
        for probe in Probe::ALL {
            let cases = match probe.cases(&setting) {
                Ok(cases) => cases,
                // As on a folder in memory.
                Err(Error::Unsuited(why)) => {
                    eprintln!("{probe}: {why}");
                    continue;
                }
                Err(error) => panic!("{probe}: {error}"),
            };
            assert!(!cases.is_empty(), "{probe}");
            for mut case in cases {
                match (case.sample)() {
                    // The difference of two times of a busy machine may be anything.
                    Ok(value) => assert!(
                        value.is_finite() && (value > 0.0 || probe == Probe::Switches),
                        "{case:?}: {value}"
                    ),
                    Err(Error::Unsuited(why)) => eprintln!("{case:?}: {why}"),
                    Err(error) => panic!("{case:?}: {error}"),
                }
                assert!(names.insert((case.subject.clone(), case.case.clone(), case.metric)), "{case:?}");
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
