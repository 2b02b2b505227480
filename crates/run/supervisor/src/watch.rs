//! Waits for the program, above it or beside it, and serves the channel meanwhile.

use std::{
    collections::BTreeSet,
    fs,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use forebay_linux::kernel_text;
use forebay_linux::process::{
    Apart, ChildEnd, ChildState, ChildUsage, Neighbour, SignalsBlocked, Woken, child_state, is_for_program,
    leave_idle, next_signal, reap_orphans, send_signal,
};
use forebay_protocol::layout::{OPENED_FREE, SLOT_CLAIMED, SLOT_CLOSED, SLOT_FREE, SLOTS, replay};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal, test_kill_process},
};

use crate::{
    Error, Options,
    channel::Channel,
    executor::{Executor, Sweep},
    faults::Faults,
    ffi::{self, OwnCode},
    leases::Leases,
    ledger::Ledger,
    memory_control::{MemoryControl, Trials},
    memory_limits::{MemoryEnd, MemoryLimits},
    processors::Processors,
    profiles::{
        learning::{Ahead, Learning},
        waits::Waits,
    },
    readahead::Readahead,
    room::Processes,
    storms::{Storms, StreamFigures},
};

/// A program that ends sooner is never waited for by more than the main thread.
const EXECUTOR_DELAY: Duration = Duration::from_millis(1);
/// Between looks at the channel: longer than a hint takes to write, short enough to free slots in time. Each look wakes a
/// processor, so none comes sooner because a program may begin to fault any time.
const ROUND: Duration = Duration::from_millis(100);
/// The same while speculation pauses for a trial.
const ROUND_TRIAL: Duration = Duration::from_millis(40);
/// And once after a process began to be told of its faults: it may have seen already that nothing comes of that.
const ROUND_TOLD: Duration = Duration::from_millis(20);
const ROUND_FIRST: Duration = Duration::from_millis(5);
/// What a speculator gets to notice that its original is gone.
const GRACE: Duration = Duration::from_millis(20);
/// What the kernel gets to end a killed speculator.
const DEATH: Duration = Duration::from_secs(1);
/// Name that speculators give themselves, as `/proc/<pid>/comm` has it.
const SPECULATOR_NAME: &str = "forebay:spec\n";

/// What became of the program.
pub struct Ended {
    /// How it ended.
    pub end: ChildEnd,
    /// What it used, with the processes that it waited for.
    pub usage: ChildUsage,
    /// What came of its memory.
    pub memory: MemoryEnd,
    /// What memory control's trials found.
    pub trials: Trials,
    /// What streams did.
    pub streams: StreamFigures,
}

/// The program that is watched.
pub struct Watched<'a, 'k> {
    /// Its process.
    pub pid: i32,
    /// Its file, or that of a script; `None` where the working directory has no path.
    pub file: Option<PathBuf>,
    /// Its profiles, and the replay of what they foretell.
    pub profiles: Option<(&'a mut Learning<'k>, Option<Ahead>)>,
}

/// Waits for the end of the program, which is a child, and tells how it ended. Passes signals on, stops and goes on with it.
///
/// # Errors
/// The kernel does not know it as our child.
pub fn watch(
    program: Watched<'_, '_>,
    channel: &Arc<Channel>,
    ledger: &mut Ledger,
    options: &Options,
) -> Result<Ended, Error> {
    let pid = program.pid;
    let mut rounds = Rounds::new(program, channel, ledger, options);
    let mut has_left = false;
    loop {
        if !has_left && rounds.is_over() {
            leave(channel);
            has_left = true;
        }
        let arrived = next_signal(Some(rounds.until_next()));
        // What the program sends to its group, it has; what it sends to its parent is not for itself.
        if let Some(arrived) = arrived.filter(|arrived| is_for_program(arrived) && arrived.sender != pid) {
            send_signal(pid, arrived.number, arrived.value);
        }
        match child_state(pid).map_err(|source| Error::Lost { source })? {
            None | Some(ChildState::Continued) => {}
            // Our parent sees that the program stopped by our stopping. SIGCONT is passed on like other signals.
            Some(ChildState::Stopped) => send_signal(getpid().as_raw_nonzero().get(), libc::SIGSTOP, None),
            Some(ChildState::Ended(end, usage)) => {
                ffi::expect(OwnCode::Any);
                rounds.waits.finish();
                return Ok(Ended {
                    end,
                    usage,
                    memory: rounds.limits.end(),
                    trials: rounds.control.trials(),
                    streams: rounds.storms.figures(channel.header()),
                });
            }
        }
        match arrived {
            None => rounds.look_if_due(),
            Some(arrived) if arrived.number == libc::SIGCHLD => rounds.look_at_wishes(),
            Some(_) => {}
        }
    }
}

