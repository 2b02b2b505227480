//! The engine that serves a machine, used under its lock: receives and sends messages, sets rights, wakes threads.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Release},
        },
    },
};

use forebay_coherence::{
    Access, Barrier, Counts, Effects, Foresight, HostId, Lock, MESSAGE_BYTES, Message, Minipage, Neighbours,
    Other, Waiter,
};
use forebay_sigsafe::general as n;

use crate::{
    Error,
    board::Board,
    desk::Desk,
    machines::Machines,
    memory::Memory,
    requests::{Found, Request, SLOTS, futex},
    transport::{Closed, Contents, Next, Sink, Transport},
    usage::Traffic,
    wanted::LastLost,
};

/// Where all machines meet, whatever their hosts call: so hosts that make calls of different kinds meet too, and learn it.
const MEETING: Barrier = Barrier(0);

/// What the engine works on: the memory of the host that serves, and what the hosts of its machine share.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    pub memory: &'a Memory,
    pub board: &'a Board,
    pub desk: &'a Desk,
}

/// A call of the serving host that waits.
#[derive(Debug)]
pub struct Wait {
    ended: AtomicU32,
    /// For this lock.
    lock: Option<Lock>,
    waiter: Waiter,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With what was wanted.
    Well,
    /// Hosts did not agree at a barrier, or another host has the lock that was to be had at once.
    Disagreed,
    /// A host was lost.
    Lost,
}

impl Ended {
    /// From its number.
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Well,
            1 => Self::Disagreed,
            _ => Self::Lost,
        }
    }

    const fn at_barrier(agreed: bool) -> Self {
        if agreed { Self::Well } else { Self::Disagreed }
    }
}

impl Wait {
    /// Whether it has ended, and how.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.load(Acquire).checked_sub(1).map(Ended::from_number)
    }

    /// Its waiter.
    pub const fn waiter(&self) -> Waiter {
        self.waiter
    }

    /// Sleeps until it may have ended.
    pub fn sleep(&self) {
        futex(&self.ended, n::FUTEX_WAIT, 0);
    }

    fn end(&self, ended: Ended) {
        self.ended.store(1 + ended as u32, Release);
        futex(&self.ended, n::FUTEX_WAKE, 1);
    }
}

/// The waiter that waits for all machines to leave. Waiters below are slots of the machine's hosts, those above are calls.
const LEAVER: Waiter = Waiter(1 << 32);

/// What there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Messages and requests.
    pub served: usize,
    /// A thread of this host goes on, or asks for something as soon as it runs.
    pub is_awaited: bool,
}

/// How far a machine has come with leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leaving {
    NotYet,
    /// A host of it has left.
    Begun,
    /// All have.
    Told,
}

/// Everything that a lock is needed for.
pub struct Engine {
    protocol: forebay_coherence::Host,
    machines: Arc<Machines>,
    transport: Box<dyn Transport>,
    waits: HashMap<u64, Arc<Wait>>,
    next_call: u64,
    arrived: Vec<(HostId, Message)>,
    leaving: Leaving,
    failure: Option<Error>,
    /// Others know of it.
    failure_told: bool,
    traffic: Traffic,
    foresight: Foresight,
    last_lost: LastLost,
    /// What was foretold, and may not be there yet.
    foretold: Vec<Minipage>,
}

impl Engine {
    /// That of the machine of host `me`. Hosts add minipages of these numbers alone.
    pub fn new(
        me: HostId,
        machines: Arc<Machines>,
        transport: Box<dyn Transport>,
        alone: Range<u32>,
        foresight: Foresight,
    ) -> Self {
        let mut protocol = forebay_coherence::Host::new(machines.of(me), machines.count());
        protocol.make_room(alone);
        // A message that is taken in a signal handler has room.
        let (waits, arrived) = (HashMap::new(), Vec::with_capacity(1));
        Self {
            protocol,
            machines,
            transport,
            waits,
            next_call: LEAVER.0,
            arrived,
            leaving: Leaving::NotYet,
            failure: None,
            failure_told: false,
            traffic: Traffic::default(),
            foresight,
            last_lost: LastLost::default(),
            foretold: vec![],
        }
    }

