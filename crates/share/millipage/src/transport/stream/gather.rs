//! How the hosts of a job connect with each other: each listens, and dials the hosts before it. A caller that does not prove
//! that it knows the job's key is forgotten. Connected hosts close their ports.

use std::{
    cmp::Ordering,
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    str,
    time::{Duration, Instant},
};

use forebay_channel::{
    ANSWER_BYTES, Answering, Channel, Dialing, HELLO_BYTES, JobKey, PROOF_BYTES, RANDOM_BYTES, random,
};
use forebay_coherence::HostId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
        recv, send, sockopt,
    },
};

use super::{
    address::{Address, Interface, Reach, addresses, common_bits},
    peer::Peer,
};
use crate::Error;

/// How long hosts try to connect; more where they are many.
const PATIENCE: Duration = Duration::from_secs(8);
const PATIENCE_EACH: Duration = Duration::from_millis(100);
/// How long one attempt may take, and how long a caller may take to prove itself.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Between looks at the time.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Callers that have not proved anything, besides one for each host.
const STRANGERS_MAX: usize = 64;
const BACKLOG: i32 = 1_024;

/// A host that listens, and what it contributes to the job's key.
pub struct Listening {
    contribution: [u8; RANDOM_BYTES],
    sockets: Vec<OwnedFd>,
    addresses: Vec<Address>,
}

impl Listening {
    /// At addresses that the other hosts can reach.
    ///
    /// # Errors
    /// There are none.
    pub fn new(reach: Reach, chosen: Option<&Interface>) -> Result<Self, Error> {
        let contribution = random().map_err(|error| Error::Listen(error.to_string()))?;
        let mut all = Self { contribution, sockets: vec![], addresses: vec![] };
        if reach == Reach::Machine {
            all.listen_here().map_err(|error| Error::Listen(error.to_string()))?;
            return Ok(all);
        }
        let mut refused = chosen.map_or_else(
            || "no network interface with an address is up".into(),
            |chosen| format!("{chosen} is no network interface that is up and has an address"),
        );
        for address in addresses(reach, chosen) {
            // An address may be tentative, or go away at any moment; the others do.
            if let Err(error) = all.listen_at(address) {
                refused = format!("{address}: {error}");
            }
        }
        if all.sockets.is_empty() { Err(Error::Listen(refused)) } else { Ok(all) }
    }

    fn listen_here(&mut self) -> io::Result<()> {
        let name = random().map_err(io::Error::other)?;
        let name: String = name[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let socket = socket(AddressFamily::UNIX)?;
        net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        net::listen(&socket, BACKLOG)?;
        self.sockets.push(socket);
        self.addresses.push(Address::Local(name));
        Ok(())
    }

    fn listen_at(&mut self, address: IpAddr) -> io::Result<()> {
        let socket = socket(family(address))?;
        net::bind(&socket, &SocketAddr::new(address, 0))?;
        net::listen(&socket, BACKLOG)?;
        let bound = SocketAddr::try_from(net::getsockname(&socket)?)?;
        self.sockets.push(socket);
        self.addresses.push(Address::Tcp(bound));
        Ok(())
    }

    /// What the other hosts have to know: the contribution, and a line for each address.
    pub fn to_bytes(&self) -> Vec<u8> {
        let lines: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        [&self.contribution[..], lines.join("\n").as_bytes()].concat()
    }

    /// Connects host `me` with all others that have `said` something, by rank. A host that said nothing serves no machine.
    ///
    /// # Errors
    /// A host is not reached in time, or does not prove that it knows the key.
    pub fn connect(self, me: HostId, said: &[Vec<u8>]) -> Result<Vec<Option<Peer>>, Error> {
        let patience = PATIENCE + PATIENCE_EACH * said.len() as u32;
        self.connect_within(me, said, patience)
    }

    /// The same, within so much time.
    pub fn connect_within(
        self,
        me: HostId,
        said: &[Vec<u8>],
        patience: Duration,
    ) -> Result<Vec<Option<Peer>>, Error> {
        let serving = (0..).map(HostId).zip(said).filter(|(_, said)| !said.is_empty());
        let read = |(host, said): (HostId, &Vec<u8>)| Some((host, read(said)?));
        let all: Vec<_> = serving.map(read).collect::<Option<_>>().ok_or(Error::Garbled)?;
        let (mut contributions, mut dials, mut awaited) = (vec![], vec![], vec![]);
        let mine: Vec<IpAddr> = self.addresses.iter().filter_map(Address::ip).collect();
        for (host, (contribution, addresses)) in all {
            contributions.push(contribution);
            match host.cmp(&me) {
                Ordering::Less => dials.push(Dial::new(host, addresses, &mine)),
                Ordering::Equal => continue,
                Ordering::Greater => {}
            }
            awaited.push(host);
        }
        let peers: Vec<Option<Peer>> = (0..said.len()).map(|_| None).collect();
        let gathering = Gathering {
            key: JobKey::of(&contributions),
            me,
            sockets: self.sockets,
            dials,
            awaited,
            callers: vec![],
            peers,
            deadline: Instant::now() + patience,
        };
        gathering.finish(patience)
    }
}

impl Address {
    const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Local(_) => None,
            Self::Tcp(address) => Some(address.ip()),
        }
    }
}