/// Waits beside the program for its end, or until there is nothing left to do.
pub fn watch_beside(
    neighbour: &Neighbour,
    program: Watched<'_, '_>,
    signals: &SignalsBlocked,
    channel: &Arc<Channel>,
    ledger: &mut Ledger,
    options: &Options,
) {
    let mut rounds = Rounds::new(program, channel, ledger, options);
    loop {
        if rounds.is_over() {
            // Also where it learns: the program may need the process that this is.
            leave(channel);
            return;
        }
        match neighbour.wait(signals, rounds.until_next()) {
            Woken::Ended => return rounds.waits.finish(),
            Woken::ByChild => rounds.look_at_wishes(),
            Woken::Late => rounds.look_if_due(),
        }
    }
}

/// What the supervisor does while the program runs.
struct Rounds<'a, 'k> {
    pid: i32,
    /// Whose libraries are to be read ahead.
    file: Option<PathBuf>,
    channel: &'a Arc<Channel>,
    /// In a process of its own: one of its threads may wait for a file system that does not answer, and could not be ended.
    executor: Option<Option<Apart>>,
    ledger: &'a mut Ledger,
    control: MemoryControl,
    limits: MemoryLimits,
    sweep: Sweep,
    leases: Leases,
    faults: Faults,
    storms: Storms,
    readahead: Readahead,
    waits: Waits,
    processors: Processors,
    processes: Processes,
    learning: Option<&'a mut Learning<'k>>,
    /// Whether there were to be speculators.
    speculate: bool,
    is_thin: bool,
    /// Processes that have just begun are looked at sooner.
    round: Duration,
    timeout: Duration,
    next: Instant,
}

impl<'a, 'k> Rounds<'a, 'k> {
    fn new(
        program: Watched<'a, 'k>,
        channel: &'a Arc<Channel>,
        ledger: &'a mut Ledger,
        options: &Options,
    ) -> Self {
        let Watched { pid, file, profiles } = program;
        let processes = Processes::new(pid.unsigned_abs());
        processes.look(channel.header());
        let (learning, ahead) = profiles.unzip();
        let ahead = ahead.flatten();
        // What a profile foretells has the libraries in it.
        let file = file.filter(|_| ahead.is_none() && options.speculate);
        let (leases, executor) = ahead.map(|ahead| (ahead.leases, ahead.executor)).unzip();
        Self {
            pid,
            file,
            channel,
            executor,
            ledger,
            control: MemoryControl::new(options.memory_control),
            limits: MemoryLimits::new(channel.header(), options.memory_limit_bytes, pid.unsigned_abs()),
            sweep: Sweep::default(),
            leases: leases.unwrap_or_default(),
            faults: Faults::default(),
            storms: Storms::default(),
            readahead: Readahead::default(),
            waits: Waits::new(channel.clone(), pid.unsigned_abs()),
            processors: Processors::new(pid.unsigned_abs()),
            processes,
            learning,
            speculate: options.speculate,
            is_thin: false,
            round: ROUND_FIRST,
            timeout: EXECUTOR_DELAY,
            next: Instant::now(),
        }
    }

    /// Whether there will be no speculator again: of this program, or of what it executes.
    fn is_over(&self) -> bool {
        self.speculate && self.channel.header().enabled.load(Relaxed) == 0
    }

    /// How long to wait for the program. What processes without an agent wait for is looked at before.
    fn until_next(&mut self) -> Duration {
        let due = self.waits.look();
        if let Some(learning) = self.learning.as_mut().filter(|_| self.waits.are_any()) {
            learning.on_no_agent(self.pid.unsigned_abs(), self.waits.are_of_first());
        }
        due.min(self.timeout)
    }