    /// Foretells nothing from now on.
    pub fn be_blind(&mut self) {
        self.foresight = Foresight::blind();
    }

    /// Adds a minipage, which a machine manages, and has alone or with all others. What this machine may do with it.
    pub fn add(&mut self, minipage: Minipage, manager: HostId, is_shared: bool) -> Access {
        self.protocol.add_as(minipage, manager, is_shared);
        self.protocol.access(minipage)
    }

    /// Forgets minipages that all machines have freed, or that not all have added.
    pub fn forget(&mut self, numbers: Range<u32>) {
        self.foresight.forget(&numbers);
        self.protocol.forget(numbers);
    }

    /// What the machine did since that was last asked for.
    pub fn take_figures(&mut self) -> (Counts, Traffic) {
        let mut counts = self.protocol.take_counts();
        let figures = self.foresight.take_figures();
        (counts.foretold_sampled, counts.foretold_unneeded) = (figures.sampled, figures.unneeded);
        (counts, std::mem::take(&mut self.traffic))
    }

    /// What a thread of the serving host asks for; what it waits for.
    pub fn call(&mut self, machine: Machine<'_>, request: Request) -> Arc<Wait> {
        let lock = request.lock().filter(|_| machine.desk.slots.len() == 1);
        self.next_call += 1;
        let waiter = Waiter(self.next_call);
        let wait = Arc::new(Wait { lock, waiter, ended: AtomicU32::new(0) });
        if self.failure.is_some() {
            wait.end(Ended::Lost);
            return wait;
        }
        self.waits.insert(waiter.0, wait.clone());
        let begun = self.act(machine, |protocol, acts| {
            ask(protocol, request, waiter, acts);
            std::mem::take(&mut acts.begun)
        });
        self.foretell(machine, &begun);
        wait
    }

    /// The same, where no thread waits.
    pub fn tell(&mut self, machine: Machine<'_>, request: Request) {
        self.act(machine, |protocol, acts| ask(protocol, request, LEAVER, acts));
    }