/// What [`Listening::to_bytes`] wrote.
fn read(said: &[u8]) -> Option<([u8; RANDOM_BYTES], Vec<Address>)> {
    let (contribution, lines) = said.split_first_chunk()?;
    let addresses = str::from_utf8(lines).ok()?.lines().map(str::parse).collect::<Result<_, _>>();
    Some((*contribution, addresses.ok()?))
}

const fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    if family != AddressFamily::UNIX {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    Ok(socket)
}

/// Hosts that are about to be connected.
struct Gathering {
    key: JobKey,
    me: HostId,
    sockets: Vec<OwnedFd>,
    dials: Vec<Dial>,
    /// Those that are to be connected.
    awaited: Vec<HostId>,
    callers: Vec<Caller>,
    peers: Vec<Option<Peer>>,
    deadline: Instant,
}

/// A host that is dialed, at one of its addresses after the other.
struct Dial {
    host: HostId,
    /// Those nearest to this host come first.
    addresses: Vec<Address>,
    next: usize,
    attempt: Option<Attempt>,
    /// Why the last attempt failed.
    problem: String,
    not_before: Instant,
}

struct Attempt {
    socket: OwnedFd,
    dialing: Option<Dialing>,
    answer: Vec<u8>,
    since: Instant,
}

/// One that has called, and has proved nothing.
struct Caller {
    socket: OwnedFd,
    heard: Vec<u8>,
    answering: Option<Answering>,
    since: Instant,
}

/// Where something has happened, by number.
struct Ready {
    listeners: Vec<usize>,
    callers: Vec<usize>,
    dials: Vec<usize>,
}

impl Gathering {
    fn finish(mut self, patience: Duration) -> Result<Vec<Option<Peer>>, Error> {
        while let Some(missing) = self.missing() {
            let now = Instant::now();
            if now > self.deadline {
                return Err(self.unreached(missing, patience));
            }
            self.dials.iter_mut().for_each(|dial| dial.look(now));
            self.callers.retain(|caller| now - caller.since < ATTEMPT);
            let Ready { listeners, callers, dials } = self.ready()?;
            for (host, peer) in
                dials.into_iter().filter_map(|dial| self.dials[dial].go_on(&self.key, self.me))
            {
                self.peers[host.index()] = Some(peer);
            }
            self.dials.retain(|dial| self.peers[dial.host.index()].is_none());
            // From behind: those that are done with are taken out.
            for caller in callers.into_iter().rev() {
                self.hear(caller);
            }
            for listener in listeners {
                self.accept(listener);
            }
        }
        Ok(self.peers)
    }

    /// A host that is not connected yet.
    fn missing(&self) -> Option<HostId> {
        self.awaited.iter().find(|host| self.peers[host.index()].is_none()).copied()
    }

