//! The protocol's state on one host: its access to each minipage, the waits of its threads, and the minipages that it
//! manages.

mod messages;
mod together;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use crate::alone::Alone;
use crate::barrier::{Arrivals, Arrived};
use crate::company::{Bond, Kinds, Neighbours};
use crate::copies::Copies;
use crate::counts::Counts;
use crate::directory::{Entry, Outgoing};
use crate::forgetting::Forgetting;
use crate::lock::{Grants, Held};
use crate::message::{Access, Barrier, HostId, Lock, Message, Minipage, Other, Waiter, Want};
use crate::minipages::{Local, Minipages};
use crate::runs::Outbox;

/// Threads and messages that there is room for from the beginning. There can be more.
const ROOM: usize = 64;
/// Messages of a host to itself, of which each follows from the one before it.
const IN_TURN: usize = 4;
/// Messages of a host to itself that there is room for.
const INBOX: usize = 2 * ROOM;

/// Messages of directory entries at once that there is room for, in a job of so many hosts.
fn outgoing_max(hosts: u16) -> usize {
    usize::from(hosts) + 4 * ROOM
}

/// What a host does, in the order in which it says so.
pub trait Effects {
    /// Sends a message to another host. With [`Message::Contents`] goes what the minipage holds now.
    fn send(&mut self, to: HostId, message: Message);
    /// Lets the threads of this host do so much with the minipage, and no more.
    fn protect(&mut self, minipage: Minipage, access: Access);
    /// A thread's wait is over. One that had faulted calls [`Host::resumed`] before it tries again.
    fn wake(&mut self, waiter: Waiter);
    /// A thread's wait at a barrier is over, where all hosts `agreed` or did not; or for a lock that it would not wait for, and
    /// did not get.
    fn pass(&mut self, waiter: Waiter, agreed: bool);
    /// A host did something else at the barrier that a thread passes next.
    fn differ(&mut self, _: Other) {}
    /// A host, this one or another, has added minipages alone, and says this of them.
    fn add(&mut self, _first: Minipage, _what: u32) {}
    /// Frees a minipage that this host has added alone; `false` if it is not taken.
    fn free(&mut self, _: Minipage) -> bool {
        false
    }
    /// The neighbours that travel in company with a minipage that this host has added alone: of those that it has added with it.
    fn neighbours(&self, _: Minipage) -> Option<Neighbours> {
        None
    }
}

/// One host's part in the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    me: HostId,
    hosts: u16,
    minipages: Minipages,
    /// Threads that wait for minipages, in the order of those.
    waiters: Vec<(Minipage, Waiter)>,
    granted: Grants,
    held: Held,
    alone: Alone,
    /// Pushes that this host has asked for, of minipages that all hosts add.
    pushes: BTreeMap<Minipage, u32>,
    forgetting: Option<Forgetting>,
    arrivals: Arrivals,
    arrived: Arrived,
    /// Hosts that arrive at no barrier any more.
    incomplete: Copies,
    /// Hosts that ask for nothing any more.
    leaving: Copies,
    /// Who waits here until that is all of them.
    leaver: Option<Waiter>,
    /// Minipages that a thread was woken for which has not said that it tries again.
    unresumed: Vec<Minipage>,
    /// What would take those away from it.
    deferred: Vec<(HostId, Message)>,
    /// Messages to itself, and deferred ones whose time has come.
    inbox: VecDeque<(HostId, Message)>,
    /// What directory entries say, until it is sent.
    out: Outgoing,
    outbox: Outbox,
    /// What is learned of neighbours that this host manages.
    kinds: Kinds,
    counts: Counts,
}

