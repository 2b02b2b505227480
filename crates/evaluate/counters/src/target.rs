//! What is measured, and how.

use std::path::PathBuf;
use std::time::Duration;

use crate::files::Files;

/// Of what is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All that runs here.
    Machine,
    /// A process with its threads, without its children.
    Process(u32),
    /// A process and all that it starts, and has started.
    Tree(u32),
    /// A control group (version 1 or 2) with those below it, by its folder or by its name within the hierarchy.
    Cgroup(PathBuf),
}

/// How to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Time from one sample to the next, from 10 ms to an hour.
    pub interval: Duration,
    /// Whether to open the processor's counters too. Perf events cost what is measured a microsecond or more at every context
    /// switch.
    pub hardware: bool,
    /// The same for what the kernel counts as perf events, with threads and processes that live shortly.
    pub kernel_events: bool,
    /// Of which files to tell what is in memory.
    pub files: Files,
}

impl Default for Options {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), hardware: false, kernel_events: false, files: Files::None }
    }
}
