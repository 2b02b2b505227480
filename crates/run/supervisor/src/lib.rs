//! `forebay run`: starts the program with the agent, carries out the hints that may block, and keeps the statistics.
//!
//! By [`become_program`] the calling process becomes the program. The supervisor is a process beside the program, so signals,
//! job control and exit status are the program's own. By [`run`] the supervisor is the program's parent: it passes signals on,
//! ends as the program ended, and has statistics then.
//!
//! The parts, in the order in which a run uses them: `agent_library`, `channel`, `launch` (with
//! `examine` and `patch_table`), `watch` (with `executor`, `devices` and `ledger`), [`statistics`]. [`warm`] uses the executor alone.
#![deny(unsafe_code)]

pub mod agent_library;
mod channel;
mod devices;
mod error;
mod examine;
mod executor;
mod faults;
mod ffi;
pub mod installed;
mod launch;
mod leases;
mod ledger;
mod memory_control;
mod memory_groups;
mod memory_limits;
mod patch_table;
pub mod patches;
mod processors;
pub mod profiles;
mod readahead;
mod room;
pub mod statistics;
mod storms;
mod table;
pub mod warm;
mod watch;

pub use error::Error;
pub use ffi::has_fault_signals;
pub use forebay_profile::{Kind, Need};
pub use memory_control::Trials;
pub use memory_limits::{MemoryEnd, has_memory_group, has_pressure, has_swap};
pub use profiles::{Keep, ProfileFigures, Recorded, Store as ProfileStore};
pub use storms::StreamFigures;
pub use table::terminal_width;

