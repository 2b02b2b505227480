//! The profiles of one run: what they foretell is replayed, and what the run needs teaches them.
//!
//! Replay and recording take place beside the program, which waits for neither. A replay stops when less than half of the first
//! [`REPLAY_JUDGED_NEEDS`] needs were foretold.
//!
//! A run is *known* when its first [`KNOWN_NEEDS`] needs were foretold and at most [`KNOWN_WAITS_MAX`] steps of its replay had
//! to wait. Of a known run nothing more is recorded, and its profiles stay as they are. A profile that was taught longer than
//! [`TAUGHT_S`] seconds ago is taught anew.
//!
//! After a known run the next one is taken to be known, too: its agents need not tell which mapped pages their programs have. To tell
//! that takes a short program longer than its work. If the run is not known, its profiles forget nothing, and the run after it tells all.

use std::{
    collections::HashMap,
    env,
    ffi::{CString, OsStr},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant, SystemTime},
};

use forebay_linux::{kernel_text, process::Apart};
use forebay_policy::price::{
    AT_ONCE_HOPED, KNOWN_NEEDS, KNOWN_NEW_PART, KNOWN_WAITS_MAX, READ_AHEAD_PART, REPLAY_JUDGED_NEEDS,
    TAUGHT_S,
};
use forebay_profile::{Act, Command, Foretold, Need, Origin, Plan, Profile, Scope, Step, path::split};
use forebay_protocol::layout::replay;

use super::{Recorded, Recorder, Recording, store::Store};
use crate::{
    Options,
    channel::Channel,
    executor::{Executor, Expected, Fetch, Wanted},
    leases::Leases,
};

/// What it takes at most to keep a profile once it was taught, by a clock of whole seconds.
const TAUGHT_IN_S: u64 = 1;

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
    wants_figures: bool,
}

impl<'a> Profiling<'a> {
    /// For the profiles of this user, if there are any and they are wanted.
    pub fn of(options: &Options) -> Self {
        let store = options.profile.then(Store::of_user).flatten();
        let store = store.filter(|store| !store.is_off());
        Self { store, wants_figures: options.statistics, ..Self::default() }
    }

    /// For the caller.
    pub fn kept_by(keep: Keep<'a>) -> Self {
        Self { keep: Some(keep), ..Self::default() }
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
    wants_figures: bool,
    scopes: Vec<Scope>,
    origin: Origin,
    expectation: Expectation,
    recorder: Recorder,
    /// Whether the program has no agent: it is seen to need only what it waits for.
    has_no_agent: bool,
    /// Whether agents tell which mapped pages their programs have in the end.
    sees_mapped: bool,
    begun: Instant,
    is_judged: bool,
    /// Whether the run is known, once that is decided.
    is_known: Option<bool>,
}

/// What is under way before the program begins.
pub struct Ahead {
    pub leases: Leases,
    /// It carries out the replay; `None` where the system had no room for it.
    pub executor: Option<Apart>,
}

impl Ahead {
    fn start(channel: &Arc<Channel>, steps: Vec<Fetch>) -> Self {
        let mut leases = Leases::default();
        leases.look_if_due(channel.header());
        Self { leases, executor: Executor::start_apart(channel, steps, None) }
    }
}

/// What the profile foretells of the run.
#[derive(Default)]
struct Expectation {
    foretold: Foretold,
    /// Whether a known run has nothing to tell the profile.
    is_fresh: bool,
}

impl<'a> Learning<'a> {
    /// Begins in the supervisor, beside the program or above it.
    pub fn begin(
        profiling: &Profiling<'a>,
        started: &Started,
        recording: &Recording,
        channel: &Arc<Channel>,
        is_beside: bool,
    ) -> (Self, Option<Ahead>) {
        let scopes = started.scopes();
        let Profiling { store, keep, wants_figures } = profiling;
        let kept = store.as_ref().and_then(|store| store.most_specific(&scopes));
        let is_fresh = kept.as_ref().is_some_and(|(profile, _)| is_fresh(profile.last_use_s(), now_s()));
        let was_known = kept.as_ref().is_some_and(|(profile, used_s)| was_known(profile, *used_s));
        let sees_mapped = *wants_figures || keep.is_some() || !is_fresh || !was_known;
        if !sees_mapped {
            recording.leave_mapped(channel);
        }
        let plan = kept.map(|(profile, _)| Plan::new(profile));
        let foretold = plan.as_ref().map(Foretold::of).unwrap_or_default();
        let steps =
            plan.map(|plan| within_memory(plan, available_bytes() / READ_AHEAD_PART)).unwrap_or_default();
        let origin = Origin::new(&started.words(), started.directory.as_os_str().as_bytes());
        let ahead = (!steps.is_empty()).then(|| Ahead::start(channel, steps));
        let learning = Self {
            store: store.clone(),
            keep: *keep,
            wants_figures: *wants_figures,
            scopes,
            origin,
            expectation: Expectation { foretold, is_fresh },
            recorder: Recorder::start(recording, is_beside),
            has_no_agent: false,
            sees_mapped,
            begun: Instant::now(),
            is_judged: ahead.is_none(),
            // Figures are of the whole run.
            is_known: (*wants_figures || !is_fresh).then_some(false),
        };
        (learning, ahead)
    }