    /// An agent may wait for an event to be closed, or for hints of an executor that was killed.
    fn look_at_wishes(&mut self) {
        self.faults.look(self.channel.header(), self.storms.spared());
        if self.executor.as_ref().is_some_and(|executor| executor.as_ref().is_some_and(Apart::has_ended)) {
            self.executor = Some(None);
            self.channel.header().executor_pid.store(0, Relaxed);
            self.channel.header().jobs.iter().for_each(|jobs| jobs.store(0, Relaxed));
            self.channel.header().jobs_begun.store(0, Relaxed);
            self.channel.header().opened.iter().for_each(|file| file.state.store(OPENED_FREE, Relaxed));
            self.channel.header().opened_count.store(0, Relaxed);
            self.channel.header().replay.state.store(replay::OVER, Relaxed);
            self.channel.header().replay.under_way.store(0, Relaxed);
        }
    }

    fn look_if_due(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        // First, because the kernel takes some milliseconds for others of these.
        let pid = self.pid.unsigned_abs();
        let to_judge = self.learning.as_mut().and_then(|learning| learning.look(self.channel, pid));
        let header = self.channel.header();
        reap_orphans(self.pid);
        self.processes.look(header);
        self.limits.look_if_due(header);
        self.processors.look(header);
        self.leases.look_if_due(header);
        let (channel, file) = (self.channel, &mut self.file);
        self.executor.get_or_insert_with(|| Executor::start_apart(channel, Vec::new(), file.take()));
        let soon = self.look_at_storms();
        let is_newly_told = self.faults.look(header, self.storms.spared());
        self.sweep.run(self.channel);
        collect(self.channel, self.ledger);
        self.control.look(self.channel, self.ledger);
        self.readahead.look(self.channel);
        if !self.is_thin && self.limits.are_reached() {
            ffi::expect(OwnCode::Few);
            self.is_thin = true;
        }
        self.round = (self.round * 2).min(ROUND);
        self.timeout = match (is_newly_told, self.control.is_pausing()) {
            (true, _) => self.round.min(ROUND_TOLD),
            (false, true) => self.round.min(ROUND_TRIAL),
            (false, false) => self.round,
        };
        self.timeout = [soon, to_judge].into_iter().flatten().fold(self.timeout, Duration::min);
        self.next = Instant::now() + self.timeout / 2;
    }

    /// When to look at storms again, if that is soon.
    fn look_at_storms(&mut self) -> Option<Duration> {
        if !self.speculate {
            return None;
        }
        self.storms.look(self.pid.unsigned_abs(), self.channel, &self.limits)
    }
}

/// Collects the figures of processes that have ended and frees their slots.
fn collect(channel: &Channel, ledger: &mut Ledger) {
    let closed: Vec<usize> = channel.slots_in(SLOT_CLOSED).collect();
    // A process that was killed closes nothing, and no process waits for its speculator.
    let dead: Vec<usize> =
        channel.slots_in(SLOT_CLAIMED).filter(|slot| !has_process(channel, *slot)).collect();
    for slot in closed.into_iter().chain(dead) {
        // A slot with a live speculator waits for another round: that speculator would write into the next owner's data.
        let speculators = Speculator::of(channel, slot);
        match (speculators.is_empty(), ledger.is_marked_dead(slot)) {
            (false, true) => speculators.iter().for_each(Speculator::kill),
            (false, false) => mark_dead(channel, ledger, slot),
            (true, _) => {
                ledger.collect(channel.slot(slot));
                ledger.forget(slot);
                channel.free_slot(slot);
            }
        }
    }
}

/// Tells the speculators of a slot that their original is gone.
fn mark_dead(channel: &Channel, ledger: &mut Ledger, slot: usize) {
    channel.slot(slot).generation.fetch_add(1, Relaxed);
    ledger.mark_dead(slot);
}

/// There will be no speculator again, maybe because the program needs the processes: all are gone when this returns, and the
/// agents are told so.
fn leave(channel: &Channel) {
    let speculators: Vec<_> = in_use(channel).flat_map(|slot| Speculator::of(channel, slot)).collect();
    speculators.iter().for_each(Speculator::kill);
    let deadline = Instant::now() + DEATH;
    for speculator in speculators {
        speculator.ends_by(deadline);
    }
    channel.header().supervisor_pid.store(0, Relaxed);
}

