//! The engine of a host, used under its lock: receives and sends messages, sets protections, wakes threads.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Release},
        },
    },
};

use forebay_coherence::{Access, Effects, HostId, MESSAGE_BYTES, Message, Minipage, Waiter};
use forebay_sigsafe::general as n;
use forebay_vm::{
    Allowed, PAGE_BYTES, Protection, Views,
    layout::{Layout, Place},
};

use crate::{
    Error,
    fault_slots::{FaultSlots, Found, futex},
    transport::{Closed, Contents, Sink, Transport},
    usage::{Clock, Traffic, Usage},
};

/// The shared memory as this host sees it.
pub struct Memory {
    pub views: Views,
    pub protection: Box<dyn Protection>,
}

impl Memory {
    /// Lets this host's threads do so much with a minipage, and no more.
    pub fn allow(&self, place: &Place, access: Access) -> Result<(), Error> {
        let (pages, views) = (place.pages(), &self.views);
        let address = views.address(place.view, pages.start * PAGE_BYTES);
        self.protection.set(address, pages.len() * PAGE_BYTES, allowed(access)).map_err(|source| {
            let (count, bytes) = (views.count(), views.bytes());
            forebay_vm::Error::Views { views: count, bytes, at: Some(address), source }.into()
        })
    }
}

/// A call that waits, outside of a fault.
#[derive(Debug, Default)]
pub struct Wait(AtomicU32);

/// How such a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With what was wanted.
    Well,
    /// Hosts did not agree at a barrier.
    Disagreed,
    /// A host was lost.
    Lost,
}

impl Wait {
    /// Whether it has ended, and how.
    pub fn ended(&self) -> Option<Ended> {
        match self.0.load(Acquire) {
            0 => None,
            1 => Some(Ended::Well),
            2 => Some(Ended::Disagreed),
            _ => Some(Ended::Lost),
        }
    }

    /// Sleeps until it may have ended.
    pub fn sleep(&self) {
        futex(&self.0, n::FUTEX_WAIT, 0);
    }

    fn end(&self, ended: Ended) {
        self.0.store(1 + ended as u32, Release);
        futex(&self.0, n::FUTEX_WAKE, 1);
    }
}

/// Waiters from here on are calls, those below are slots.
const CALLS: u64 = 1 << 32;

/// What there was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Messages and faults.
    pub served: usize,
    /// A thread of this host goes on.
    pub woke: bool,
}

/// Everything that a lock is needed for.
pub struct Engine {
    pub machine: forebay_coherence::Host,
    pub layout: Layout,
    transport: Box<dyn Transport>,
    waits: HashMap<u64, Arc<Wait>>,
    next_call: u64,
    arrived: Vec<(HostId, Message)>,
    failure: Option<Error>,
    /// Others know of it.
    failure_told: bool,
    traffic: Traffic,
    /// What was asked for already.
    usage_taken: Usage,
}

impl Engine {
    pub fn new(machine: forebay_coherence::Host, layout: Layout, transport: Box<dyn Transport>) -> Self {
        let (waits, arrived) = (HashMap::new(), vec![]);
        Self {
            machine,
            layout,
            transport,
            waits,
            next_call: CALLS,
            arrived,
            failure: None,
            failure_told: false,
            traffic: Traffic::default(),
            usage_taken: Usage::default(),
        }
    }

    /// What the host did since that was last asked for, and where the clock's time went.
    pub fn take_usage(&mut self, clock: &Clock) -> Usage {
        let counts = self.machine.take_counts();
        let usage = Usage { counts, traffic: std::mem::take(&mut self.traffic), times: clock.take() };
        self.usage_taken += usage;
        usage
    }

    /// The same since the beginning.
    pub fn all_usage(&mut self, clock: &Clock) -> Usage {
        self.take_usage(clock);
        self.usage_taken
    }

    /// A waiter for a call, and what the call waits for.
    pub fn begin_call(&mut self) -> (Waiter, Arc<Wait>) {
        let wait = Arc::new(Wait::default());
        self.next_call += 1;
        self.waits.insert(self.next_call, wait.clone());
        (Waiter(self.next_call), wait)
    }

    /// The call does not wait after all.
    pub fn end_call(&mut self, waiter: Waiter) {
        self.waits.remove(&waiter.0);
    }