    /// Goes on with the recording, and judges the replay and the run when that is due. When to look again, if that is soon: a known run
    /// should be recorded for a small part of its time. The calling thread must be the only one.
    pub fn look(&mut self, channel: &Channel, pid: u32) -> Option<Duration> {
        self.recorder.watch(pid);
        self.recorder.rest(pid);
        if self.is_judged && self.is_known.is_some() {
            return None;
        }
        let needs = self.recorder.first_needs(channel, KNOWN_NEEDS);
        if let (false, Some(first)) = (self.is_judged, needs.get(..REPLAY_JUDGED_NEEDS as usize)) {
            self.is_judged = true;
            // What is foretold in time, a program without an agent is not seen to wait for: the rest is judged by its folders.
            let folders = self.has_no_agent.then(|| self.expectation.foretold.folders());
            let is_near = |need: &Need| folders.as_ref().is_some_and(|all| all.contains(split(&need.path).0));
            let near =
                first.iter().filter(|need| self.expectation.foretold.has(need) || is_near(need)).count();
            if 2 * near < first.len() {
                // It may just be over.
                let state = &channel.header().replay.state;
                let _ = state.compare_exchange(replay::ON, replay::STOPPED, Relaxed, Relaxed);
            }
        }
        if self.is_known.is_none() && needs.len() == KNOWN_NEEDS {
            let is_known = self.expectation.is_all(channel, &needs);
            self.is_known = Some(is_known);
            if is_known {
                self.recorder.stop(channel);
            }
        }
        self.is_known.is_none().then(|| self.begun.elapsed())
    }

    /// A process has no agent, so its faults tell all of what it maps. To be called as often as it is looked at: a file that was not
    /// looked up before the end of the run may be unmounted then. The calling thread must be the only one.
    pub fn on_no_agent(&mut self, pid: u32, is_first: bool) {
        self.has_no_agent |= is_first;
        self.recorder.watch_soon();
        self.recorder.watch(pid);
    }

    /// The run is over: teaches its profiles, unless it is known. Its figures, where they are wanted.
    pub fn finish(self, channel: &Channel) -> Option<ProfileFigures> {
        let Self {
            store,
            keep,
            wants_figures,
            scopes,
            origin,
            expectation,
            recorder,
            has_no_agent,
            sees_mapped,
            is_known,
            ..
        } = self;
        // It is known, or has been renounced.
        if channel.access_log().wanted.load(Relaxed) == 0 {
            return None;
        }
        let is_stopped = channel.header().replay.state.load(Relaxed) == replay::STOPPED;
        let sees_all = sees_mapped && (is_stopped || !has_no_agent);
        let recorded = recorder.finish(channel);
        let is_known = is_known.is_none() && expectation.is_all(channel, &recorded.needs);
        let figures = wants_figures.then(|| figures(channel, &expectation.foretold, &recorded.needs));
        if let Some(store) = store.filter(|_| !is_known) {
            let identity_of = |path: &[u8]| recorded.identities.get(path).copied();
            store.teach(&scopes, &origin, sees_all, &recorded.needs, identity_of, now_s());
        }
        if let Some(keep) = keep {
            keep(recorded);
        }
        figures
    }
}

impl Expectation {
    /// How many of these needs were foretold.
    fn count(&self, needs: &[Need]) -> usize {
        needs.iter().filter(|need| self.foretold.has(need)).count()
    }

    /// Whether the profile has what the run needs, and that was in memory.
    fn is_all(&self, channel: &Channel, needs: &[Need]) -> bool {
        let new = needs.len() - self.count(needs);
        let waited = channel.header().replay.waited.load(Relaxed);
        self.is_fresh && new <= needs.len() / KNOWN_NEW_PART && waited <= KNOWN_WAITS_MAX
    }
}

/// Whether a profile that was taught then has nothing to learn from a known run now.
fn is_fresh(taught_s: u64, now_s: u64) -> bool {
    now_s.checked_sub(taught_s).is_some_and(|age_s| age_s < TAUGHT_S)
}

/// Whether the last run that used the profile was a known one: it was used after it was taught.
fn was_known(profile: &Profile, used_s: u64) -> bool {
    used_s > profile.last_use_s().saturating_add(TAUGHT_IN_S)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
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
    leave_out_look_ups(&mut steps);
    steps.into_iter().map(fetch).collect()
}

/// Drops the look-up of each file whose data is among the steps that are under way with it: these look it up, too. A remote file
/// system may be asked again for a name of which the data came long before.
fn leave_out_look_ups(steps: &mut Vec<Step>) {
    let is_data = |step: &Step| matches!(step.act, Act::Data { .. });
    let mut data_at: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| is_data(step)) {
        data_at.entry(step.path.clone()).or_default().push(at);
    }
    let mut at = 0;
    steps.retain(|step| {
        let here = at;
        at += 1;
        let is_near = |data: &usize| data.abs_diff(here) < AT_ONCE_HOPED as usize;
        step.act != Act::LookUp || !data_at.get(&step.path).is_some_and(|data| data.iter().any(is_near))
    });
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
    Fetch { path: step.path.into(), wanted, at_us: step.at_us }
}

