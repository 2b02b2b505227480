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
    Contents, Next, Sink,
    said::Said,
    watched::{Way, lost_elsewhere},
};
use crate::Error;
pub use address::{Interface, Reach};
pub use gather::Listening;
use peer::{Broken, Heard, Peer, ROOM_BYTES};

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
    /// Readable when `ready` is, but not while a thread in a fault looks for messages.
    event: OwnedFd,
    listens: bool,
    /// The caller is in a signal handler.
    is_in_handler: bool,
    /// Connections that `ready` tells of when they take more.
    is_awaited: Vec<bool>,
    room: Vec<u8>,
    /// A host is lost: what is under way to it will not get there.
    is_broken: bool,
}

impl Streams {
    /// That of host `me`, which listens, to the hosts that have `said` where they do, by rank.
    ///
    /// # Errors
    /// One cannot be reached.
    pub fn new(listening: Listening, me: HostId, said: &[Vec<u8>]) -> Result<Self, Error> {
        Self::with(listening.connect(me, said)?)
    }

    fn with(peers: Vec<Option<Peer>>) -> Result<Self, Error> {
        let ready = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| Error::Wait(errno.into()))?;
        for (host, peer) in peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            epoll::add(&ready, &peer.socket, EventData::new_u64(host as u64), EventFlags::IN)
                .map_err(|errno| Error::Wait(errno.into()))?;
        }
        let event = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| Error::Wait(errno.into()))?;
        epoll::add(&event, &ready, EventData::new_u64(0), EventFlags::IN)
            .map_err(|errno| Error::Wait(errno.into()))?;
        let (is_awaited, room) = (vec![false; peers.len()], vec![0; ROOM_BYTES]);
        Ok(Self {
            peers,
            ready,
            event,
            listens: true,
            is_in_handler: false,
            is_awaited,
            room,
            is_broken: false,
        })
    }

    /// Has what arrives make the event readable, or not. Whether the kernel does so.
    fn listen(&mut self, listens: bool) -> bool {
        let wanted = if listens { EventFlags::IN } else { EventFlags::empty() };
        let is_so = self.listens == listens
            || epoll::modify(&self.event, &self.ready, EventData::new_u64(0), wanted).is_ok();
        if is_so {
            self.listens = listens;
        }
        is_so
    }

    /// What follows from how a use of a connection ended.
    fn after(&mut self, host: HostId, used: Result<(), Broken>) -> Result<(), Error> {
        let Some(Some(peer)) = self.peers.get(host.index()) else { return Ok(()) };
        if let Err(broken) = used {
            // Nothing more comes from there. The descriptor that it was known by goes with it.
            self.peers[host.index()] = None;
            return Err(Error::Lost { host: host.0, reason: broken.to_string() });
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
    fn pull(
        &mut self,
        host: HostId,
        sink: &mut dyn Sink,
        heard: &mut dyn FnMut(HostId),
    ) -> Result<usize, Error> {
        let hosts = self.peers.len();
        let Some(Some(peer)) = self.peers.get_mut(host.index()) else { return Ok(0) };
        let (mut messages, mut lost) = (0, None);
        let pulled = peer.pull(&mut self.room, hosts, sink, |what| {
            heard(host);
            match what {
                Heard::Message => messages += 1,
                Heard::Here => {}
                Heard::Lost(host) => lost = lost.or(Some(host)),
            }
        });
        let pulled = pulled.and_then(|()| if peer.has_more() { peer.push() } else { Ok(()) });
        let used = self.after(host, pulled);
        // What it said before its connection ended says more.
        if let Some(lost) = lost {
            return Err(lost_elsewhere(lost, host));
        }
        used.map(|()| messages)
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

impl Way for Streams {
    fn leads_to(&self, host: HostId) -> bool {
        self.peers.get(host.index()).is_some_and(Option::is_some)
    }

    fn say(&mut self, to: HostId, said: Said, contents: Contents) -> Result<(), Error> {
        let Some(Some(peer)) = self.peers.get_mut(to.index()) else { return Ok(()) };
        let pushed = if self.is_in_handler {
            peer.say_what_fits(said, contents);
            Ok(())
        } else {
            peer.say(said, contents)
        };
        self.after(to, pushed)
    }

    fn take(&mut self, sink: &mut dyn Sink, heard: &mut dyn FnMut(HostId)) -> Result<usize, Error> {
        self.is_in_handler = false;
        let mut count = 0;
        for host in self.ready()? {
            count += self.pull(host, sink, heard)?;
        }
        Ok(count)
    }

    fn take_over(&mut self) -> bool {
        // Nothing waits, so there is room for much to wait.
        let has_room = self.peers.len() <= FEW + 1 && !self.is_awaited.contains(&true);
        self.is_in_handler = has_room && self.listen(false);
        self.is_in_handler
    }

    fn take_one(
        &mut self,
        sink: &mut dyn Sink,
        is_wanted: &dyn Fn(Message) -> bool,
        heard: &mut dyn FnMut(HostId),
    ) -> Next {
        if !self.take_over() {
            return Next::Other;
        }
        let hosts = self.peers.len();
        for (host, peer) in (0..).map(HostId).zip(&mut self.peers) {
            let next = peer.as_mut().map_or(Next::Nothing, |peer| peer.take_one(hosts, sink, is_wanted));
            if next == Next::Taken {
                heard(host);
            }
            if next != Next::Nothing {
                return next;
            }
        }
        Next::Nothing
    }

    fn give_up(&mut self) {
        self.is_broken = true;
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event.as_fd())
    }

    fn may_sleep(&mut self) -> bool {
        // What is in a socket, or waits for it, keeps the event readable.
        self.is_in_handler = false;
        self.listen(true) && !self.peers.iter().flatten().any(Peer::has_arrived)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        if !self.is_broken {
            self.finish();
        }
    }
}
