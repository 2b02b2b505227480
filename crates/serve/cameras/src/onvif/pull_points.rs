//! Pull points: what clients want to be told of, until when, and how far they have been told. No message is stored: what has
//! happened since follows from the plan.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use forebay_rtsp::address::neighbourhood;
use forebay_rtsp::range::SECOND_NS;

use super::authentication::Allowed;
use super::{Enveloping, Response, events};
use crate::alarms::{Alarm, Change, Changes};
use crate::plan::{Camera, Plan};

/// Pull points at the same time, and those of one address: a recorder has one for each camera.
const POINTS_MAX: usize = 4_096;
const POINTS_PER_ADDRESS: usize = 1_024;
/// How long a pull point lasts where no other time is asked for, and the longest time.
const LASTS_NS: u64 = 60 * SECOND_NS;
const LASTS_NS_MAX: u64 = 3_600 * SECOND_NS;
/// The longest that a request waits.
const WAIT_NS_MAX: u64 = 120 * SECOND_NS;
/// The messages of one response.
const MESSAGES_MAX: usize = 256;
/// How many times at which alarms may change are looked at for one response.
const TURNS_MAX: usize = 10_000;

/// The pull points of all clients.
#[derive(Debug, Default)]
pub struct PullPoints {
    all: HashMap<u64, PullPoint>,
    /// Those that there have been.
    count: u64,
}

/// One pull point.
#[derive(Debug)]
pub(super) struct PullPoint {
    /// The number of its camera; all cameras without one.
    camera: Option<u32>,
    allowed: Allowed,
    alarms: Vec<Alarm>,
    /// The client's address.
    from: Option<IpAddr>,
    ends_ns: u64,
    /// States that are to be told, if there are any, after the changes before them.
    states: Option<States>,
    /// Changes from this time on are to be told, but for those up to `told`.
    from_ns: u64,
    told: Option<Change>,
}

/// The states of all alarms at a time.
#[derive(Clone, Copy, Debug)]
struct States {
    at_ns: u64,
    /// How many have been told.
    told: usize,
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub at_ns: u64,
    pub camera: u32,
    pub alarm: Alarm,
    pub is_on: bool,
    /// Whether this is how it is, and not how it becomes.
    pub is_state: bool,
}

/// A request that waits for something to tell.
#[derive(Debug)]
pub struct Pull {
    point: u64,
    limit: usize,
    until_ns: u64,
    due_ns: u64,
    envelope: Enveloping,
}

impl PullPoints {
    /// Adds one and tells its number; `None` if there are too many.
    pub(super) fn add(
        &mut self,
        point: PullPoint,
        client: IpAddr,
        at_ns: u64,
    ) -> Option<(u64, &mut PullPoint)> {
        self.all.retain(|_, point| point.ends_ns > at_ns);
        let from = Some(neighbourhood(client));
        let own = self.all.values().filter(|point| point.from == from).count();
        if own >= POINTS_PER_ADDRESS || self.all.len() >= POINTS_MAX {
            return None;
        }
        self.count += 1;
        let point = PullPoint { from, ..point };
        Some((self.count, self.all.entry(self.count).or_insert(point)))
    }

    /// The one of a number, unless it has ended.
    pub(super) fn get(&mut self, number: u64, at_ns: u64) -> Option<&mut PullPoint> {
        self.all.get_mut(&number).filter(|point| point.ends_ns > at_ns)
    }
}

impl PullPoint {
    /// One that tells of a camera, or of all that a user may see, how it is and how it changes from now on.
    pub fn new(camera: Option<u32>, allowed: Allowed, alarms: Vec<Alarm>, at_ns: u64) -> Self {
        let states = Some(States { at_ns, told: 0 });
        let from_ns = at_ns.saturating_add(1);
        Self { camera, allowed, alarms, from: None, ends_ns: at_ns, states, from_ns, told: None }
    }

    /// The number of its camera, if it is of one.
    pub fn camera(&self) -> Option<u32> {
        self.camera
    }

    /// Whether it was made for a camera by those who may see the same.
    pub fn is_of(&self, camera: Option<u32>, allowed: &Allowed) -> bool {
        self.camera == camera && self.allowed == *allowed
    }

    /// When it ends.
    pub fn ends_ns(&self) -> u64 {
        self.ends_ns
    }

    /// Has it last for a time from now on, as far as it may.
    pub fn last_until(&mut self, at_ns: u64, lasts_ns: Option<u64>) {
        self.ends_ns = at_ns.saturating_add(lasts_ns.unwrap_or(LASTS_NS).min(LASTS_NS_MAX));
    }

