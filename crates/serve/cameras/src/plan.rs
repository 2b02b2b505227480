//! Which cameras there are, and what each is like.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use forebay_rtsp::range::SECOND_NS;
use thiserror::Error;

use crate::alarms::Motion;
use crate::chance::{Purpose, below, draw, share};
use crate::faults::{Fault, Faults, Times};
use crate::film::Film;
use crate::script::{Concerned, Script};

/// How far clocks of cameras run away, in billionths: as far as the quartz of a cheap one.
const DRIFT_MAX: u64 = 50_000;
/// How far clocks of cameras are off at the epoch.
const OFFSET_NS_MAX: u64 = 500_000_000;
/// Draws for motions have numbers from here on, so that they are no faults' draws.
const MOTIONS: u64 = 1 << 32;
/// How often a camera reports.
pub(crate) const REPORT_NS: u64 = 2 * SECOND_NS;

/// What is to be planned.
pub struct Wanted {
    /// How many cameras; camera `n` plays film `(n - 1) % films`.
    pub cameras: u32,
    /// What all chance comes from.
    pub seed: u64,
    /// The time of the epoch since 1970, as the cameras' clocks count from it.
    pub epoch_unix_ns: u64,
    /// Names, users and faults.
    pub script: Script,
}

/// All cameras.
pub struct Plan {
    cameras: Vec<Arc<Camera>>,
    numbers: HashMap<String, usize>,
}

/// What opens a camera to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// A script that does not fit the cameras.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unplannable {
    /// A camera that there is not.
    #[error("the script names camera {number}, and --cameras makes {cameras}")]
    NoSuchCamera {
        /// Its number.
        number: u32,
        /// How many there are.
        cameras: u32,
    },
    /// Two cameras of one name.
    #[error("two cameras are called {0}: choose another name in the script")]
    SameName(String),
    /// A user with two passwords.
    #[error("user {0} has two passwords: a user of several cameras has the same one for all of them")]
    TwoPasswords(String),
}

/// One camera.
pub struct Camera {
    /// Its number, from 1.
    pub number: u32,
    /// The path of its URL.
    pub name: String,
    /// The user that may watch it; all clients may without one.
    pub login: Option<Login>,
    /// What it plays.
    pub film: Arc<Film>,
    /// Where in the film it is at the epoch, in nanoseconds.
    pub phase_ns: u64,
    /// How much faster its clock runs than time, in billionths.
    pub drift: i64,
    /// How far its clock is off at the epoch, in nanoseconds.
    pub offset_ns: i64,
    pub(crate) sources: Vec<Source>,
    pub(crate) faults: Faults,
    pub(crate) motions: Vec<Motion>,
    pub(crate) epoch_unix_ns: u64,
    /// When its first report is due.
    pub(crate) report_ns: u64,
}

/// What the packets of a track begin with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub ssrc: u32,
    pub sequence: u16,
    pub timestamp: u32,
    pub clock_rate: u32,
}

impl Plan {
    /// The cameras that play these films, at least one.
    pub fn new(films: &[Arc<Film>], wanted: &Wanted) -> Result<Self, Unplannable> {
        let mut plan = Self { cameras: Vec::new(), numbers: HashMap::new() };
        let cameras = wanted.cameras;
        let named = wanted.script.cameras.iter().map(|named| named.number);
        let faults = wanted.script.faults.iter().map(|fault| &fault.concerned);
        let motions = wanted.script.motions.iter().map(|motion| &motion.concerned);
        let chosen =
            faults.chain(motions).flat_map(|concerned| concerned.cameras.iter().map(|range| *range.end()));
        if let Some(number) = named.chain(chosen).find(|number| *number > cameras) {
            return Err(Unplannable::NoSuchCamera { number, cameras });
        }
        for (film, number) in films.iter().cycle().zip(1..=cameras) {
            let camera = Camera::new(number, film, wanted);
            if plan.numbers.insert(camera.name.clone(), plan.cameras.len()).is_some() {
                return Err(Unplannable::SameName(camera.name));
            }
            plan.cameras.push(Arc::new(camera));
        }
        plan.logins()?;
        Ok(plan)
    }

    /// All of them.
    pub fn cameras(&self) -> &[Arc<Camera>] {
        &self.cameras
    }

    /// The one of a number.
    pub(crate) fn numbered(&self, number: u32) -> Option<&Camera> {
        self.cameras.get(number.checked_sub(1)? as usize).map(|camera| &**camera)
    }

    /// The place among [`Plan::cameras`] of the one with this name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Each user with the password, and the names of the cameras that the user may watch.
    pub fn logins(&self) -> Result<Vec<(Login, Vec<String>)>, Unplannable> {
        let mut logins: BTreeMap<String, (Login, Vec<String>)> = BTreeMap::new();
        for camera in &self.cameras {
            let Some(login) = &camera.login else { continue };
            let (known, names) = logins.entry(login.user.clone()).or_insert((login.clone(), Vec::new()));
            if known.password != login.password {
                return Err(Unplannable::TwoPasswords(login.user.clone()));
            }
            names.push(camera.name.clone());
        }
        // A camera without a user of its own is open to all of them.
        let open = self.cameras.iter().filter(|camera| camera.login.is_none()).map(|camera| &camera.name);
        for (_, names) in logins.values_mut() {
            names.extend(open.clone().cloned());
        }
        Ok(logins.into_values().collect())
    }
}

