//! Tasks: what `forebay evaluate millipage` asks the hosts to measure.

use std::{env, time::Duration};

use forebay_launch::environment;
use forebay_millipage::{Granularity, Host, Options, join, transport::ping_pong};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::{Lie, Program, Report, Share, costs, neighbours};

/// What the processes of a job do together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// Run a program on shared memory.
    Program {
        /// Which.
        program: Program,
        /// What is shared at a time.
        share: Share,
    },
    /// Run its sequential form on ordinary memory, in one process.
    Sequential(Program),
    /// Measure faults, fetches, barriers and locks, so often each.
    Costs {
        /// How often.
        times: usize,
    },
    /// Send messages of these sizes to and fro, so often, by UCX alone.
    Messages {
        /// Sizes.
        bytes: Vec<usize>,
        /// How often.
        times: usize,
    },
    /// Write to two objects that lie so, each process to its own, for so long.
    Neighbours {
        /// How they lie.
        lie: Lie,
        /// How long each computes between two writes; if at all, only then each write is timed.
        pause_us: u64,
        /// For how long.
        milliseconds: u64,
    },
}

/// Why a task was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not two arguments.
    #[error("give a task and a file; forebay evaluate millipage does")]
    Usage,
    /// Another version's task.
    #[error("the task is not one of this version ({0}); install forebay and its workload together")]
    Task(serde_json::Error),
    /// Shared memory failed.
    #[error(transparent)]
    Sharing(#[from] forebay_millipage::Error),
    /// The report cannot be written.
    #[error("cannot report: {0}")]
    Report(std::io::Error),
}

/// Does this process's part of a task.
///
/// # Errors
/// Memory cannot be shared.
pub fn carry_out(task: &Task) -> Result<Report, Error> {
    match task {
        Task::Program { program, share } => program.parallel(*share),
        Task::Sequential(program) => {
            pin();
            Ok(program.sequential())
        }
        Task::Costs { times } => costs::measure(*times),
        Task::Messages { bytes, times } => messages(bytes, *times),
        Task::Neighbours { lie, pause_us, milliseconds } => {
            neighbours::measure(*lie, Duration::from_micros(*pause_us), Duration::from_millis(*milliseconds))
        }
    }
}

fn messages(bytes: &[usize], times: usize) -> Result<Report, Error> {
    pin();
    let mut report = Report::default();
    let taken = ping_pong(bytes, times)?;
    report.rank = u16::from(taken.is_empty());
    for (bytes, taken) in bytes.iter().zip(taken) {
        report.add_median(format!("message {bytes}"), taken);
    }
    Ok(report)
}

/// Becomes a host that shares so much, on a processor of its own where there are enough.
pub(crate) fn join_pinned(bytes: usize, views: usize, granularity: Granularity) -> Result<Host, Error> {
    pin();
    Ok(join(Options { bytes, views, at: None, granularity })?)
}

/// Binds this process to one of the processors that it may use: hosts in turn to all of them.
fn pin() {
    let rank = env::var(environment::RANK).ok().and_then(|rank| rank.parse::<usize>().ok()).unwrap_or(0);
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut own = CpuSet::new();
    own.set(processors[rank % processors.len()]);
    // Where that is refused the scheduler finds a place.
    let _ = sched_setaffinity(None, &own);
}
