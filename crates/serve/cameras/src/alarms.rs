//! Alarms of cameras: what the plan has that a camera would notice by itself, and when it begins and ends.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::faults::{Kind, Times};
use crate::plan::Camera;

/// What a camera notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// Something moves, as the script has it.
    Motion,
    /// The camera hangs, or has dropped its connections.
    SignalLoss,
    /// It is night.
    ImageTooDark,
}

/// The beginning or the end of an alarm. Changes are in the order of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// When, in nanoseconds from the epoch.
    pub at_ns: u64,
    /// The number of the camera.
    pub camera: u32,
    /// Which alarm.
    pub alarm: Alarm,
    /// Whether it ends. Dropped connections take no time: there it begins and ends at once.
    pub is_end: bool,
}

/// Times of motion before one camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Motion {
    times: Times,
    /// Whether they are positions in the film, all rounds counted.
    is_in_film: bool,
}

impl Alarm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Motion, Self::SignalLoss, Self::ImageTooDark];
}

impl Motion {
    /// At times from the epoch.
    pub fn of(times: Times) -> Self {
        Self { times, is_in_film: false }
    }

    /// At positions in a film, which takes `round_ns`; `None` if they are behind its end.
    pub fn in_film(times: Times, round_ns: u64) -> Option<Self> {
        let times = Times { every_ns: Some(round_ns), ..times };
        (times.from_ns < round_ns).then_some(Self { times, is_in_film: true })
    }

    fn is_seen(&self, camera: &Camera, at_ns: u64) -> bool {
        self.times.contain(if self.is_in_film { camera.position_ns(at_ns) } else { at_ns })
    }

    fn turn_from(&self, camera: &Camera, at_ns: u64) -> Option<u64> {
        if !self.is_in_film {
            return self.times.turn_from(at_ns);
        }
        let position_ns = self.times.turn_from(camera.position_ns(at_ns))?;
        // Several times may be at one position, since clocks run away.
        Some(camera.time_ns(position_ns).max(at_ns))
    }
}

impl Camera {
    /// Whether an alarm is raised at a time from the epoch.
    pub fn has_alarm(&self, alarm: Alarm, at_ns: u64) -> bool {
        match alarm {
            Alarm::Motion => self.motions.iter().any(|motion| motion.is_seen(self, at_ns)),
            Alarm::SignalLoss => self.faults.is_frozen(at_ns),
            Alarm::ImageTooDark => self.faults.has(Kind::Night, at_ns),
        }
    }

    /// The first time at which an alarm may change, at a time or after.
    fn turn_from(&self, alarm: Alarm, at_ns: u64) -> Option<u64> {
        let of_faults = |kind| {
            let faults = self.faults.all.iter().filter(move |fault| fault.kind == kind);
            faults.filter_map(|fault| fault.times.turn_from(at_ns)).min()
        };
        match alarm {
            Alarm::Motion => self.motions.iter().filter_map(|motion| motion.turn_from(self, at_ns)).min(),
            Alarm::SignalLoss => {
                of_faults(Kind::Freeze).into_iter().chain(self.faults.drop_from(at_ns)).min()
            }
            Alarm::ImageTooDark => of_faults(Kind::Night),
        }
    }

    /// Whether an alarm begins at a time, and whether it ends then.
    fn changes(&self, alarm: Alarm, at_ns: u64) -> [bool; 2] {
        let was = at_ns.checked_sub(1).is_some_and(|before_ns| self.has_alarm(alarm, before_ns));
        let is = self.has_alarm(alarm, at_ns);
        let is_drop = alarm == Alarm::SignalLoss && self.faults.drop_from(at_ns) == Some(at_ns);
        let begins = !was && (is || is_drop);
        [begins, !is && (was || begins)]
    }
}

/// The changes of some alarms of some cameras, from a time on.
pub struct Changes<'a> {
    /// When which alarm of which camera may change next.
    turns: BinaryHeap<Reverse<(u64, usize, Alarm)>>,
    cameras: Vec<&'a Camera>,
}

impl<'a> Changes<'a> {
    /// Of cameras in the order of their numbers.
    pub fn new(cameras: Vec<&'a Camera>, alarms: &[Alarm], from_ns: u64) -> Self {
        let mut all = Self { turns: BinaryHeap::new(), cameras };
        for place in 0..all.cameras.len() {
            alarms.iter().for_each(|alarm| all.await_turn(place, *alarm, from_ns));
        }
        all
    }

    /// No change that has not been taken is earlier; `None` if there is none any more.
    pub fn due_ns(&self) -> Option<u64> {
        self.turns.peek().map(|turn| turn.0.0)
    }

    /// Looks at the first time at which one alarm may change, and takes its changes then: two at most, and often none.
    pub fn take(&mut self) -> impl Iterator<Item = Change> + use<'a> {
        let turn = self.turns.pop().map(|turn| turn.0);
        let taken = turn.map(|(at_ns, place, alarm)| {
            self.await_turn(place, alarm, at_ns.saturating_add(1));
            let camera = self.cameras[place];
            let change = |is_end| Change { at_ns, camera: camera.number, alarm, is_end };
            let [begins, ends] = camera.changes(alarm, at_ns);
            [begins.then(|| change(false)), ends.then(|| change(true))]
        });
        taken.into_iter().flatten().flatten()
    }

    fn await_turn(&mut self, place: usize, alarm: Alarm, from_ns: u64) {
        let turn_ns = self.cameras[place].turn_from(alarm, from_ns).filter(|turn_ns| *turn_ns < u64::MAX);
        self.turns.extend(turn_ns.map(|turn_ns| Reverse((turn_ns, place, alarm))));
    }
}
