//! The transport between machines: a connection between each two hosts, on which every frame is encrypted and
//! authenticated with a key of this job ([`forebay_channel`]). It is TCP, or a local socket between hosts of one machine that
//! do not see each other's processes.

mod address;
mod gather;
mod packet;
mod peer;
#[cfg(test)]
mod tests;

use std::{
    mem::{self, MaybeUninit},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use forebay_coherence::{HostId, Message};
use rustix::event::{
    PollFd, PollFlags, Timespec,
    epoll::{self, CreateFlags, Event, EventData, EventFlags},
    poll,
};

use super::{
    Contents, Sink, Transport,
    liveness::{ENDED, Liveness, Processes, SILENT, TICK},
};
use crate::{Error, join::Whereabouts};
pub use address::{Interface, Reach};
pub use gather::Listening;
use packet::Said;
use peer::{Broken, Heard, Peer, ROOM_BYTES};

const NOTHING: Contents = Contents { address: 0, bytes: 0 };
/// How long a host that leaves waits until what it said is sent, and until the others leave.
const FLUSH: Duration = Duration::from_secs(2);
/// So few connections are looked at one by one, which takes one call each, and no other.
const FEW: usize = 2;
/// Connections that are looked at after one call.
const EVENTS: usize = 64;

/// One host's end.
pub struct Streams {
    /// By rank; none to itself, none that is lost, and none that serves no machine.
    peers: Vec<Option<Peer>>,
    /// Readable when a connection is, or takes more.
    ready: OwnedFd,
    /// Connections that `ready` tells of when they take more.
    is_awaited: Vec<bool>,
    room: Vec<u8>,
    liveness: Liveness,
    processes: Processes,
    /// A host is lost: what is under way to it will not get there.
    is_broken: bool,
    /// Hosts that are not watched here: their machines watch them.
    unwatched: Vec<HostId>,
    next_tick: Instant,
    last_tick: Instant,
}

impl Streams {
    /// That of host `me`, which listens, to the hosts that have `said` where they do, by rank.
    ///
    /// # Errors
    /// One cannot be reached.
    pub fn new(
        listening: Listening,
        me: HostId,
        said: &[Vec<u8>],
        places: &[Whereabouts],
        silence: Duration,
    ) -> Result<Self, Error> {
        Self::with(listening.connect(me, said)?, me, places, silence)
    }

    fn with(
        peers: Vec<Option<Peer>>,
        me: HostId,
        places: &[Whereabouts],
        silence: Duration,
    ) -> Result<Self, Error> {
        let ready = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| Error::Wait(errno.into()))?;
        for (host, peer) in peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            epoll::add(&ready, &peer.socket, EventData::new_u64(host as u64), EventFlags::IN)
                .map_err(|errno| Error::Wait(errno.into()))?;
        }
        let now = Instant::now();
        let is_unwatched = |host: &HostId| *host != me && peers[host.index()].is_none();
        let unwatched = (0..peers.len() as u16).map(HostId).filter(is_unwatched).collect();
        Ok(Self {
            unwatched,
            is_awaited: vec![false; peers.len()],
            ready,
            room: vec![0; ROOM_BYTES],
            liveness: Liveness::new(me, peers.len(), silence),
            processes: Processes::of(places),
            peers,
            is_broken: false,
            next_tick: now,
            last_tick: now,
        })
    }

    fn say(&mut self, to: HostId, said: Said, contents: Contents) -> Result<(), Error> {
        let Some(Some(peer)) = self.peers.get_mut(to.index()) else { return Ok(()) };
        let pushed = peer.say(said, contents);
        self.liveness.told(to);
        self.after(to, pushed)
    }

    /// What follows from how a use of a connection ended.
    fn after(&mut self, host: HostId, used: Result<(), Broken>) -> Result<(), Error> {
        let Some(Some(peer)) = self.peers.get(host.index()) else { return Ok(()) };
        if let Err(broken) = used {
            // Nothing more comes from there. The descriptor that it was known by goes with it.
            self.peers[host.index()] = None;
            let has_ended = self.processes.ended().contains(&host);
            let reason = if has_ended { ENDED.into() } else { broken.to_string() };
            return Err(Error::Lost { host: host.0, reason });
        }
        let is_awaited = peer.has_more();
        if mem::replace(&mut self.is_awaited[host.index()], is_awaited) != is_awaited {
            let wanted = if is_awaited { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&self.ready, &peer.socket, EventData::new_u64(host.0.into()), wanted)
                .map_err(|errno| Error::Wait(errno.into()))?;
        }
        Ok(())
    }

    /// The hosts whose connections may have something.
    fn ready(&self) -> Result<Vec<HostId>, Error> {
        if self.peers.len() <= FEW + 1 {
            return Ok((0..self.peers.len()).map(|host| HostId(host as u16)).collect());
        }
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        match epoll::wait(&self.ready, &mut room, Some(&Timespec::default())) {
            Ok((events, _)) => Ok(events.iter().map(|event| HostId({ event.data }.u64() as u16)).collect()),
            Err(rustix::io::Errno::INTR) => Ok(vec![]),
            Err(errno) => Err(Error::Wait(errno.into())),
        }
    }

    /// Takes what has arrived from a host. How many messages that were, and a host that it has lost.
    fn pull(&mut self, host: HostId, sink: &mut dyn Sink) -> Result<usize, Error> {
        let hosts = self.peers.len();
        let Some(Some(peer)) = self.peers.get_mut(host.index()) else { return Ok(0) };
        let (mut messages, mut lost, mut is_heard) = (0, None, false);
        let pulled = peer.pull(&mut self.room, hosts, sink, |heard| {
            is_heard = true;
            match heard {
                Heard::Message => messages += 1,
                Heard::Here => {}
                Heard::Lost(host) => lost = lost.or(Some(host)),
            }
        });
        let pulled = pulled.and_then(|()| if peer.has_more() { peer.push() } else { Ok(()) });
        if is_heard {
            self.liveness.heard(host);
        }
        let used = self.after(host, pulled);
        // What it said before its connection ended says more.
        if let Some(lost) = lost {
            return Err(Error::Lost { host: lost.0, reason: format!("host {} has lost it", host.0) });
        }
        used.map(|()| messages)
    }

    /// Tells those that this host is there who might doubt it.
    fn tick(&mut self, now: Instant) -> Result<(), Error> {
        let passed = now - self.last_tick;
        (self.last_tick, self.next_tick) = (now, now + TICK);
        let mut untold = vec![];
        self.unwatched.iter().for_each(|host| self.liveness.heard(*host));
        self.liveness.tick(passed, |host| untold.push(host));
        untold.into_iter().try_for_each(|host| self.say(host, Said::Here, NOTHING))
    }

    /// Looks which host has ended or is silent.
    fn look(&self) -> Result<(), Error> {
        let ended = self.processes.ended().first().map(|host| (*host, ENDED));
        match ended.or_else(|| Some((self.liveness.lost(&self.processes).next()?, SILENT))) {
            Some((host, reason)) => Err(Error::Lost { host: host.0, reason: reason.into() }),
            None => Ok(()),
        }
    }

    /// Waits until all that was said is sent, and the others have closed their ends too: what this one has not taken when
    /// it closes an end would destroy what it said last.
    fn finish(&mut self) {
        let deadline = Instant::now() + FLUSH;
        let mut unfinished: Vec<Peer> = self.peers.drain(..).flatten().collect();
        let mut is_shut = vec![false; unfinished.len()];
        while !unfinished.is_empty() && Instant::now() < deadline {
            let mut index = 0;
            while index < unfinished.len() {
                if unfinished[index].finish(&mut is_shut[index], &mut self.room) {
                    unfinished.swap_remove(index);
                    is_shut.swap_remove(index);
                } else {
                    index += 1;
                }
            }
            let mut files: Vec<PollFd<'_>> = unfinished
                .iter()
                .map(|peer| {
                    let more = if peer.has_more() { PollFlags::OUT } else { PollFlags::empty() };
                    PollFd::new(&peer.socket, PollFlags::IN | more)
                })
                .collect();
            let _ = poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
        }
    }
}