    fn unreached(&self, missing: HostId, patience: Duration) -> Error {
        let dial = self.dials.iter().find(|dial| dial.host == missing);
        let reason = match dial {
            Some(dial) => dial.problem.clone(),
            None => "it has not called, or did not prove that it knows this job's key".into(),
        };
        Error::Unreached { host: missing.0, seconds: patience.as_secs(), reason }
    }

    /// The listeners, callers and dials where something has happened.
    fn ready(&self) -> Result<Ready, Error> {
        let listening = self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN));
        let calling = self.callers.iter().map(|caller| PollFd::new(&caller.socket, PollFlags::IN));
        let attempts: Vec<usize> =
            (0..self.dials.len()).filter(|dial| self.dials[*dial].attempt.is_some()).collect();
        let dialing = attempts.iter().filter_map(|dial| {
            let attempt = self.dials[*dial].attempt.as_ref()?;
            let wanted = if attempt.dialing.is_none() { PollFlags::OUT } else { PollFlags::IN };
            Some(PollFd::new(&attempt.socket, wanted))
        });
        let mut files: Vec<PollFd<'_>> = listening.chain(calling).chain(dialing).collect();
        match poll(&mut files, Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Wait(errno.into())),
        }
        let ready = |range: std::ops::Range<usize>| {
            let is_ready = |index: &usize| !files[*index].revents().is_empty();
            let start = range.start;
            range.filter(is_ready).map(|index| index - start).collect::<Vec<usize>>()
        };
        let (listeners, callers) = (self.sockets.len(), self.sockets.len() + self.callers.len());
        let dials = ready(callers..files.len()).into_iter().map(|index| attempts[index]).collect();
        Ok(Ready { listeners: ready(0..listeners), callers: ready(listeners..callers), dials })
    }

    fn accept(&mut self, listener: usize) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No crowd of callers keeps this host from hearing those that are there.
        for _ in 0..STRANGERS_MAX {
            let Ok(socket) = accept_with(&self.sockets[listener], flags) else { return };
            // It fails for sockets that no network leads to.
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            if self.callers.len() >= STRANGERS_MAX + self.peers.len() {
                self.callers.remove(0);
            }
            self.callers.push(Caller { socket, heard: vec![], answering: None, since: Instant::now() });
        }
    }

    /// Hears what a caller says. One that says something wrong, or has proved itself, is no caller any more.
    fn hear(&mut self, index: usize) {
        let caller = &mut self.callers[index];
        match caller.hear(&self.key, self.me) {
            Ok(None) => {}
            Ok(Some((host, channel))) => {
                let Caller { socket, .. } = self.callers.remove(index);
                let is_awaited = host > self.me && self.awaited.contains(&host);
                if let Some(place) = self.peers.get_mut(host.index()).filter(|_| is_awaited)
                    && place.is_none()
                {
                    *place = Some(Peer::new(host, socket, channel));
                }
            }
            Err(()) => drop(self.callers.remove(index)),
        }
    }
}

impl Caller {
    fn hear(&mut self, key: &JobKey, me: HostId) -> Result<Option<(HostId, Channel)>, ()> {
        let wanted = if self.answering.is_none() { HELLO_BYTES } else { PROOF_BYTES };
        if !fill(&self.socket, &mut self.heard, wanted).map_err(|_| ())? {
            return Ok(None);
        }
        let heard = std::mem::take(&mut self.heard);
        if let Some(answering) = self.answering.take() {
            let from = HostId(answering.from());
            let proof = heard[..].try_into().map_err(|_| ())?;
            return answering.finish(proof).map(|channel| Some((from, channel))).map_err(|_| ());
        }
        let (hello, random) = (heard[..].try_into().map_err(|_| ())?, random().map_err(|_| ())?);
        let (answering, answer) = Answering::new(key, me.0, random, hello).map_err(|_| ())?;
        // A new socket takes as much at once.
        send(&self.socket, &answer, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map_err(|_| ())?;
        self.answering = Some(answering);
        Ok(None)
    }
}

impl Dial {
    fn new(host: HostId, mut addresses: Vec<Address>, mine: &[IpAddr]) -> Self {
        let near = |address: &Address| {
            let common = mine.iter().filter_map(|mine| common_bits(*mine, address.ip()?)).max();
            std::cmp::Reverse(common.unwrap_or(0))
        };
        addresses.sort_by_key(near);
        let problem = "no address was told".into();
        Self { host, addresses, next: 0, attempt: None, problem, not_before: Instant::now() }
    }