    /// Lets the machine act.
    pub fn act<R>(
        &mut self,
        memory: &Memory,
        slots: &FaultSlots,
        act: impl FnOnce(&mut forebay_coherence::Host, &mut Acts<'_>) -> R,
    ) -> R {
        let Self { machine, layout, transport, waits, failure, traffic, .. } = self;
        act(
            machine,
            &mut Acts {
                transport: transport.as_mut(),
                layout,
                memory,
                slots,
                waits,
                failure,
                traffic,
                woke: false,
            },
        )
    }

    /// Does what there is to do.
    pub fn progress(&mut self, memory: &Memory, slots: &FaultSlots) -> Progress {
        let mut arrived = std::mem::take(&mut self.arrived);
        let mut sink =
            Arrivals { layout: &self.layout, views: &memory.views, arrived: &mut arrived, bytes: 0 };
        if let Err(error) = self.transport.receive(&mut sink) {
            self.failure.get_or_insert(error);
        }
        let received_bytes = sink.bytes;
        let mut served = arrived.len();
        self.traffic.messages_received += served as u64;
        self.traffic.bytes_received += received_bytes;
        let woke = self.act(memory, slots, |machine, acts| {
            // First who resumes, which takes no new request: what has arrived need not be deferred for those.
            slots.look(|found| match found {
                Found::Fault { slot, minipage, is_write } => {
                    served += 1;
                    let access = if is_write { Access::Write } else { Access::Read };
                    machine.fault(Minipage(minipage), access, Waiter(slot as u64), acts);
                }
                Found::Resumed { minipage } => machine.resumed(Minipage(minipage), acts),
            });
            for (from, message) in arrived.drain(..) {
                machine.receive(from, message, acts);
            }
            acts.woke
        });
        slots.need_resumption(self.machine.needs_resumption());
        self.arrived = arrived;
        self.look_at_failure();
        Progress { served, woke }
    }

    /// Where something has failed, no thread waits any longer, and all hosts are told.
    fn look_at_failure(&mut self) {
        let lost = match &self.failure {
            None => return,
            Some(Error::Lost { host, .. }) => Some(HostId(*host)),
            Some(_) => None,
        };
        let leaving = |host| self.machine.is_leaving(host);
        if leaving(self.machine.id()) && lost.is_some_and(leaving) {
            // A host goes when all have said that they leave, so this one may go too.
            self.failure = None;
            self.waits.drain().for_each(|(_, wait)| wait.end(Ended::Well));
            return;
        }
        self.waits.drain().for_each(|(_, wait)| wait.end(Ended::Lost));
        if !std::mem::replace(&mut self.failure_told, true) {
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

/// What the machine wants done is done at once.
pub struct Acts<'a> {
    transport: &'a mut dyn Transport,
    layout: &'a Layout,
    memory: &'a Memory,
    slots: &'a FaultSlots,
    waits: &'a mut HashMap<u64, Arc<Wait>>,
    failure: &'a mut Option<Error>,
    traffic: &'a mut Traffic,
    /// A thread was woken.
    woke: bool,
}

impl Effects for Acts<'_> {
    fn send(&mut self, to: HostId, message: Message) {
        let contents = contents(self.layout, &self.memory.views, message);
        self.traffic.messages_sent += 1;
        self.traffic.bytes_sent += wire_bytes(contents);
        if let Err(error) = self.transport.send(to, message, contents) {
            self.failure.get_or_insert(error);
        }
    }

    fn protect(&mut self, minipage: Minipage, access: Access) {
        let Some(place) = self.layout.place(minipage.0) else { return };
        if let Err(error) = self.memory.allow(&place, access) {
            self.failure.get_or_insert(error);
        }
    }

    fn wake(&mut self, waiter: Waiter) {
        self.woke = true;
        match self.waits.remove(&waiter.0) {
            Some(wait) => wait.end(Ended::Well),
            None => self.slots.wake(waiter.0 as usize),
        }
    }

    fn pass(&mut self, waiter: Waiter, agreed: bool) {
        if let Some(wait) = self.waits.remove(&waiter.0) {
            self.woke = true;
            wait.end(if agreed { Ended::Well } else { Ended::Disagreed });
        }
    }
}

/// What access means to the kernel.
const fn allowed(access: Access) -> Allowed {
    match access {
        Access::None => Allowed::Nothing,
        Access::Read => Allowed::Reading,
        Access::Write => Allowed::Writing,
    }
}

/// Takes messages for later, contents at once: no thread may use a minipage whose contents arrive.
struct Arrivals<'a> {
    layout: &'a Layout,
    views: &'a Views,
    arrived: &'a mut Vec<(HostId, Message)>,
    bytes: u64,
}

impl Sink for Arrivals<'_> {
    fn room(&mut self, message: Message) -> Option<Contents> {
        contents(self.layout, self.views, message)
    }

    fn take(&mut self, from: HostId, message: Message) {
        self.bytes += wire_bytes(self.room(message));
        self.arrived.push((from, message));
    }
}

/// Where the contents are that go with a message.
fn contents(layout: &Layout, views: &Views, message: Message) -> Option<Contents> {
    let Message::Contents { minipage, .. } = message else { return None };
    let place = layout.place(minipage.0)?;
    Some(Contents { address: views.privileged(place.offset), bytes: place.bytes })
}

/// What a message takes on the wire.
fn wire_bytes(contents: Option<Contents>) -> u64 {
    (MESSAGE_BYTES + contents.map_or(0, |contents| contents.bytes)) as u64
}