impl Host {
    /// The host `me` of `hosts`, without a minipage.
    #[must_use]
    pub fn new(me: HostId, hosts: u16) -> Self {
        Self {
            me,
            hosts,
            minipages: Minipages::default(),
            waiters: Vec::with_capacity(ROOM),
            granted: Grants::default(),
            held: Held::default(),
            alone: Alone::default(),
            pushes: BTreeMap::new(),
            forgetting: None,
            arrivals: Arrivals::default(),
            arrived: Arrived::default(),
            incomplete: Copies::none(hosts),
            leaving: Copies::none(hosts),
            leaver: None,
            unresumed: Vec::with_capacity(ROOM),
            deferred: Vec::with_capacity(ROOM),
            inbox: VecDeque::with_capacity(INBOX),
            out: Outgoing::with_capacity(outgoing_max(hosts)),
            outbox: Outbox::default(),
            kinds: Kinds::default(),
            counts: Counts::default(),
        }
    }

    /// Which one it is.
    #[must_use]
    pub const fn id(&self) -> HostId {
        self.me
    }

    /// Its figures since they were last taken.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Whether a host has added a minipage, as far as this one knows.
    #[must_use]
    pub fn knows(&self, minipage: Minipage) -> bool {
        self.minipages.get(minipage).is_some()
    }

    /// What it may do with a minipage; nothing with one that it does not know.
    #[must_use]
    pub fn access(&self, minipage: Minipage) -> Access {
        self.minipages.get(minipage).map_or(Access::None, |local| local.access)
    }

