//! Brings what a profile or a pack names into memory, without a program: by the executor of replays, all steps of it.

mod latency;

pub use latency::latency;

use std::{
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_linux::{groups, process::start_beside};
use forebay_policy::price::READ_AHEAD_PART;
use forebay_profile::Plan;
use forebay_protocol::layout::{LEASES_SOME, replay};
use rustix::{
    fs::{Mode, OFlags, open},
    io,
};

use crate::{
    channel::Channel,
    executor::{Executor, Fetch, Wanted},
    leases::Leases,
    profiles::learning::{available_bytes, within_memory},
};

/// Between looks whether all is done.
const LOOK: Duration = Duration::from_millis(1);

/// What is to be brought into memory, and where it lies.
pub struct Warming {
    root: OwnedFd,
    steps: Vec<Fetch>,
    bytes: u64,
    bytes_left_out: u64,
}

/// What was brought into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Requests: paths, and pieces of data.
    pub steps: u64,
    /// Those that asked a device. For the others all was in memory.
    pub waited: u64,
    /// Pieces of files that have changed.
    pub changed: u64,
    /// Data that was wanted.
    pub bytes_wanted: u64,
    /// Data that is in memory now.
    pub bytes: u64,
    /// Data that the available memory has no room for.
    pub bytes_left_out: u64,
    /// A process on the machine holds a lease on a file, so no file was opened.
    pub are_leases_held: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Opens the folder that paths begin at.
///
/// # Errors
/// It is missing, is no folder, or may not be used.
pub fn open_root(path: &Path) -> io::Result<OwnedFd> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

impl Warming {
    /// The steps of `plan`, with paths that begin at `root`. `even_if_changed` takes the parts of a file that has changed, too.
    #[must_use]
    pub fn new(plan: Plan, root: OwnedFd, even_if_changed: bool) -> Self {
        let bytes = plan.bytes();
        let available = available_bytes().min(groups::free_bytes().unwrap_or(u64::MAX));
        let mut steps = within_memory(plan, available / READ_AHEAD_PART);
        let mut bytes_left_out = bytes;
        for step in &mut steps {
            if let Wanted::Data { length, expected, .. } = &mut step.wanted {
                bytes_left_out = bytes_left_out.saturating_sub(*length);
                *expected = expected.filter(|_| !even_if_changed);
            }
        }
        Self { root, steps, bytes, bytes_left_out }
    }

    /// Does it, and returns when it is done.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn carry_out(self) -> std::io::Result<Warmed> {
        let began = Instant::now();
        let channel = Arc::new(Channel::create(false)?);
        let executor = Executor::below(self.root, channel.clone(), self.steps);
        let header = channel.header();
        let mut leases = Leases::default();
        leases.look_if_due(header);
        executor.start();
        while header.replay.state.load(Acquire) == replay::ON {
            thread::sleep(LOOK);
            leases.look_if_due(header);
            // Without memory for a thread there is none yet.
            executor.start();
        }
        let figures = &header.replay;
        Ok(Warmed {
            steps: figures.done.load(Relaxed),
            waited: figures.waited.load(Relaxed),
            changed: figures.changed.load(Relaxed),
            bytes_wanted: self.bytes,
            bytes: figures.bytes.load(Relaxed),
            bytes_left_out: self.bytes_left_out,
            are_leases_held: header.leases.load(Relaxed) == LEASES_SOME,
            elapsed: began.elapsed(),
        })
    }

    /// Does it in a process beside this one, which must have one thread. Returns when that has begun.
    ///
    /// # Errors
    /// The system refuses a process.
    pub fn begin(self) -> std::io::Result<()> {
        let kept = [self.root.as_raw_fd()];
        start_beside(&kept, |_| {
            // Without a name it is only harder to find.
            let _ = rustix::thread::set_name(c"forebay:warm");
            // What cannot be fetched is not in memory, as without this.
            drop(self.carry_out());
        })?;
        Ok(())
    }
}
