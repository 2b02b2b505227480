//! Carries out the hints that may block, replays and streams: path lookups, directories, and data of files.
//!
//! The executor is a process beside the supervisor. Its [`Crew`] of threads grows while those that it has wait. They end with the
//! supervisor, even one that waits for a file system that does not answer.

mod cells;
mod crew;
mod fetch;
mod folders;
mod follow;
mod job;
mod kernel_files;
mod libraries;
mod neighbours;
mod opened;
mod replay;
mod roots;
mod stream;
#[cfg(test)]
mod tests;

pub use cells::Sweep;

use std::{
    num::NonZeroU64,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed, SeqCst},
    },
    thread,
    time::Duration,
};

use forebay_linux::process::{Apart, start_apart};
use forebay_policy::{
    price::{AT_ONCE_HOPED, AT_WORK_MAX},
    replay::Pace,
};
use forebay_protocol::layout::OPENED;
use rustix::{
    fs::{Mode, OFlags, open},
    io::{Errno, fcntl_dupfd_cloexec},
    process::{PTracer, set_ptracer},
    thread::futex,
};

use crate::{channel::Channel, ffi};
use cells::Cells;
pub use crew::THREADS_MAX;
use crew::{Crew, LOOKS, Place};
use fetch::{Done, Fetcher};
use follow::Reach;
use job::{Begun, Job, Origin};
pub use job::{Expected, Fetch, Wanted};
use libraries::Libraries;
use neighbours::Neighbours;
use opened::Opened;
use replay::Replay;
use roots::Root;
use stream::Stream;

/// Threads that stay when there is nothing to do.
const THREADS_KEPT: usize = 2;
const STACK_BYTES: usize = 64 << 10;
/// What the threads have open at once: what was found, the same opened, and that once more where a file system is tried. Beside
/// these there are files that are open ahead.
const DESCRIPTORS_MAX: usize = 4 * THREADS_MAX + OPENED;
/// A thread that has nothing to do for so long looks around, in case a wake-up was lost with its sender, and ends if it
/// is one of many.
const IDLE: Duration = Duration::from_millis(500);

/// The pool of threads.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

struct Shared {
    channel: Arc<Channel>,
    crew: Crew,
    cells: Cells,
    opened: Opened,
    replay: Replay,
    libraries: Libraries,
    neighbours: Neighbours,
    stream: Stream,
    fetcher: Fetcher,
}

impl Executor {
    /// A pool for `channel` and a replay of these steps, without a thread.
    pub fn new(channel: Arc<Channel>, steps: Vec<Fetch>) -> Self {
        let depth_first = if steps.is_empty() { 0 } else { AT_ONCE_HOPED };
        Self::of(
            channel.clone(),
            Replay::new(channel, steps, Pace::new, Reach::default()),
            Root::Ours,
            depth_first,
        )
    }

    /// A pool that carries out all of these steps below `root`, which no path leads out of. Without a thread.
    pub fn below(root: OwnedFd, channel: Arc<Channel>, steps: Vec<Fetch>) -> Self {
        Self::of(
            channel.clone(),
            Replay::new(channel, steps, Pace::of_all, Reach::unlimited()),
            Root::Theirs(Arc::new(root)),
            AT_ONCE_HOPED,
        )
    }

    fn of(channel: Arc<Channel>, replay: Replay, root: Root, depth_first: u32) -> Self {
        let opened = Opened::new(channel.clone());
        Self(Arc::new(Shared {
            cells: Cells::new(channel.clone(), opened.clone()),
            replay,
            libraries: Libraries::new(channel.clone()),
            neighbours: Neighbours::new(channel.clone()),
            stream: Stream::new(channel.clone()),
            fetcher: Fetcher::new(channel.clone(), root, depth_first, opened.clone()),
            opened,
            crew: Crew::new(
                channel.header(),
                thread::available_parallelism().map_or(1, usize::from).min(AT_WORK_MAX),
            ),
            channel,
        }))
    }

    /// Starts a pool in a process of its own, which ends with this one; none where the system refuses a process. The libraries of
    /// `program` are read ahead, too.
    pub fn start_apart(channel: &Arc<Channel>, steps: Vec<Fetch>, program: Option<PathBuf>) -> Option<Apart> {
        let work = || {
            // Without a name it is only harder to find.
            let _ = rustix::thread::set_name(c"forebay:hints");
            let header = channel.header();
            header.executor_pid.store(std::process::id(), Relaxed);
            // The program may take what is opened for it also where a process may be traced by its parents alone.
            let _ = set_ptracer(PTracer::Any);
            let executor = Self::new(channel.clone(), steps);
            executor.start();
            if let Some(program) = program {
                executor.begin_libraries(program);
            }
            executor.0.fetcher.watch();
        };
        start_apart(work).ok()
    }