    fn act<R>(
        &mut self,
        machine: Machine<'_>,
        act: impl FnOnce(&mut forebay_coherence::Host, &mut Acts<'_>) -> R,
    ) -> R {
        let Self { protocol, machines, transport, waits, failure, traffic, foresight, last_lost, .. } = self;
        let transport = transport.as_mut();
        let (woke, begun) = (false, vec![]);
        let mut acts =
            Acts { machine, machines, transport, waits, failure, traffic, foresight, last_lost, woke, begun };
        act(protocol, &mut acts)
    }

    /// Asks for what the machine is about to fetch.
    fn foretell(&mut self, machine: Machine<'_>, begun: &[Begun]) {
        for begun in begun {
            // What is there is forgotten.
            self.awaits_foretold();
            let protocol = &self.protocol;
            let is_absent = |minipage, access| protocol.access(minipage) < access;
            let fetches = match *begun {
                Begun::Epoch => self.foresight.passed(is_absent),
                Begun::Section(lock) => self.foresight.locked(lock, is_absent),
            };
            self.foretold.extend(fetches.iter().map(|(minipage, _)| *minipage));
            self.act(machine, |protocol, acts| {
                fetches.into_iter().for_each(|(minipage, access)| protocol.foretell(minipage, access, acts));
            });
        }
    }

    /// Whether something that was foretold is under way.
    pub fn awaits_foretold(&mut self) -> bool {
        let is_there = |minipage: &mut Minipage| !self.protocol.is_asking_for(*minipage);
        while self.foretold.pop_if(is_there).is_some() {}
        !self.foretold.is_empty()
    }

    /// Does what there is to do.
    pub fn progress(&mut self, machine: Machine<'_>) -> Progress {
        let mut arrived = std::mem::take(&mut self.arrived);
        let mut sink =
            Arrivals { machines: &self.machines, memory: machine.memory, arrived: &mut arrived, bytes: 0 };
        if let Err(error) = self.transport.receive(&mut sink) {
            self.failure.get_or_insert(error);
        }
        let received_bytes = sink.bytes;
        let mut served = arrived.len();
        self.traffic.messages_received += served as u64;
        self.traffic.bytes_received += received_bytes;
        let (woke, begun) = self.act(machine, |protocol, acts| {
            for (place, slots) in machine.desk.slots.iter().enumerate() {
                // First who resumes, which takes no new request: what has arrived need not be deferred for those.
                slots.look(|found| match found {
                    Found::Asked { slot, request } => {
                        served += 1;
                        ask(protocol, request, Waiter((place * SLOTS + slot) as u64), acts);
                    }
                    Found::Resumed(minipage) => protocol.resumed(minipage, acts),
                });
            }
            for (from, message) in arrived.drain(..) {
                protocol.receive(from, message, acts);
            }
            protocol.settle(acts);
            (acts.woke, std::mem::take(&mut acts.begun))
        });
        self.foretell(machine, &begun);
        let needed = self.protocol.needs_resumption();
        machine.desk.slots.iter().for_each(|slots| slots.need_resumption(needed));
        self.arrived = arrived;
        self.look_at_board(machine);
        self.look_at_failure(machine.board);
        Progress { served, is_awaited: self.is_wanted() || woke }
    }

    /// Whether a thread is about to ask for what another machine has taken. Says so once.
    fn is_wanted(&mut self) -> bool {
        let protocol = &self.protocol;
        // What ends a transaction comes at once.
        let is_away =
            |minipage| protocol.access(minipage) == Access::None && !protocol.is_under_way(minipage);
        self.last_lost.take_wanted(is_away)
    }

    /// Begins to serve a fault of the only host of its machine, in a slot of its own, instead of a thread that sleeps. `false`
    /// where that is left to the serving thread. In a signal handler: nothing is allocated.
    pub fn begin_fault(
        &mut self,
        machine: Machine<'_>,
        minipage: Minipage,
        access: Access,
        slot: usize,
    ) -> bool {
        let [slots] = machine.desk.slots else { return false };
        if self.failure.is_some() || !self.transport.take_over() {
            return false;
        }
        self.act(machine, |protocol, acts| {
            // What a thread has used is to be given away before the next is asked for.
            slots.look_at_resumed(|minipage| {
                let is_room = protocol.has_room(minipage);
                if is_room {
                    protocol.resumed(minipage, acts);
                }
                is_room
            });
        });
        if !self.protocol.has_room(minipage) || !self.transport.take_over() {
            return false;
        }
        let waiter = Waiter(slot as u64);
        self.act(machine, |protocol, acts| ask(protocol, Request::Fault(minipage, access), waiter, acts));
        slots.need_resumption(self.protocol.needs_resumption());
        true
    }

    /// Takes the next message for a thread that serves its fault. In a signal handler: nothing is allocated.
    pub fn progress_in_fault(&mut self, machine: Machine<'_>) -> Next {
        if self.failure.is_some() {
            return Next::Other;
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        let mut sink =
            Arrivals { machines: &self.machines, memory: machine.memory, arrived: &mut arrived, bytes: 0 };
        let protocol = &self.protocol;
        let next = self.transport.take_one(&mut sink, &|message| protocol.has_room_for(message));
        self.traffic.bytes_received += sink.bytes;
        self.act(machine, |protocol, acts| {
            for (from, message) in arrived.drain(..) {
                acts.traffic.messages_received += 1;
                protocol.receive(from, message, acts);
            }
        });
        self.arrived = arrived;
        let needed = self.protocol.needs_resumption();
        machine.desk.slots.iter().for_each(|slots| slots.need_resumption(needed));
        next
    }

    /// Hosts of the machine may have left, or be lost.
    fn look_at_board(&mut self, machine: Machine<'_>) {
        if let Some((host, reason)) = machine.board.loss().filter(|_| !machine.board.is_over()) {
            self.failure.get_or_insert(Error::Lost { host: host.0, reason: reason.into() });
        }
        // A machine that goes because of a loss does not say so: at a barrier, others would take it for one that disagrees.
        if self.failure.is_some() {
            return;
        }
        let now = match machine.board.leaving() {
            (_, true) => Leaving::Told,
            (true, _) => Leaving::Begun,
            _ => Leaving::NotYet,
        };
        if now > self.leaving {
            self.leaving = now;
            self.act(machine, |protocol, acts| match now {
                Leaving::Told => protocol.leave(LEAVER, acts),
                _ => protocol.break_barriers(acts),
            });
        }
    }

    /// Where something has failed, no thread waits any longer, and all hosts are told.
    fn look_at_failure(&mut self, board: &Board) {
        let (lost, reason) = match &self.failure {
            None => return,
            Some(Error::Lost { host, reason }) => (Some(HostId(*host)), reason.clone()),
            Some(_) => (None, String::new()),
        };
        let here = self.protocol.id();
        let is_leaving = |machine| machine != here && self.protocol.is_leaving(machine);
        if self.protocol.is_leaving(here) && lost.is_some_and(|host| is_leaving(self.machines.of(host))) {
            // A machine goes when all have said that they leave, so this one may go too.
            self.failure = None;
            if !board.is_over() {
                board.others_leave();
            }
            return;
        }
        self.waits.drain().for_each(|(_, wait)| wait.end(Ended::Lost));
        if !std::mem::replace(&mut self.failure_told, true) {
            board.lose(lost.unwrap_or(self.machines.first(here)), &reason);
            lost.into_iter().for_each(|host| self.transport.tell_lost(host));
        }
    }

    /// Nothing is sent or received any more.
    pub fn close(&mut self) {
        self.transport = Box::new(Closed);
    }

    /// Why nothing goes on any more.
    pub const fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    pub fn transport(&mut self) -> &mut dyn Transport {
        self.transport.as_mut()
    }
}

/// Hands a request to the protocol. What follows a fault takes no memory.
fn ask(protocol: &mut forebay_coherence::Host, request: Request, waiter: Waiter, acts: &mut Acts<'_>) {
    match request {
        Request::Fault(minipage, access) => {
            acts.last_lost.ask(minipage);
            if protocol.access(minipage) < access {
                acts.foresight.fetched(minipage, access);
            }
            protocol.fault(minipage, access, waiter, acts);
        }
        Request::Prefetch(minipage, access) => protocol.prefetch(minipage, access, acts),
        Request::Push(minipage) => protocol.push(minipage, acts),
        Request::Lock(lock) => protocol.lock(lock, waiter, acts),
        Request::TryLock(lock) => protocol.try_lock(lock, waiter, acts),
        Request::Forgo(lock, waiter) => protocol.forgo(lock, waiter, acts),
        Request::Unlock(lock) => {
            acts.foresight.unlocked(lock);
            protocol.unlock(lock, acts);
        }
        Request::Add(first, count, what) => protocol.add_alone(first, count, what, waiter, acts),
        Request::Free(minipage) => protocol.free(minipage, waiter, acts),
        Request::Renew(minipage) => protocol.renew(minipage, acts),
        Request::FreeTogether(Minipage(first), count) => {
            protocol.free_together(first..first.saturating_add(count), waiter, acts);
        }
        Request::Arrive(word) => {
            acts.foresight.arrived();
            // One host of a machine arrives for all.
            protocol.arrive(MEETING, word, waiter, acts);
        }
    }
}

/// What the protocol wants done is done at once.
struct Acts<'a> {
    machine: Machine<'a>,
    machines: &'a Machines,
    transport: &'a mut dyn Transport,
    waits: &'a mut HashMap<u64, Arc<Wait>>,
    failure: &'a mut Option<Error>,
    traffic: &'a mut Traffic,
    foresight: &'a mut Foresight,
    last_lost: &'a mut LastLost,
    /// A thread was woken.
    woke: bool,
    begun: Vec<Begun>,
}

/// What begins with the end of a wait.
#[derive(Clone, Copy, Debug)]
enum Begun {
    /// The machine has passed a barrier.
    Epoch,
    /// It has got a lock.
    Section(Lock),
}

impl Acts<'_> {
    fn end(&mut self, waiter: Waiter, ended: Ended) {
        if waiter == LEAVER {
            return self.machine.board.others_leave();
        }
        self.woke = true;
        if let Some(wait) = self.waits.remove(&waiter.0) {
            self.begun.extend(wait.lock.filter(|_| ended == Ended::Well).map(Begun::Section));
            wait.end(ended);
        } else if let Some(slots) = self.machine.desk.slots.get(waiter.0 as usize / SLOTS) {
            slots.wake(waiter.0 as usize % SLOTS, ended);
        }
    }
}

