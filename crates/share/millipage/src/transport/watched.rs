//! The watching of hosts that serve other machines, whatever carries what they say. It tells them that this host is there, and
//! notices one that is lost.

use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use forebay_coherence::{HostId, Message};

use super::{
    Contents, Marks, Next, Sink, Transport,
    liveness::{ENDED, FAILED, Liveness, Processes, SILENT, TICK},
    said::Said,
};
use crate::{Error, join::Whereabouts};

pub const NOTHING: Contents = Contents { address: 0, bytes: 0 };

/// A way to the other hosts, which carries what is said and watches none of them.
pub trait Way: Send {
    /// Whether it leads to a host: to one that serves another machine.
    fn leads_to(&self, host: HostId) -> bool;

    /// Says something to a host, if it leads there; otherwise as [`Transport::send`].
    ///
    /// # Errors
    /// The host cannot be reached.
    fn say(&mut self, to: HostId, said: Said, contents: Contents) -> Result<(), Error>;

    /// Takes what has arrived, and tells which hosts something came from. How many messages that were.
    ///
    /// # Errors
    /// A host is lost, here or at the host that says so.
    fn take(&mut self, sink: &mut dyn Sink, heard: &mut dyn FnMut(HostId)) -> Result<usize, Error>;

    /// As [`Transport::marks`].
    fn marks(&self) -> Option<&'static [Marks]> {
        None
    }

    /// As [`Transport::take_over`].
    fn take_over(&mut self) -> bool {
        false
    }

    /// As [`Transport::take_one`]; tells which host something came from.
    fn take_one(
        &mut self,
        _sink: &mut dyn Sink,
        _is_wanted: &dyn Fn(Message) -> bool,
        _heard: &mut dyn FnMut(HostId),
    ) -> Next {
        Next::Other
    }

    /// Goes on with what is under way to others, while nothing is taken.
    fn push(&mut self) {}

    /// A host is lost that it leads to: what is under way to it will not get there.
    fn give_up(&mut self);

    /// As [`Transport::event`].
    fn event(&self) -> Option<BorrowedFd<'_>>;

    /// As [`Transport::may_sleep`].
    fn may_sleep(&mut self) -> bool;
}

/// A host says that one is lost: another one, or itself.
pub fn lost_elsewhere(lost: HostId, from: HostId) -> Error {
    let reason = if lost == from { FAILED.into() } else { format!("host {} has lost it", from.0) };
    Error::Lost { host: lost.0, reason }
}

/// A way whose hosts are watched.
pub struct Watched<W: Way> {
    pub way: W,
    liveness: Liveness,
    processes: Processes,
    /// Hosts that are not watched here: their machines watch them.
    unwatched: Vec<HostId>,
    hosts: u16,
    next_tick: Instant,
    last_tick: Instant,
}

impl<W: Way> Watched<W> {
    /// The way of host `me` to the hosts at these places. One that is silent for so long is lost.
    pub fn new(way: W, me: HostId, places: &[Whereabouts], silence: Duration) -> Self {
        let hosts = places.len() as u16;
        let unwatched = (0..hosts).map(HostId).filter(|host| *host != me && !way.leads_to(*host)).collect();
        let (liveness, processes) = (Liveness::new(me, places.len(), silence), Processes::of(places));
        let now = Instant::now();
        Self { way, liveness, processes, unwatched, hosts, next_tick: now, last_tick: now }
    }

    fn say(&mut self, to: HostId, said: Said, contents: Contents) -> Result<(), Error> {
        self.liveness.told(to);
        self.way.say(to, said, contents).map_err(|error| self.judged(error))
    }

    /// Tells the hosts that this one is there which might doubt it, if it is time. Whether it was.
    fn tick(&mut self) -> Result<bool, Error> {
        let now = Instant::now();
        if now < self.next_tick {
            return Ok(false);
        }
        let passed = now - self.last_tick;
        (self.last_tick, self.next_tick) = (now, now + TICK);
        let mut untold = vec![];
        self.unwatched.iter().for_each(|host| self.liveness.heard(*host));
        self.liveness.tick(passed, |host| untold.push(host));
        untold.into_iter().try_for_each(|host| self.say(host, Said::Here, NOTHING))?;
        Ok(true)
    }

    /// Looks which host has ended or is silent.
    fn look(&self) -> Result<(), Error> {
        let ended = self.processes.ended().first().map(|host| (*host, ENDED));
        match ended.or_else(|| Some((self.liveness.lost(&self.processes).next()?, SILENT))) {
            Some((host, reason)) => Err(Error::Lost { host: host.0, reason: reason.into() }),
            None => Ok(()),
        }
    }

    /// A loss with its cause, where that is seen from here.
    fn judged(&self, error: Error) -> Error {
        match error {
            Error::Lost { host, .. } if self.processes.ended().contains(&HostId(host)) => {
                Error::Lost { host, reason: ENDED.into() }
            }
            error => error,
        }
    }
}

impl<W: Way> Transport for Watched<W> {
    fn send(&mut self, to: HostId, message: Message, contents: Option<Contents>) -> Result<(), Error> {
        self.say(to, Said::Message(message), contents.unwrap_or(NOTHING))
    }

    fn receive(&mut self, sink: &mut dyn Sink) -> Result<usize, Error> {
        let liveness = &mut self.liveness;
        let taken = self.way.take(sink, &mut |host| liveness.heard(host));
        let count = taken.map_err(|error| self.judged(error))?;
        if self.tick()? {
            self.look()?;
        }
        Ok(count)
    }

    fn keep_alive(&mut self) {
        // What is wrong shows when this host takes what has come.
        let _ = self.tick();
        self.way.push();
    }

    fn marks(&self) -> Option<&'static [Marks]> {
        self.way.marks()
    }

    fn take_over(&mut self) -> bool {
        self.way.take_over()
    }

    fn take_one(&mut self, sink: &mut dyn Sink, is_wanted: &dyn Fn(Message) -> bool) -> Next {
        let liveness = &mut self.liveness;
        self.way.take_one(sink, is_wanted, &mut |host| liveness.heard(host))
    }

    fn tell_lost(&mut self, host: HostId) {
        // A host of this machine that is lost breaks no way.
        if !self.unwatched.contains(&host) {
            self.way.give_up();
        }
        for other in (0..self.hosts).map(HostId).filter(|other| *other != host) {
            // Those that cannot be told see it themselves.
            let _ = self.say(other, Said::Lost(host), NOTHING);
        }
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        self.way.event()
    }

    fn may_sleep(&mut self) -> bool {
        self.way.may_sleep()
    }
}