    /// In a thread of its own, which may wait for a device.
    fn begin_libraries(&self, program: PathBuf) {
        let shared = self.0.clone();
        let builder = thread::Builder::new().name("forebay:hints".into()).stack_size(STACK_BYTES);
        // Without it the loader only waits as it would alone.
        let _ = builder.spawn(move || shared.libraries.begin(&program));
    }

    /// Starts the first thread; it starts the others as they are needed.
    pub fn start(&self) {
        if self.0.crew.threads() == 0 {
            make_room_for_descriptors();
            grow(&self.0);
        }
    }
}

/// Has the kernel make the process's table of descriptors as large as all threads need it. As a process with threads needs a larger
/// one, the kernel waits for a grace period of RCU, and so do all of its opens: ten milliseconds and more.
fn make_room_for_descriptors() {
    let last = i32::try_from(DESCRIPTORS_MAX - 1).unwrap_or(i32::MAX);
    let any = open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    // Where the limit is less, or there is no such descriptor, the table grows as it is used.
    let _ = any.and_then(|any| fcntl_dupfd_cloexec(any, last));
}

/// Adds a thread; without one more the jobs only wait longer.
fn grow(shared: &Arc<Shared>) -> Option<()> {
    let place = shared.crew.join()?;
    let theirs = shared.clone();
    let builder = thread::Builder::new().name("forebay:hints".into()).stack_size(STACK_BYTES);
    builder.spawn(move || work(&theirs, place)).inspect_err(|_| shared.crew.leave(place)).ok().map(drop)
}

fn work(shared: &Arc<Shared>, place: Place) {
    let (header, crew) = (shared.channel.header(), &shared.crew);
    // The thread that stands by looks at short intervals.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    loop {
        let rung = header.doorbell.load(Acquire);
        crew.answer();
        let has_room = loop {
            if !crew.has_room(ffi::ticks()) {
                break false;
            }
            let Some(job) = shared.take() else { break true };
            carry_out(shared, place, &job);
        };
        let stands_by = !has_room && shared.has_ready() && crew.stand_by();
        let limit = if stands_by { LOOKS } else { IDLE };
        let limit = futex::Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() };
        header.sleepers.fetch_add(1, SeqCst);
        let woken = futex::wait(&header.doorbell, futex::Flags::empty(), rung, Some(&limit));
        header.sleepers.fetch_sub(1, SeqCst);
        if stands_by {
            crew.stand_down();
        } else if woken == Err(Errno::TIMEDOUT) && crew.leave_if_more_than(THREADS_KEPT, place) {
            return;
        }
    }
}

fn carry_out(shared: &Arc<Shared>, place: Place, job: &Job) {
    let begun = ffi::ticks();
    shared.crew.begin(place, begun);
    if shared.has_ready() && shared.crew.is_to_call(begun) {
        call(shared);
    }
    let done = shared.fetcher.carry_out(job);
    match job.origin {
        Origin::Slot(_) => {}
        Origin::Replay { step, is_whole } => shared.replay.on_done(step, is_whole, done),
        Origin::Library { file, .. } => shared.libraries.on_done(job, file, done),
        Origin::Neighbour { step, .. } => shared.neighbours.on_done(step, done),
        Origin::Stream { .. } => shared.stream.on_done(done),
    }
    job.ticket.finish();
    shared.crew.end(place);
}

/// Has another thread look for a job: one that sleeps, or a new one.
fn call(shared: &Arc<Shared>) {
    let sleeps = shared.channel.header().sleepers.load(SeqCst) > 0;
    let comes = if sleeps { wake(&shared.channel) } else { grow(shared).is_some() };
    if !comes {
        shared.crew.answer();
    }
}

impl Shared {
    /// The next job: hints first, since a program is about to need them.
    fn take(&self) -> Option<Job> {
        self.opened.sweep();
        let begun = Begun::new(&self.channel)?;
        let foretold = || self.replay.take().or_else(|| self.libraries.take());
        let is_remote = |device| self.fetcher.is_remote(device);
        let likely = || self.neighbours.take(is_remote).or_else(|| self.libraries.take_rest());
        let job = self.cells.take().or_else(foretold).or_else(likely).or_else(|| self.stream.take())?;
        Some(job.counted(begun))
    }

    fn has_ready(&self) -> bool {
        self.cells.has_ready()
            || self.replay.has_ready()
            || self.libraries.has_ready()
            || self.neighbours.has_ready()
            || self.libraries.has_rest()
            || self.stream.has_ready()
    }
}

/// Wakes a thread of the channel's executor, if one sleeps; whether it has.
pub fn wake(channel: &Channel) -> bool {
    let header = channel.header();
    if header.sleepers.load(SeqCst) == 0 {
        return false;
    }
    header.doorbell.fetch_add(1, SeqCst);
    // A thread that is not woken looks around by itself.
    futex::wake(&header.doorbell, futex::Flags::empty(), 1).is_ok_and(|woken| woken > 0)
}
