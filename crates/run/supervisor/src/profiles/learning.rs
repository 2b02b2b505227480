//! The profiles of one run: what they foretell is replayed, and what the run needs teaches them.
//!
//! Replay and recording take place beside the program, which waits for neither. A replay stops when less than half of the first
//! [`JUDGED_NEEDS`] needs were foretold.

use std::{
    env,
    ffi::{CString, OsStr},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::SystemTime,
};

use forebay_linux::kernel_text;
use forebay_profile::{Act, Command, Foretold, Need, Origin, Plan, Scope, Step};
use forebay_protocol::layout::replay;

use super::{Recorded, Recorder, Recording, store::Store};
use crate::{
    channel::Channel,
    executor::{Expected, Fetch, Wanted},
};

/// Needs by which a replay is judged.
const JUDGED_NEEDS: usize = 64;
/// Part of the available memory that a replay may fill.
pub const MEMORY_PART: u64 = 4;

/// A command that is about to be executed.
pub struct Started {
    program: Vec<u8>,
    arguments: Vec<CString>,
    directory: PathBuf,
}

impl Started {
    /// The executable at `path` with its name and arguments, in this working directory; `None` where that has no path.
    pub fn new(path: &Path, arguments: &[CString]) -> Option<Self> {
        let directory = env::current_dir().ok()?;
        let program = directory.join(path).into_os_string().into_encoded_bytes();
        Some(Self { program, arguments: arguments.to_vec(), directory })
    }

    /// Its profiles, the most specific first.
    pub fn scopes(&self) -> Vec<Scope> {
        let words = self.words();
        let command = Command {
            program: &self.program,
            arguments: words.get(1..).unwrap_or_default(),
            directory: self.directory.as_os_str().as_bytes(),
        };
        Scope::of(&command, |path| fs::metadata(path_of(path)).is_ok_and(|found| found.is_file()))
    }

    fn words(&self) -> Vec<&[u8]> {
        self.arguments.iter().map(|word| word.as_bytes()).collect()
    }
}

/// What profiles did for a run, and what they were worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileFigures {
    /// Things that the run needed, as far as they were recorded.
    pub needs: u64,
    /// Those of them that the profile had.
    pub foretold: u64,
    /// Steps of the replay.
    pub steps: u64,
    /// Those that were carried out.
    pub done: u64,
    /// Those that asked a device.
    pub waited: u64,
    /// Those whose file had changed.
    pub changed: u64,
    /// Data that the replay brought into memory, or found there.
    pub bytes: u64,
    /// What of it the run did not need.
    pub bytes_unused: u64,
    /// The replay was stopped, because the run needed other things.
    pub is_stopped: bool,
}

/// What is done with what was recorded of a run.
pub type Keep<'a> = &'a dyn Fn(Recorded);

/// Whether a run is recorded, and what for.
#[derive(Default)]
pub struct Profiling<'a> {
    store: Option<Store>,
    keep: Option<Keep<'a>>,
}

impl<'a> Profiling<'a> {
    /// For the profiles of this user, if there are any and they are wanted.
    pub fn of(is_wanted: bool) -> Self {
        let store = is_wanted.then(Store::of_user).flatten();
        Self { store: store.filter(|store| !store.is_off()), keep: None }
    }

    /// For the caller.
    pub const fn kept_by(keep: Keep<'a>) -> Self {
        Self { store: None, keep: Some(keep) }
    }

    /// Whether it is.
    pub const fn is_on(&self) -> bool {
        self.store.is_some() || self.keep.is_some()
    }
}

/// The profiles of one run.
pub struct Learning<'a> {
    store: Option<Store>,
    keep: Option<Keep<'a>>,
    scopes: Vec<Scope>,
    origin: Origin,
    foretold: Foretold,
    recorder: Recorder,
    is_judged: bool,
}