/// After the program's end: speculators of processes that have ended are gone when this returns, and all figures are
/// taken. Processes of the program that still run keep their agents.
pub fn finish(channel: &Channel, ledger: &mut Ledger) {
    let has_ended = |slot: &usize| {
        let state = channel.header().slot_states[*slot].load(Relaxed);
        state == SLOT_CLOSED || state == SLOT_CLAIMED && !has_process(channel, *slot)
    };
    in_use(channel).filter(has_ended).for_each(|slot| mark_dead(channel, ledger, slot));
    let deadline = Instant::now() + GRACE;
    let all = in_use(channel)
        .flat_map(|slot| Speculator::of(channel, slot).into_iter().map(move |one| (slot, one)));
    let left: Vec<_> = all.filter(|(_, speculator)| !speculator.ends_by(deadline)).collect();
    // Looked at again: a signal to a whole group ends its processes one after the other.
    let late: Vec<_> = left.into_iter().filter(|(slot, _)| has_ended(slot)).map(|(_, late)| late).collect();
    late.iter().for_each(Speculator::kill);
    let deadline = Instant::now() + DEATH;
    late.iter().for_each(|orphan| {
        // One that waits for a file system which does not answer ends when that does.
        while !orphan.ends_by((Instant::now() + GRACE).min(deadline))
            && Instant::now() < deadline
            && !orphan.waits_for_device()
        {}
    });
    for slot in channel.slots_in(SLOT_CLAIMED).chain(channel.slots_in(SLOT_CLOSED)) {
        ledger.collect(channel.slot(slot));
    }
}

/// Slots that are not free. A free one has no speculator, and the kernel would make memory for a look at it.
fn in_use(channel: &Channel) -> impl Iterator<Item = usize> {
    let states = &channel.header().slot_states;
    (0..SLOTS).filter(|slot| states[*slot].load(Relaxed) != SLOT_FREE)
}

fn has_process(channel: &Channel, slot: usize) -> bool {
    let pid = channel.slot(slot).pid.load(Relaxed);
    // A claimer has not always written its number yet.
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    // One that has ended has its number until its parent waits for it.
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => !ends_by(&process, Instant::now()),
        Err(_) => test_kill_process(pid) != Err(Errno::SRCH),
    }
}

/// Whether the process ends by then.
fn ends_by(process: &OwnedFd, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// A speculator, held so that its number cannot be reused for another process.
struct Speculator(OwnedFd, i32);

impl Speculator {
    /// The live speculator of `slot`, its checkpoint, and what is left of earlier ones.
    fn of(channel: &Channel, slot: usize) -> Vec<Self> {
        let slot = channel.slot(slot);
        let numbers =
            [&slot.speculator_pid, &slot.checkpoint.pid, &slot.forked].into_iter().chain(&slot.earlier);
        let numbers: BTreeSet<u32> = numbers.map(|number| number.load(Relaxed)).collect();
        numbers.into_iter().filter_map(Self::with).collect()
    }

    /// The live speculator with this number, which comes from untrusted memory: the process must bear the name too.
    fn with(number: u32) -> Option<Self> {
        let number = i32::try_from(number).ok()?;
        let held = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
        let name = fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
        let speculator = Self(held, number);
        (name == SPECULATOR_NAME && !speculator.ends_by(Instant::now())).then_some(speculator)
    }

    fn kill(&self) {
        // It may have ended meanwhile.
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
        // To end, it needs a processor. Its number is its own until init has waited for it.
        if !self.ends_by(Instant::now()) {
            leave_idle(self.1);
        }
    }

    /// Whether it is in a wait that no signal ends.
    fn waits_for_device(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.1)).unwrap_or_default();
        kernel_text::field(&status, "State").is_some_and(|state| state.starts_with('D'))
    }

    fn ends_by(&self, deadline: Instant) -> bool {
        ends_by(&self.0, deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_makes_no_memory_for_free_slots() {
        let channel = Channel::create(true).unwrap();
        let used = || {
            let path = format!("/proc/self/fd/{}", channel.descriptor());
            std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path).unwrap())
        };
        let before = used();
        leave(&channel);
        finish(&channel, &mut Ledger::default());
        assert_eq!(used(), before);
        channel.header().slot_states[SLOTS - 1].store(SLOT_CLAIMED, Relaxed);
        finish(&channel, &mut Ledger::default());
        assert!(used() > before, "a slot in use is looked at");
    }
}