    /// Ends an attempt that takes too long, and begins another one.
    fn look(&mut self, now: Instant) {
        if self.attempt.as_ref().is_some_and(|attempt| now - attempt.since > ATTEMPT) {
            self.fail("it does not answer", now);
        }
        if self.attempt.is_some() || self.addresses.is_empty() || now < self.not_before {
            return;
        }
        match begin(&self.addresses[self.next]) {
            Ok(socket) => self.attempt = Some(Attempt { socket, dialing: None, answer: vec![], since: now }),
            Err(errno) => self.fail(&io::Error::from(errno).to_string(), now),
        }
    }

    fn fail(&mut self, why: &str, now: Instant) {
        self.problem = format!("{}: {why}", self.addresses[self.next]);
        self.attempt = None;
        self.next += 1;
        if self.next == self.addresses.len() {
            self.next = 0;
            self.not_before = now + Duration::from_nanos(LOOK.tv_nsec as u64);
        }
    }

    /// Something has happened where the host is dialed: the connection, if it is made.
    fn go_on(&mut self, key: &JobKey, me: HostId) -> Option<(HostId, Peer)> {
        let mut attempt = self.attempt.take()?;
        match attempt.go_on(key, me, self.host) {
            Ok(None) => self.attempt = Some(attempt),
            Ok(Some(channel)) => return Some((self.host, Peer::new(self.host, attempt.socket, channel))),
            Err(why) => self.fail(&why, Instant::now()),
        }
        None
    }
}

/// Begins to connect to an address.
fn begin(address: &Address) -> Result<OwnedFd, Errno> {
    let (socket, connected) = match address {
        Address::Local(name) => {
            let socket = socket(AddressFamily::UNIX)?;
            let connected = net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?);
            (socket, connected)
        }
        Address::Tcp(address) => {
            let socket = socket(family(address.ip()))?;
            let connected = net::connect(&socket, address);
            (socket, connected)
        }
    };
    match connected {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

impl Attempt {
    fn go_on(&mut self, key: &JobKey, me: HostId, to: HostId) -> Result<Option<Channel>, String> {
        let failed = |errno: Errno| io::Error::from(errno).to_string();
        if self.dialing.is_none() {
            sockopt::socket_error(&self.socket).map_err(failed)?.map_err(failed)?;
            let dialing = Dialing::new(key, me.0, to.0, random().map_err(|error| error.to_string())?);
            send(&self.socket, dialing.hello(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map_err(failed)?;
            self.dialing = Some(dialing);
            return Ok(None);
        }
        if !fill(&self.socket, &mut self.answer, ANSWER_BYTES)? {
            return Ok(None);
        }
        let Some((dialing, answer)) = self.dialing.take().zip(self.answer[..].try_into().ok()) else {
            return Ok(None);
        };
        let (channel, proof) = dialing.finish(answer).map_err(|refusal| refusal.to_string())?;
        send(&self.socket, &proof, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map_err(failed)?;
        Ok(Some(channel))
    }
}

/// Receives until there are `wanted` bytes, and not one more; whether there are.
fn fill(socket: &OwnedFd, heard: &mut Vec<u8>, wanted: usize) -> Result<bool, String> {
    let mut room = [0; ANSWER_BYTES];
    while heard.len() < wanted {
        match recv(socket, &mut room[..wanted - heard.len()], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err("it ended the connection".into()),
            Ok((_, got)) => heard.extend_from_slice(&room[..got]),
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno).to_string()),
        }
    }
    Ok(true)
}