impl<'a> Learning<'a> {
    /// Begins in the supervisor. Also what is to be replayed.
    pub fn begin(
        profiling: &Profiling<'a>,
        started: &Started,
        recording: &Recording,
        channel: &Channel,
        process: Option<u32>,
    ) -> (Self, Vec<Fetch>) {
        let recorder = Recorder::start(recording, channel, process);
        let scopes = started.scopes();
        let store = profiling.store.clone();
        let profile = store.as_ref().and_then(|store| store.most_specific(&scopes));
        let plan = profile.map(Plan::new);
        let foretold = plan.as_ref().map(Foretold::of).unwrap_or_default();
        let steps = plan.map(|plan| within_memory(plan, available_bytes() / MEMORY_PART)).unwrap_or_default();
        let origin = Origin::new(&started.words(), started.directory.as_os_str().as_bytes());
        (Self { store, keep: profiling.keep, scopes, origin, foretold, recorder, is_judged: false }, steps)
    }

    /// Takes what the kernel has no more room for, and judges the replay when that is due.
    pub fn look(&mut self, channel: &Channel, pid: u32) {
        self.recorder.look(pid);
        let state = &channel.header().replay.state;
        if self.is_judged || state.load(Relaxed) != replay::ON {
            return;
        }
        let needs = self.recorder.first_needs(channel, JUDGED_NEEDS);
        if needs.len() < JUDGED_NEEDS {
            return;
        }
        self.is_judged = true;
        let foretold = needs.iter().filter(|need| self.foretold.has(need)).count();
        if 2 * foretold < JUDGED_NEEDS {
            // It may just be over.
            let _ = state.compare_exchange(replay::ON, replay::STOPPED, Relaxed, Relaxed);
        }
    }

    /// The run is over: teaches its profiles.
    pub fn finish(self, channel: &Channel) -> ProfileFigures {
        let Self { store, keep, scopes, origin, foretold, recorder, .. } = self;
        let recorded = recorder.finish(channel);
        let figures = figures(channel, &foretold, &recorded.needs);
        if let Some(store) = store {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now_s = now.map_or(0, |now| now.as_secs());
            let identity_of = |path: &[u8]| recorded.identities.get(path).copied();
            store.teach(&scopes, &origin, &recorded.needs, identity_of, now_s);
        }
        if let Some(keep) = keep {
            keep(recorded);
        }
        figures
    }
}

fn figures(channel: &Channel, foretold: &Foretold, needs: &[Need]) -> ProfileFigures {
    let replay = &channel.header().replay;
    let bytes = replay.bytes.load(Relaxed);
    ProfileFigures {
        needs: needs.len() as u64,
        foretold: needs.iter().filter(|need| foretold.has(need)).count() as u64,
        steps: replay.steps.load(Relaxed),
        done: replay.done.load(Relaxed),
        waited: replay.waited.load(Relaxed),
        changed: replay.changed.load(Relaxed),
        bytes,
        bytes_unused: foretold.unused_bytes(needs).min(bytes),
        is_stopped: replay.steps.load(Relaxed) > 0 && replay.state.load(Relaxed) == replay::STOPPED,
    }
}

/// The steps, in the order in which they are needed, as far as their data fits.
pub fn within_memory(plan: Plan, bytes_max: u64) -> Vec<Fetch> {
    let mut steps: Vec<Step> = plan.collect();
    steps.sort_by_key(|step| step.at_us);
    let mut room = bytes_max;
    let mut fits = |step: &Step| {
        let Act::Data { range, .. } = &step.act else { return true };
        room = room.saturating_sub(range.end - range.start);
        room > 0
    };
    steps.retain(|step| fits(step));
    steps.into_iter().map(fetch).collect()
}

fn fetch(step: Step) -> Fetch {
    let wanted = match step.act {
        Act::LookUp => Wanted::LookUp { follow: true },
        Act::List => Wanted::Directory,
        Act::ReadLink => Wanted::Link,
        Act::Data { identity, range, first_block_if_changed: beginning_if_changed } => Wanted::Data {
            offset: range.start,
            length: range.end - range.start,
            expected: Some(Expected { identity, beginning_if_changed }),
        },
    };
    Fetch { path: step.path.into(), wanted }
}

pub fn available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    kernel_text::bytes(&text, "MemAvailable").unwrap_or(0)
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}