pub fn available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    kernel_text::bytes(&text, "MemAvailable").unwrap_or(0)
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_profile::{Identity, Kind};
    use forebay_protocol::access_log::{Outcome, wanted};

    fn step(path: &str, at_us: u32, act: Act) -> Step {
        Step { path: path.into(), at_us, act }
    }

    #[test]
    fn a_file_is_looked_up_apart_only_where_its_data_is_needed_much_later() {
        let data = |path: &str, at_us| {
            let identity = Identity { dev: 1, ino: 1, size: 1, mtime_ns: 0 };
            step(path, at_us, Act::Data { identity, range: 0..1, first_block_if_changed: false })
        };
        let look_up = |path: &str, at_us| step(path, at_us, Act::LookUp);
        let between = (0..AT_ONCE_HOPED).map(|at| look_up(&format!("missing {at}"), 5));
        let mut steps = vec![look_up("soon", 0), data("soon", 1), look_up("later", 2), look_up("never", 3)];
        steps.extend(between);
        steps.extend([data("later", 6), data("soon", 7), look_up("soon", 8)]);
        let count = steps.len();
        leave_out_look_ups(&mut steps);
        assert_eq!(steps.len(), count - 2);
        let looked_up = |path: &str| steps.contains(&look_up(path, 2)) || steps.contains(&look_up(path, 3));
        assert!(looked_up("later") && looked_up("never"));
        assert!(!steps.iter().any(|step| step.act == Act::LookUp && step.path == b"soon"));
    }

    /// As that of a set-uid program is.
    #[test]
    fn a_renounced_run_teaches_nothing_and_ends_its_replay() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("profiles"));
        let profiling = Profiling { store: Some(store.clone()), ..Profiling::default() };
        let started = Started::new(Path::new("/bin/true"), &[c"true".into()]).unwrap();
        for is_renounced in [true, false] {
            let channel = Arc::new(Channel::create(true).unwrap());
            let recording = Recording::prepare(&channel);
            let (learning, ahead) = Learning::begin(&profiling, &started, &recording, &channel, false);
            assert!(ahead.is_none());
            let log = channel.access_log();
            let above = log.append_path(Outcome::Named, 0, 0, b"/").unwrap();
            log.append_path(Outcome::Missing, 1, above, b"no-such-file").unwrap();
            if is_renounced {
                recording.renounce(&channel);
                assert_eq!(channel.header().replay.state.load(Relaxed), replay::STOPPED);
            }
            assert!(learning.finish(&channel).is_none());
            assert_eq!(store.profiles().count() == 0, is_renounced);
        }
    }

    #[test]
    fn after_a_known_run_agents_need_not_tell_of_mapped_pages_and_nothing_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("profiles"));
        let profiling = Profiling { store: Some(store.clone()), ..Profiling::default() };
        let started = Started::new(Path::new("/bin/true"), &[c"true".into()]).unwrap();
        let need = |path: &str| Need { at_us: 1, path: path.into(), kind: Kind::LookUp, range: 0..0 };
        // Whether mapped pages are wanted in a run that needs `path`.
        let run = |path: &str| {
            let channel = Arc::new(Channel::create(true).unwrap());
            let recording = Recording::prepare(&channel);
            let (learning, _) = Learning::begin(&profiling, &started, &recording, &channel, false);
            let log = channel.access_log();
            let above = log.append_path(Outcome::Named, 0, 0, b"/").unwrap();
            log.append_path(Outcome::Missing, 1, above, path.as_bytes()).unwrap();
            let is_wanted = log.wanted.load(Relaxed) & wanted::MAPPED != 0;
            let _ = learning.finish(&channel);
            is_wanted
        };
        let keys: Vec<_> = started.scopes().into_iter().map(|scope| scope.key).collect();
        let (origin, first) = (Origin::new(&[b"/bin/true"], b"/"), need("/first"));
        for key in &keys {
            store.put(&Profile::new(*key, origin.clone()).learn([&first], |_| None, now_s())).unwrap();
        }
        assert!(run("/first"), "it may be wrong");
        let later = SystemTime::now() + Duration::from_secs(60);
        for key in &keys {
            fs::File::open(store.path().join(key.name())).unwrap().set_modified(later).unwrap();
        }
        for path in ["/second", "/third"] {
            let has_known = !run(path);
            let kept = store.look_up(&keys[0]).unwrap();
            assert!(kept.entries().iter().any(|entry| entry.path == b"/first"));
            assert_eq!(has_known, path == "/second", "a run that was taught tells all");
        }
    }

    #[test]
    fn a_profile_is_fresh_for_a_day_and_never_in_the_future() {
        let taught_s = 1_000_000;
        assert!(is_fresh(taught_s, taught_s) && is_fresh(taught_s, taught_s + 86_399));
        assert!(!is_fresh(taught_s, taught_s + 86_400) && !is_fresh(taught_s, taught_s - 1));
    }
}
