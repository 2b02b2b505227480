use std::fmt;
use std::io;
use std::path::PathBuf;

use forebay_results::Tier;

/// What to do where the files of a process cannot be read.
pub(crate) const SAME_USER: &str = "run forebay as the user of that process, or as root";

/// Why nothing can be counted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no process of this number.
    #[error("there is no process {pid}; name one that runs (ps -e lists them)")]
    NoProcess {
        /// The process that was asked for.
        pid: u32,
    },
    /// There is no control group of this name.
    #[error("there is no control group '{}'; name a folder under /sys/fs/cgroup", path.display())]
    NoGroup {
        /// The control group that was asked for.
        path: PathBuf,
    },
    /// The interval is too short to be anything but overhead, or longer than anyone waits.
    #[error("cannot sample each {asked:?}; give an interval of {min:?} to {max:?}")]
    Interval {
        /// What was asked for.
        asked: std::time::Duration,
        /// The shortest.
        min: std::time::Duration,
        /// The longest.
        max: std::time::Duration,
    },
    /// A file of the kernel's cannot be read.
    #[error("cannot read {} ({}); mount /proc and run as the user of what is measured, or as root",
        path.display(), forebay_results::reason(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file or folder that was named cannot be looked at.
    #[error("cannot look at {} ({}); name files or folders that are there and may be read", path.display(),
        forebay_results::reason(source))]
    File {
        /// As it was named.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The system has no thread to give.
    #[error("cannot start the thread that samples ({}); end some processes, or raise ulimit -u",
        forebay_results::reason(.0))]
    Thread(io::Error),
}

/// A counter that could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name, as [`crate::Counter::name`] would be.
    pub counter: String,
    /// Where it would have come from.
    pub tier: Tier,
    /// What the system said.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counter, tier, why, remedy } = self;
        write!(f, "{counter} ({tier}): {why}; {remedy}")
    }
}