use std::{
    cell::OnceCell,
    env,
    ffi::{CString, OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use agent_library::Preload;
use channel::Channel;
use forebay_linux::{
    kernel_text,
    process::{ChildUsage, SignalsBlocked, adopts_orphans, start_beside},
};
use launch::Assistance;
use ledger::Ledger;
use profiles::{
    Recording,
    learning::{Learning, Profiling, Started},
};
use statistics::{MemoryUse, Statistics};
use watch::Watched;

/// What to run and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The agent's library; see [`agent_library::locate`].
    pub agent: PathBuf,
    /// Whether agents may speculate. Without, they are loaded and do nothing: what they cost can be measured.
    pub speculate: bool,
    /// Whether trials find out what speculation gains.
    pub memory_control: bool,
    /// Memory that a speculator may add, instead of what fits the machine.
    pub memory_limit_bytes: Option<u64>,
    /// Whether the statistics will be read. Without, the supervisor leaves out what only they need.
    pub statistics: bool,
    /// Whether agents patch libc. Without, they interpose its functions, as where it cannot be patched.
    pub patch: bool,
    /// Whether what earlier runs needed is replayed, and what this one needs is recorded.
    pub profile: bool,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The program's exit status; 128 + n where signal n killed it.
    pub exit_status: u8,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// What happened meanwhile.
    pub statistics: Statistics,
}

/// Becomes the program, with a supervisor beside it. Returns why the program could not be started; nothing of it has run then.
///
/// The calling thread must be the only one.
#[must_use]
pub fn become_program(options: &Options) -> Error {
    become_watched_program(options, &Profiling::of(options))
}

/// As [`become_program`]. At the program's end the supervisor calls `keep` with what the run needed of file systems.
#[must_use]
pub fn become_recorded_program(options: &Options, keep: Keep<'_>) -> Error {
    become_watched_program(options, &Profiling::kept_by(keep))
}

fn become_watched_program(options: &Options, profiling: &Profiling<'_>) -> Error {
    if !room::is_in_address_space() {
        return become_program_alone(&options.command);
    }
    let beside = OnceCell::new();
    let prepared = Preload::new(&options.agent).zip(Channel::create(options.speculate).ok());
    let Some((preload, channel)) = prepared.map(|(preload, channel)| (preload, Arc::new(channel))) else {
        return become_program_alone(&options.command);
    };
    let recording = profiling.is_on().then(|| Recording::prepare(&channel));
    let supervisor = |path: &Path, arguments: &[CString]| {
        let stand = || {
            let profiles = recording.as_ref().zip(Started::new(path, arguments));
            stand_beside(&channel, &preload, options, profiling, (absolute(path), profiles)).ok()
        };
        *beside.get_or_init(stand)
    };
    let assistance = Assistance {
        channel: &channel,
        preload: Some(&preload),
        patch: options.patch,
        supervisor: &supervisor,
        recording: recording.as_ref(),
    };
    launch::become_program(&options.command, Some(&assistance)).into()
}

/// Becomes the program, without agent or supervisor. Returns why the program could not be started.
#[must_use]
pub fn become_program_alone(command: &[OsString]) -> Error {
    launch::become_program(command, None).into()
}

/// Whether [`become_program`] can hide the supervisor from the program: a process that adopts orphans would get it as a child.
#[must_use]
pub fn can_stand_beside() -> bool {
    !adopts_orphans()
}

/// Starts the supervisor beside this process, which is about to become the program. Returns the supervisor's process id.
fn stand_beside(
    channel: &Arc<Channel>,
    preload: &Preload,
    options: &Options,
    profiling: &Profiling<'_>,
    (file, profiles): (Option<PathBuf>, Option<(&Recording, Started)>),
) -> io::Result<u32> {
    let kept: Vec<_> = [channel.descriptor()].into_iter().chain(preload.descriptor()).collect();
    let pid = start_beside(&kept, |neighbour| {
        channel.header().supervisor_pid.store(std::process::id(), Relaxed);
        channel.survey();
        let signals = SignalsBlocked::but_for_children();
        let mut ledger = Ledger::default();
        let begin = |(recording, started): (&Recording, Started)| {
            Learning::begin(profiling, &started, recording, channel, true)
        };
        let (mut learning, ahead) = profiles.map(begin).unzip();
        let program = Watched { pid: neighbour.pid, file, profiles: learning.as_mut().zip(ahead) };
        watch::watch_beside(&neighbour, program, &signals, channel, &mut ledger, options);
        watch::finish(channel, &mut ledger);
        let _ = learning.and_then(|learning| learning.finish(channel));
    })?;
    Ok(pid.unsigned_abs())
}

/// Runs a program to its end, as its parent. The calling thread must be the only one, and the process forebay's alone: its
/// signals are the program's meanwhile.
///
/// # Errors
/// The program could not be started; nothing of it has run then.
pub fn run(options: &Options) -> Result<Outcome, Error> {
    run_watched(options, &Profiling::of(options))
}

/// As [`run`]. At the program's end `keep` is called with what the run needed of file systems.
///
/// # Errors
/// As [`run`].
pub fn run_recorded(options: &Options, keep: Keep<'_>) -> Result<Outcome, Error> {
    run_watched(options, &Profiling::kept_by(keep))
}

fn run_watched(options: &Options, profiling: &Profiling<'_>) -> Result<Outcome, Error> {
    let preload = Preload::new(&options.agent);
    let channel = Channel::create(options.speculate).map_err(|source| Error::NoSharedMemory { source })?;
    channel.survey();
    let channel = Arc::new(channel);
    let mut ledger = Ledger::default();
    let recording = profiling.is_on().then(|| Recording::prepare(&channel));

    let signals = SignalsBlocked::new();
    let started = Instant::now();
    let (profiles, file) = (OnceCell::new(), OnceCell::new());
    let supervisor = |path: &Path, arguments: &[CString]| {
        let _ = file.set(absolute(path));
        let begin = |(recording, started): (&Recording, Started)| {
            Learning::begin(profiling, &started, recording, &channel, false)
        };
        profiles.get_or_init(|| recording.as_ref().zip(Started::new(path, arguments)).map(begin));
        Some(std::process::id()).filter(|_| room::is_in_address_space())
    };
    let assistance = Assistance {
        channel: &channel,
        preload: preload.as_ref(),
        patch: options.patch,
        supervisor: &supervisor,
        recording: recording.as_ref(),
    };
    let pid = launch::launch(&options.command, &assistance, &signals)?;
    let (mut learning, ahead) = profiles.into_inner().flatten().unzip();
    let program = Watched { pid, file: file.into_inner().flatten(), profiles: learning.as_mut().zip(ahead) };
    let ended = watch::watch(program, &channel, &mut ledger, options)?;
    let elapsed = started.elapsed();
    watch::finish(&channel, &mut ledger);
    let profile = learning.and_then(|learning| learning.finish(&channel));
    drop(signals);

    let (total, rows) = ledger.close();
    // What holds speculation to limits is missed where there was a reason to speculate.
    let needed = if total.stalls_before() > 0 { ended.memory.missing } else { 0 };
    channel.header().missing.fetch_or(ended.memory.missed | needed, Relaxed);
    let (exit_status, signal) = (ended.end.exit_status(), ended.end.signal());
    let mut statistics = Statistics {
        program: program_name(&options.command),
        elapsed,
        exit_status,
        signal,
        memory: ended.memory,
        trials: ended.trials,
        streams: ended.streams,
        profile,
        usage: (options.statistics && total.memory().is_none()).then(|| memory_use(ended.usage)),
        total,
        rows,
        ..Statistics::default()
    };
    statistics.read_header(channel.header());
    Ok(Outcome { exit_status, signal, statistics })
}

/// `None` where the working directory has no path.
fn absolute(path: &Path) -> Option<PathBuf> {
    env::current_dir().ok().map(|directory| directory.join(path))
}

/// What the kernel says of the program and of the processes that it waited for.
fn memory_use(usage: ChildUsage) -> MemoryUse {
    // The program ran in our memory until it was executed, and the kernel keeps the larger of both sizes.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let own_bytes = kernel_text::bytes(&status, "VmHWM");
    let max_rss_bytes = own_bytes.and_then(|own| Some(usage.max_rss_bytes).filter(|bytes| *bytes > own));
    MemoryUse { max_rss_bytes, minor_faults: usage.minor_faults, major_faults: usage.major_faults }
}

fn program_name(command: &[OsString]) -> String {
    let name =
        command.first().map(|path| Path::new(path).file_name().unwrap_or(path)).unwrap_or(OsStr::new(""));
    name.to_string_lossy().chars().map(|char| if char.is_control() { '?' } else { char }).collect()
}