impl Transport for Streams {
    fn send(&mut self, to: HostId, message: Message, contents: Option<Contents>) -> Result<(), Error> {
        self.say(to, Said::Message(message), contents.unwrap_or(NOTHING))
    }

    fn receive(&mut self, sink: &mut dyn Sink) -> Result<usize, Error> {
        let mut count = 0;
        for host in self.ready()? {
            count += self.pull(host, sink)?;
        }
        let now = Instant::now();
        if now >= self.next_tick {
            self.tick(now)?;
            self.look()?;
        }
        Ok(count)
    }

    fn keep_alive(&mut self) {
        let now = Instant::now();
        if now >= self.next_tick {
            // What is wrong shows when this host takes what has come.
            let _ = self.tick(now);
        }
    }

    fn tell_lost(&mut self, host: HostId) {
        // A host of this machine that is lost breaks no connection.
        self.is_broken |= !self.unwatched.contains(&host);
        for other in (0..self.peers.len()).map(|other| HostId(other as u16)).filter(|other| *other != host) {
            // Those that cannot be told see it themselves.
            let _ = self.say(other, Said::Lost(host), NOTHING);
        }
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ready.as_fd())
    }

    fn may_sleep(&mut self) -> bool {
        // All that has arrived was taken, or keeps the event readable.
        true
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        if !self.is_broken {
            self.finish();
        }
    }
}