    /// Until when a request waits. The pull point lasts for as long after that as the client is ready to wait.
    pub fn await_until(&mut self, at_ns: u64, wait_ns: u64) -> u64 {
        let wait_ns = wait_ns.min(WAIT_NS_MAX);
        self.ends_ns = self.ends_ns.max(at_ns.saturating_add(2 * wait_ns));
        at_ns.saturating_add(wait_ns)
    }

    /// Tells how everything is at a time.
    pub fn tell_states(&mut self, at_ns: u64) {
        self.states = Some(States { at_ns, told: 0 });
    }

    /// It is over.
    pub fn end(&mut self) {
        self.ends_ns = 0;
    }

    fn cameras<'a>(&self, plan: &'a Plan) -> Vec<&'a Camera> {
        let all = plan.cameras().iter().map(|camera| &**camera);
        let wanted = |camera: &&Camera| {
            self.camera.is_none_or(|number| number == camera.number) && self.allowed.may_see(camera)
        };
        all.filter(wanted).collect()
    }

    /// Takes what is to be told up to a time, and tells when there may be more.
    fn take(&mut self, plan: &Plan, at_ns: u64, limit: usize) -> (Vec<Message>, u64) {
        let cameras = self.cameras(plan);
        let mut messages = Vec::new();
        if let Some(States { at_ns: states_ns, told }) = self.states {
            let due_ns = self.take_changes(&cameras, states_ns, limit, &mut messages);
            if due_ns <= states_ns {
                return (messages, due_ns);
            }
            let all = cameras.iter().flat_map(|camera| self.alarms.iter().map(move |alarm| (camera, *alarm)));
            let states = all.skip(told).take(limit - messages.len()).map(|(camera, alarm)| Message {
                at_ns: states_ns,
                camera: camera.number,
                alarm,
                is_on: camera.has_alarm(alarm, states_ns),
                is_state: true,
            });
            let before = messages.len();
            messages.extend(states);
            let told = told + messages.len() - before;
            if told < cameras.len() * self.alarms.len() {
                self.states = Some(States { at_ns: states_ns, told });
                return (messages, at_ns);
            }
            self.states = None;
        }
        let due_ns = self.take_changes(&cameras, at_ns, limit, &mut messages);
        (messages, due_ns)
    }

    fn take_changes(
        &mut self,
        cameras: &[&Camera],
        until_ns: u64,
        limit: usize,
        messages: &mut Vec<Message>,
    ) -> u64 {
        let mut changes = Changes::new(cameras.to_vec(), &self.alarms, self.from_ns);
        for _ in 0..TURNS_MAX {
            let due_ns = changes.due_ns().unwrap_or(u64::MAX);
            if due_ns > until_ns {
                self.from_ns = self.from_ns.max(until_ns.saturating_add(1));
                return due_ns;
            }
            self.from_ns = due_ns;
            let told = self.told;
            for change in changes.take().filter(|change| told.is_none_or(|told| told < *change)) {
                if messages.len() == limit {
                    return due_ns;
                }
                self.told = Some(change);
                messages.push(Message {
                    at_ns: change.at_ns,
                    camera: change.camera,
                    alarm: change.alarm,
                    is_on: !change.is_end,
                    is_state: false,
                });
            }
        }
        self.from_ns
    }
}

impl Pull {
    pub(super) fn new(point: u64, until_ns: u64, limit: usize, envelope: Enveloping) -> Self {
        Self { point, limit: limit.min(MESSAGES_MAX), until_ns, due_ns: 0, envelope }
    }

    /// The number of its pull point. A later request there takes the place of an earlier one.
    pub fn point(&self) -> u64 {
        self.point
    }

    /// When it is to be looked at next, in time from the epoch.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// It does not wait any longer.
    pub fn give_up(&mut self) {
        (self.until_ns, self.due_ns) = (0, 0);
    }

    /// The response, if there is one at this time; else the request waits until it is due.
    pub fn answer(&mut self, plan: &Plan, points: &Mutex<PullPoints>, at_ns: u64) -> Option<Response> {
        let mut points = points.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(point) = points.get(self.point, at_ns) else {
            return Some(self.envelope.fault(events::unknown()));
        };
        let (messages, due_ns) = point.take(plan, at_ns, self.limit);
        if messages.is_empty() && at_ns < self.until_ns {
            self.due_ns = due_ns.min(self.until_ns);
            return None;
        }
        Some(self.envelope.around(&events::pulled(plan, point, &messages, at_ns)))
    }
}