impl Camera {
    fn new(number: u32, film: &Arc<Film>, wanted: &Wanted) -> Self {
        let seed = draw(wanted.seed, Purpose::Source, [number.into(), 0, 0]);
        let of = |purpose, track: usize| draw(seed, purpose, [track as u64, 0, 0]);
        let around = |most: u64, drawn| below(2 * most + 1, drawn) as i64 - most as i64;
        let source = |(track, of_film): (usize, &crate::film::Track)| Source {
            ssrc: of(Purpose::Source, track) as u32,
            sequence: of(Purpose::Sequence, track) as u16,
            timestamp: of(Purpose::Timestamp, track) as u32,
            clock_rate: of_film.codec.clock_rate(),
        };
        let script = &wanted.script;
        let named = script.cameras.iter().find(|named| named.number == number);
        let faults = script.faults.iter().zip(0..).filter_map(|(fault, place)| {
            let choice = if fault.is_usual { u64::MAX } else { place };
            let times = fault.concerned.times_of(number, seed, place, choice)?;
            Some(Fault { number: place, kind: fault.kind, times })
        });
        let motions = script.motions.iter().zip(MOTIONS..).filter_map(|(motion, place)| {
            let times = motion.concerned.times_of(number, seed, place, place)?;
            if motion.is_in_film { Motion::in_film(times, film.round_ns()) } else { Some(Motion::of(times)) }
        });
        Self {
            number,
            name: named.and_then(|named| named.name.clone()).unwrap_or_else(|| format!("camera-{number}")),
            login: named.and_then(|named| named.login.clone()).or_else(|| script.login.clone()),
            film: film.clone(),
            phase_ns: below(film.round_ns(), of(Purpose::Phase, 0)),
            drift: around(DRIFT_MAX, of(Purpose::Drift, 0)),
            offset_ns: around(OFFSET_NS_MAX, of(Purpose::Offset, 0)),
            sources: film.tracks().iter().enumerate().map(source).collect(),
            faults: Faults { seed, all: faults.collect() },
            motions: motions.collect(),
            epoch_unix_ns: wanted.epoch_unix_ns,
            report_ns: below(REPORT_NS, of(Purpose::Report, 0)),
        }
    }

    /// Whether clients are refused at a time, whatever their password.
    pub fn refuses(&self, at_ns: u64) -> bool {
        self.faults.refuse(at_ns)
    }

    /// The kinds of its faults, as scripts call them.
    pub fn faults(&self) -> impl Iterator<Item = &'static str> {
        self.faults.all.iter().map(|fault| fault.kind.name())
    }

    /// The source of a track's packets (SSRC).
    pub fn ssrc(&self, track: usize) -> Option<u32> {
        self.sources.get(track).map(|source| source.ssrc)
    }

    /// The position in the film, all rounds counted, at a time from the epoch.
    pub(crate) fn position_ns(&self, at_ns: u64) -> u64 {
        let elapsed_ns = i128::from(at_ns) * (BILLION + i128::from(self.drift)) / BILLION;
        self.phase_ns.saturating_add(elapsed_ns as u64)
    }

    /// The time from the epoch at which the film is at a position.
    pub(crate) fn time_ns(&self, position_ns: u64) -> u64 {
        let elapsed_ns = i128::from(position_ns.saturating_sub(self.phase_ns));
        let divisor = BILLION + i128::from(self.drift);
        ((elapsed_ns * BILLION + divisor - 1) / divisor) as u64
    }

    /// What its clock shows at a time, since 1970.
    pub(crate) fn unix_ns(&self, at_ns: u64) -> u64 {
        let elapsed_ns = self.position_ns(at_ns) - self.phase_ns;
        self.epoch_unix_ns.saturating_add_signed(self.offset_ns).saturating_add(elapsed_ns)
    }

    /// The RTP timestamp of a track at a time, where it is not wrong.
    pub fn timestamp(&self, track: usize, at_ns: u64) -> u32 {
        let source = &self.sources[track];
        let ticks = forebay_rtsp::presentation::ticks(self.position_ns(at_ns), source.clock_rate);
        source.timestamp.wrapping_add(ticks as u32)
    }
}

const BILLION: i128 = 1_000_000_000;

impl Concerned {
    /// When something of the script is so in one camera, if it ever is. `place` and `choice` are what its draws are for.
    fn times_of(&self, camera: u32, seed: u64, place: u64, choice: u64) -> Option<Times> {
        let is_named = self.cameras.is_empty() || self.cameras.iter().any(|range| range.contains(&camera));
        if !is_named || !self.share.contains(&share(draw(seed, Purpose::Choice, [choice, 0, 0]))) {
            return None;
        }
        // Else it would begin in all cameras in the same second.
        let shift_ns = self.times.every_ns.filter(|_| !self.is_together);
        Some(self.times.shifted(below(shift_ns.unwrap_or(0), draw(seed, Purpose::Shift, [place, 0, 0]))))
    }
}