impl Effects for Acts<'_> {
    fn send(&mut self, to: HostId, message: Message) {
        let contents = contents(self.machine.memory, message);
        self.traffic.messages_sent += 1;
        self.traffic.bytes_sent += wire_bytes(contents);
        if let Err(error) = self.transport.send(self.machines.first(to), message, contents) {
            self.failure.get_or_insert(error);
        }
    }

    fn protect(&mut self, minipage: Minipage, access: Access) {
        let Self { machine: Machine { memory, board, desk }, transport, .. } = self;
        if access < desk.rights.access(minipage) {
            self.foresight.lost(minipage);
            self.last_lost.lose(minipage);
        }
        let allowed = desk.rights.allow(memory, board, minipage, access, || transport.keep_alive());
        if let Err(error) = allowed {
            self.failure.get_or_insert(error);
        }
        // Where that is less, another machine is to write: threads may wait for a word of the minipage.
        board.bells().ring(minipage.index());
    }

    fn add(&mut self, first: Minipage, what: u32) {
        if let Err(error) = self.machine.memory.add_alone(first, what) {
            self.failure.get_or_insert(error);
        }
    }

    fn free(&mut self, minipage: Minipage) -> bool {
        self.machine.memory.heap().free(minipage)
    }

    fn neighbours(&self, minipage: Minipage) -> Option<Neighbours> {
        self.machine.memory.heap().neighbours(minipage)
    }

    fn wake(&mut self, waiter: Waiter) {
        self.end(waiter, Ended::Well);
    }

    fn differ(&mut self, Other { host, word }: Other) {
        self.machine.board.differ(Other { host: self.machines.first(host), word });
    }

    fn pass(&mut self, waiter: Waiter, agreed: bool) {
        // Where not, a lock is another machine's, or the program is about to end.
        self.begun.extend(agreed.then_some(Begun::Epoch));
        self.end(waiter, Ended::at_barrier(agreed));
    }
}

/// Takes messages for later, contents at once: no thread may use a minipage whose contents arrive.
struct Arrivals<'a> {
    machines: &'a Machines,
    memory: &'a Memory,
    arrived: &'a mut Vec<(HostId, Message)>,
    bytes: u64,
}

impl Sink for Arrivals<'_> {
    fn room(&mut self, message: Message) -> Option<Contents> {
        contents(self.memory, message)
    }

    fn take(&mut self, from: HostId, message: Message) {
        self.bytes += wire_bytes(self.room(message));
        self.arrived.push((self.machines.of(from), message));
    }
}

/// Where the contents are that go with a message.
fn contents(memory: &Memory, message: Message) -> Option<Contents> {
    let Message::Contents { minipage, more, .. } = message else { return None };
    let place = memory.place(minipage.0)?;
    // Those of a run lie one behind the other.
    let last = memory.place(minipage.0.checked_add(more.into())?)?;
    let bytes = (last.offset + last.bytes).checked_sub(place.offset)?;
    Some(Contents { address: memory.views().privileged(place.offset), bytes })
}

/// What a message takes on the wire.
fn wire_bytes(contents: Option<Contents>) -> u64 {
    (MESSAGE_BYTES + contents.map_or(0, |contents| contents.bytes)) as u64
}