    /// Whether nothing is under way that it knows of.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.unresumed.is_empty()
            && self.waiters.is_empty()
            && self.alone.is_calm()
            && self.forgetting.is_none()
            && self.minipages.iter().all(Local::is_calm)
    }

    /// Adds the next minipage, managed by `home`, which alone has it and may write it. All hosts add the same ones in
    /// the same order, before any waits at one.
    pub fn add_owned(&mut self, home: HostId) -> Minipage {
        self.add_as(self.minipages.next(), home, false)
    }

    /// Adds the next minipage, managed by `home`. All hosts have equal copies of it.
    pub fn add_shared(&mut self, home: HostId) -> Minipage {
        self.add_as(self.minipages.next(), home, true)
    }

    /// The same with a number that no minipage has, or none any more ([`Host::forget`]), where all hosts have copies of it or the
    /// manager alone has it.
    pub fn add_as(&mut self, minipage: Minipage, home: HostId, is_shared: bool) -> Minipage {
        let (access, entry) = match is_shared {
            true => (Access::Read, Entry::shared(self.hosts, home)),
            false if home == self.me => (Access::Write, Entry::owned(self.hosts, home)),
            false => (Access::None, Entry::owned(self.hosts, home)),
        };
        let entry = (home == self.me).then(|| Box::new(entry));
        self.minipages.add(minipage, Local { access, home, pending: None, is_foretold: false, entry });
        minipage
    }

    /// Lets each host add minipages of these numbers alone ([`Host::add_alone`]). All hosts call this alike.
    pub fn make_room(&mut self, numbers: Range<u32>) {
        self.minipages.make_room(numbers);
    }

    /// Adds so many minipages from `first` on, which this host manages, and alone has. The waiter is woken when all hosts know
    /// them and `what` is said of them; it passes where there is no room. No two hosts add the same ones.
    pub fn add_alone(
        &mut self,
        first: Minipage,
        count: u32,
        what: u32,
        waiter: Waiter,
        effects: &mut impl Effects,
    ) {
        if !self.know(self.me, first, count, what, effects) {
            return effects.pass(waiter, false);
        }
        if self.hosts == 1 {
            return effects.wake(waiter);
        }
        self.alone.add(first, self.hosts - 1, waiter);
        let me = self.me;
        let others = (0..self.hosts).map(HostId).filter(|host| *host != me);
        others.for_each(|host| effects.send(host, Message::Add { first, count, what }));
    }

    /// A thread has no more need of a minipage that a host has added alone. The waiter is woken when that is free, and passes
    /// where it was not taken.
    pub fn free(&mut self, minipage: Minipage, waiter: Waiter, effects: &mut impl Effects) {
        let Some(home) = self.minipages.get(minipage).map(|local| local.home) else {
            return effects.pass(waiter, false);
        };
        self.alone.free(minipage, waiter);
        self.send(home, Message::Free { minipage }, effects);
        self.drain(effects);
    }

    /// A host has added minipages alone. Whether that can be.
    fn know(
        &mut self,
        home: HostId,
        first: Minipage,
        count: u32,
        what: u32,
        effects: &mut impl Effects,
    ) -> bool {
        let (me, hosts) = (self.me, self.hosts);
        let access = if home == me { Access::Write } else { Access::None };
        let entry = || (home == me).then(|| Box::new(Entry::owned(hosts, home)));
        let is_added = self.minipages.add_alone(first, count, || Local {
            access,
            home,
            pending: None,
            is_foretold: false,
            entry: entry(),
        });
        if is_added {
            effects.add(first, what);
            let own = (first.0..first.0 + count).map(Minipage).filter(|_| home == me);
            own.clone().for_each(|minipage| effects.protect(minipage, access));
            let kind = effects.neighbours(first).filter(|_| home == me).map(|neighbours| neighbours.kind);
            let is_apart = kind.is_some_and(|kind| self.kinds.begin(kind));
            own.for_each(|minipage| self.bind(minipage, is_apart));
        }
        is_added
    }

    /// A minipage that this host has added alone, and that was free, is used for something new.
    pub fn renew(&mut self, minipage: Minipage, effects: &impl Effects) {
        if let Some(Neighbours { kind, .. }) = effects.neighbours(minipage) {
            self.bind(minipage, self.kinds.are_apart(kind));
        }
    }

    fn bind(&mut self, minipage: Minipage, is_apart: bool) {
        if let Some(entry) = self.minipages.entry_mut(minipage) {
            entry.bond = Bond::new(self.me, is_apart);
        }
    }

    /// A thread wanted more of a minipage than this host may do, or seemed to.
    pub fn fault(&mut self, minipage: Minipage, access: Access, waiter: Waiter, effects: &mut impl Effects) {
        let want = if access == Access::Write { Want::Write } else { Want::Read };
        match want {
            Want::Write => self.counts.write_faults += 1,
            _ => self.counts.read_faults += 1,
        }
        if !self.knows(minipage) || self.is_freed(minipage) || self.access(minipage) >= access {
            return effects.wake(waiter);
        }
        let behind = self.waiters.partition_point(|(other, _)| *other <= minipage);
        self.waiters.insert(behind, (minipage, waiter));
        let is_late = self.minipages.get(minipage).is_some_and(|local| local.is_foretold);
        self.counts.foretold_late += u64::from(is_late);
        self.ask(minipage, want, effects);
    }

    /// Asks for a minipage that a thread will access. No thread waits for it.
    pub fn prefetch(&mut self, minipage: Minipage, access: Access, effects: &mut impl Effects) {
        self.counts.prefetches += u64::from(self.ask_early(minipage, access, effects));
    }

    /// The same of one that [`crate::Foresight`] foretells.
    pub fn foretell(&mut self, minipage: Minipage, access: Access, effects: &mut impl Effects) {
        let is_asked = self.ask_early(minipage, access, effects);
        self.counts.foretold += u64::from(is_asked);
        // Where this host is the manager, it may be there already.
        if let Some(local) = self.minipages.get_mut(minipage).filter(|_| is_asked) {
            local.is_foretold = local.pending.is_some();
        }
    }

    /// Whether a request of this host for a minipage is under way.
    #[must_use]
    pub fn is_asking_for(&self, minipage: Minipage) -> bool {
        self.minipages.get(minipage).is_some_and(|local| local.pending.is_some())
    }

    /// The same, or of any host where this one is the manager.
    #[must_use]
    pub fn is_under_way(&self, minipage: Minipage) -> bool {
        self.minipages.get(minipage).is_some_and(|local| !local.is_calm())
    }

    /// Asks for copies on all hosts. No thread waits for them.
    pub fn push(&mut self, minipage: Minipage, effects: &mut impl Effects) {
        let home = self.minipages.get(minipage).map(|local| local.home);
        if let Some(home) = home.filter(|_| !self.is_freed(minipage)) {
            if minipage < self.minipages.next() {
                let asked = self.pushes.entry(minipage).or_default();
                *asked = asked.wrapping_add(1);
            }
            self.send(home, Message::Request { minipage, want: Want::Push }, effects);
            self.drain(effects);
        }
    }

    /// A thread that was woken after a fault is about to try again.
    pub fn resumed(&mut self, minipage: Minipage, effects: &mut impl Effects) {
        let Some(index) = self.unresumed.iter().position(|unresumed| *unresumed == minipage) else { return };
        self.unresumed.swap_remove(index);
        if self.is_manager_of(minipage) {
            self.send(self.me, Message::Done { minipage, more: 0 }, effects);
        }
        let is_due = |(_, message): &mut (HostId, Message)| message.takes_away() == Some(minipage);
        self.inbox.extend(self.deferred.extract_if(.., is_due));
        self.drain(effects);
    }

    /// Whether another host waits for a thread that was woken to say that it tries again.
    #[must_use]
    pub fn needs_resumption(&self) -> bool {
        let competes = |minipage: &Minipage| {
            let entry = self.minipages.get(*minipage).and_then(|local| local.entry.as_ref());
            entry.is_some_and(|entry| entry.is_contended())
        };
        !self.deferred.is_empty() || self.unresumed.iter().any(competes)
    }

    /// A thread wants a lock; it is woken when it has it.
    pub fn lock(&mut self, lock: Lock, waiter: Waiter, effects: &mut impl Effects) {
        if self.held.want(lock, waiter) {
            self.send(self.lock_manager(lock), Message::Acquire { lock, waits: true }, effects);
            self.drain(effects);
        }
    }

    /// A thread wants a lock now or not at all; it is woken when it has it, and passes where it does not get it.
    pub fn try_lock(&mut self, lock: Lock, waiter: Waiter, effects: &mut impl Effects) {
        if !self.held.try_want(lock, waiter) {
            return effects.pass(waiter, false);
        }
        self.send(self.lock_manager(lock), Message::Acquire { lock, waits: false }, effects);
        self.drain(effects);
    }

    /// A thread that waits for a lock does so no longer, unless it has it by now. It passes without it.
    pub fn forgo(&mut self, lock: Lock, waiter: Waiter, effects: &mut impl Effects) {
        if self.held.forgo(lock, waiter) {
            effects.pass(waiter, false);
        }
    }

    /// A thread gives a lock up; `false` if none of this host had it.
    pub fn unlock(&mut self, lock: Lock, effects: &mut impl Effects) -> bool {
        let Some(wanted) = self.held.give_up(lock) else { return false };
        let manager = self.lock_manager(lock);
        self.send(manager, Message::Release { lock }, effects);
        if wanted {
            self.send(manager, Message::Acquire { lock, waits: true }, effects);
        }
        self.drain(effects);
        true
    }

    /// A thread has arrived at a barrier, where all hosts should say the same `word`, and passes it when all have come;
    /// `false` if another one of this host's waits there.
    pub fn arrive(
        &mut self,
        barrier: Barrier,
        word: u64,
        waiter: Waiter,
        effects: &mut impl Effects,
    ) -> bool {
        if !self.arrived.wait(barrier, waiter) {
            return false;
        }
        let manager = HostId((barrier.0 % u32::from(self.hosts)) as u16);
        self.send(manager, Message::Arrive { barrier, word }, effects);
        self.drain(effects);
        true
    }

    /// This host arrives at no barrier from now on: one of several processes that are one host has left.
    pub fn break_barriers(&mut self, effects: &mut impl Effects) {
        self.send_all((0..self.hosts).map(|host| (HostId(host), Message::Incomplete)), effects);
        self.drain(effects);
    }

    /// No thread of this host asks for anything from now on. The waiter is woken when that is so of every host: until
    /// then, others may need this one.
    pub fn leave(&mut self, waiter: Waiter, effects: &mut impl Effects) {
        self.leaver = Some(waiter);
        for lock in self.held.all() {
            self.unlock(lock, effects);
        }
        self.send_all((0..self.hosts).map(|host| (HostId(host), Message::Leaving)), effects);
        self.drain(effects);
    }

    /// Whether a host has said that it asks for nothing any more.
    #[must_use]
    pub fn is_leaving(&self, host: HostId) -> bool {
        self.leaving.has(host)
    }

    /// Whether a fault or a message about a minipage is taken without more memory: in a signal handler, which may have
    /// interrupted the allocator.
    #[must_use]
    pub fn has_room(&self, minipage: Minipage) -> bool {
        self.has_room_for_more(minipage, 0)
    }

    fn has_room_for_more(&self, minipage: Minipage, more: u8) -> bool {
        let entry = self.minipages.get(minipage).and_then(|local| local.entry.as_ref());
        // Of what an entry says at most one message is to this host itself, which answers with one at most.
        self.inbox.len() + self.deferred.len() + IN_TURN <= self.inbox.capacity()
            && self.out.capacity() >= outgoing_max(self.hosts)
            && self.waiters.len() < self.waiters.capacity()
            && self.unresumed.len() + usize::from(more) < self.unresumed.capacity()
            && self.deferred.len() + usize::from(more) < self.deferred.capacity()
            && entry.is_none_or(|entry| entry.has_room())
    }

    /// The same for a message: those about locks, barriers and leaving take more.
    #[must_use]
    pub fn has_room_for(&self, message: Message) -> bool {
        let has_room = |single: Message| {
            single.minipage().is_some_and(|minipage| self.has_room_for_more(minipage, message.more()))
        };
        message.singles().all(has_room)
    }

    /// Takes a message. The contents that came with it are in place already.
    pub fn receive(&mut self, from: HostId, message: Message, effects: &mut impl Effects) {
        for single in message.singles() {
            self.take(from, single, effects);
            self.go_on(effects);
        }
        self.outbox.flush(effects);
    }

    fn ask_early(&mut self, minipage: Minipage, access: Access, effects: &mut impl Effects) -> bool {
        let want = if access == Access::Write { Want::Write } else { Want::Read };
        self.access(minipage) < access && self.ask(minipage, want, effects)
    }

    /// Asks the manager, unless it has been. Whether it was asked now.
    fn ask(&mut self, minipage: Minipage, want: Want, effects: &mut impl Effects) -> bool {
        if self.is_freed(minipage) {
            return false;
        }
        let Some(local) = self.minipages.get_mut(minipage) else { return false };
        if local.pending.is_some() {
            // A thread that needs more than that one gives faults again.
            return false;
        }
        local.pending = Some(want);
        let home = local.home;
        self.send(home, Message::Request { minipage, want }, effects);
        self.drain(effects);
        true
    }

    fn send(&mut self, to: HostId, message: Message, effects: &mut impl Effects) {
        if to == self.me {
            self.inbox.push_back((to, message));
        } else {
            self.outbox.send(to, message, effects);
        }
    }

    /// Does all that follows, and says what there is to say.
    fn drain(&mut self, effects: &mut impl Effects) {
        self.go_on(effects);
        self.outbox.flush(effects);
    }

    fn go_on(&mut self, effects: &mut impl Effects) {
        while let Some((from, message)) = self.inbox.pop_front() {
            self.take(from, message, effects);
        }
    }

    fn is_manager_of(&self, minipage: Minipage) -> bool {
        self.minipages.get(minipage).is_some_and(|local| local.home == self.me)
    }

    fn send_all(
        &mut self,
        messages: impl IntoIterator<Item = (HostId, Message)>,
        effects: &mut impl Effects,
    ) {
        for (to, message) in messages {
            self.send(to, message, effects);
        }
    }

    const fn lock_manager(&self, lock: Lock) -> HostId {
        HostId((lock.0 % self.hosts as u64) as u16)
    }
}
