//! The protocol's state on one host: its access to each minipage, the waits of its threads, and the minipages that it
//! manages.

use std::{collections::VecDeque, ops::Range};

use crate::alone::Alone;
use crate::barrier::{Arrivals, Arrived};
use crate::copies::Copies;
use crate::counts::Counts;
use crate::directory::{Entry, Outgoing};
use crate::lock::{Grants, Held};
use crate::message::{Access, Barrier, HostId, Lock, Message, Minipage, Other, Waiter, Want};
use crate::minipages::{Local, Minipages};

/// Threads and messages that there is room for from the beginning. There can be more.
const ROOM: usize = 64;
/// Messages of a host to itself, of which each follows from the one before it.
const IN_TURN: usize = 4;

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
    /// What a directory entry says, until it is sent.
    out: Outgoing,
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
            arrivals: Arrivals::default(),
            arrived: Arrived::default(),
            incomplete: Copies::none(hosts),
            leaving: Copies::none(hosts),
            leaver: None,
            unresumed: Vec::with_capacity(ROOM),
            deferred: Vec::with_capacity(ROOM),
            inbox: VecDeque::with_capacity(2 * ROOM),
            out: Outgoing::with_capacity(usize::from(hosts) + 1),
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
        let calm = |local: &Local| {
            local.pending.is_none() && local.entry.as_ref().is_none_or(|entry| entry.is_calm())
        };
        self.unresumed.is_empty()
            && self.waiters.is_empty()
            && self.alone.is_calm()
            && self.minipages.iter().all(calm)
    }

    /// Adds the next minipage, managed by `home`, which alone has it and may write it. All hosts add the same ones in
    /// the same order, before any waits at one.
    pub fn add_owned(&mut self, home: HostId) -> Minipage {
        let access = if home == self.me { Access::Write } else { Access::None };
        self.add(home, access, Entry::owned(self.hosts, home))
    }

    /// Adds the next minipage, managed by `home`. All hosts have equal copies of it.
    pub fn add_shared(&mut self, home: HostId) -> Minipage {
        self.add(home, Access::Read, Entry::shared(self.hosts, home))
    }

    fn add(&mut self, home: HostId, access: Access, entry: Entry) -> Minipage {
        let entry = (home == self.me).then(|| Box::new(entry));
        self.minipages.add(Local { access, home, pending: None, is_foretold: false, entry })
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
            let own = (first.0..first.0 + count).filter(|_| home == me);
            own.for_each(|number| effects.protect(Minipage(number), access));
        }
        is_added
    }

    /// A thread wanted more of a minipage than this host may do, or seemed to.
    pub fn fault(&mut self, minipage: Minipage, access: Access, waiter: Waiter, effects: &mut impl Effects) {
        let want = if access == Access::Write { Want::Write } else { Want::Read };
        match want {
            Want::Write => self.counts.write_faults += 1,
            _ => self.counts.read_faults += 1,
        }
        if !self.knows(minipage) || self.access(minipage) >= access {
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

    /// Asks for copies on all hosts. No thread waits for them.
    pub fn push(&mut self, minipage: Minipage, effects: &mut impl Effects) {
        if let Some(home) = self.minipages.get(minipage).map(|local| local.home) {
            self.send(home, Message::Request { minipage, want: Want::Push }, effects);
            self.drain(effects);
        }
    }

    /// A thread that was woken after a fault is about to try again.
    pub fn resumed(&mut self, minipage: Minipage, effects: &mut impl Effects) {
        let Some(index) = self.unresumed.iter().position(|unresumed| *unresumed == minipage) else { return };
        self.unresumed.swap_remove(index);
        if self.is_manager_of(minipage) {
            self.send(self.me, Message::Done { minipage }, effects);
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
        let entry = self.minipages.get(minipage).and_then(|local| local.entry.as_ref());
        // Of what an entry says at most one message is to this host itself, which answers with one at most.
        self.inbox.len() + self.deferred.len() + IN_TURN <= self.inbox.capacity()
            && self.out.capacity() > self.hosts.into()
            && self.waiters.len() < self.waiters.capacity()
            && self.unresumed.len() < self.unresumed.capacity()
            && self.deferred.len() < self.deferred.capacity()
            && entry.is_none_or(|entry| entry.has_room())
    }

    /// The same for a message: those about locks, barriers and leaving take more.
    #[must_use]
    pub fn has_room_for(&self, message: Message) -> bool {
        message.minipage().is_some_and(|minipage| self.has_room(minipage))
    }

    /// Takes a message. The contents that came with it are in place already.
    pub fn receive(&mut self, from: HostId, message: Message, effects: &mut impl Effects) {
        self.take(from, message, effects);
        self.drain(effects);
    }

    fn ask_early(&mut self, minipage: Minipage, access: Access, effects: &mut impl Effects) -> bool {
        let want = if access == Access::Write { Want::Write } else { Want::Read };
        self.access(minipage) < access && self.ask(minipage, want, effects)
    }

    /// Asks the manager, unless it has been. Whether it was asked now.
    fn ask(&mut self, minipage: Minipage, want: Want, effects: &mut impl Effects) -> bool {
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
            effects.send(to, message);
        }
    }

    fn drain(&mut self, effects: &mut impl Effects) {
        while let Some((from, message)) = self.inbox.pop_front() {
            self.take(from, message, effects);
        }
    }

    fn take(&mut self, from: HostId, message: Message, effects: &mut impl Effects) {
        // Hosts that take a minipage from each other before any thread uses it would do so for ever.
        if message.takes_away().is_some_and(|minipage| self.unresumed.contains(&minipage)) {
            return self.deferred.push((from, message));
        }
        match message {
            Message::Request { minipage, want } => {
                self.counts.requests += 1;
                let mut competing = false;
                self.manage(minipage, effects, |entry, out| {
                    competing = entry.request(minipage, from, want, out);
                });
                self.counts.competing_requests += u64::from(competing);
            }
            Message::Invalidated { minipage } => {
                self.manage(minipage, effects, |entry, out| entry.invalidated(minipage, out));
            }
            Message::Done { minipage } => {
                self.manage(minipage, effects, |entry, out| entry.done(minipage, out));
            }
            Message::Forward { minipage, want, requester } => {
                self.hand_out(minipage, want, requester, effects)
            }
            Message::Invalidate { minipage } => {
                self.counts.invalidations += 1;
                self.lower(minipage, Access::None, effects);
                self.send(from, Message::Invalidated { minipage }, effects);
            }
            Message::Contents { minipage, want: Want::Push } => {
                self.counts.contents_received += 1;
                self.pushed(minipage, effects);
            }
            Message::Contents { minipage, want } => {
                self.counts.contents_received += 1;
                self.granted(minipage, want, effects);
            }
            Message::Grant { minipage, want } => {
                self.counts.grants += 1;
                self.granted(minipage, want, effects);
            }
            Message::Acquire { lock, waits } => {
                let next = self.granted.acquire(lock, from, waits);
                self.send_all(next, effects);
            }
            Message::Release { lock } => {
                let next = self.granted.release(lock, from);
                self.send_all(next, effects);
            }
            Message::Acquired { lock, granted: false } => self.refused(lock, effects),
            Message::Acquired { lock, granted: true } => match self.held.acquired(lock) {
                Some(waiter) => effects.wake(waiter),
                None => self.send(self.lock_manager(lock), Message::Release { lock }, effects),
            },
            Message::Arrive { barrier, word } => {
                let gone = self.incomplete.iter().next();
                if let Some(gone) = gone {
                    let leave = Message::Leave { barrier, other: Some(Other::left(gone)) };
                    return self.send(from, leave, effects);
                }
                let outcomes = self.arrivals.arrive(barrier, word, from, self.hosts).into_iter().flatten();
                let leave = |(host, other)| (host, Message::Leave { barrier, other });
                self.send_all(outcomes.map(leave), effects);
            }
            Message::Leave { barrier, other } => {
                if let Some(waiter) = self.arrived.leave(barrier) {
                    other.into_iter().for_each(|other| effects.differ(other));
                    effects.pass(waiter, other.is_none());
                }
            }
            Message::Add { first, count, what } => {
                if self.know(from, first, count, what, effects) {
                    self.send(from, Message::Added { first }, effects);
                }
            }
            Message::Added { first } => {
                self.alone.added(first).into_iter().for_each(|waiter| effects.wake(waiter));
            }
            Message::Free { minipage } => {
                let was_taken = self.is_manager_of(minipage) && effects.free(minipage);
                self.send(from, Message::Freed { minipage, was_taken }, effects);
            }
            Message::Freed { minipage, was_taken } => match self.alone.freed(minipage) {
                Some(waiter) if was_taken => effects.wake(waiter),
                Some(waiter) => effects.pass(waiter, false),
                None => {}
            },
            Message::Incomplete => self.miss(from, effects),
            Message::Leaving => {
                self.leaving.insert(from);
                self.miss(from, effects);
                if self.leaving.are_all() {
                    self.leaver.take().into_iter().for_each(|waiter| effects.wake(waiter));
                }
            }
        }
    }

    /// A host arrives at no barrier any more. It has passed all at which it arrived, so a wait for it is in vain.
    fn miss(&mut self, host: HostId, effects: &mut impl Effects) {
        self.incomplete.insert(host);
        let waiting = self.arrivals.take_all().into_iter();
        let other = Some(Other::left(host));
        let leave = |(host, barrier)| (host, Message::Leave { barrier, other });
        self.send_all(waiting.map(leave), effects);
    }

    /// A thread of this host that would not wait does not get a lock.
    fn refused(&mut self, lock: Lock, effects: &mut impl Effects) {
        let Some((waiter, wanted)) = self.held.refused(lock) else { return };
        effects.pass(waiter, false);
        if wanted {
            self.send(self.lock_manager(lock), Message::Acquire { lock, waits: true }, effects);
        }
    }

    /// As the manager.
    fn manage(
        &mut self,
        minipage: Minipage,
        effects: &mut impl Effects,
        act: impl FnOnce(&mut Entry, &mut Outgoing),
    ) {
        let mut out = std::mem::take(&mut self.out);
        if let Some(entry) = self.minipages.get_mut(minipage).and_then(|local| local.entry.as_mut()) {
            act(entry, &mut out);
        }
        self.send_all(out.drain(..), effects);
        self.out = out;
    }

    /// As the owner: a copy for the requester, or the only one; or one for everybody.
    fn hand_out(&mut self, minipage: Minipage, want: Want, requester: HostId, effects: &mut impl Effects) {
        let kept = if want == Want::Write { Access::None } else { Access::Read };
        self.lower(minipage, kept, effects);
        let contents = Message::Contents { minipage, want };
        let me = self.me;
        let (first, count) = if want == Want::Push { (0, usize::MAX) } else { (requester.0, 1) };
        // A requester that is no host gets nothing.
        for host in (first..self.hosts).take(count).map(HostId).filter(|host| *host != me) {
            self.counts.contents_sent += 1;
            effects.send(host, contents);
        }
    }

    /// As the requester.
    fn granted(&mut self, minipage: Minipage, want: Want, effects: &mut impl Effects) {
        let Some(local) = self.minipages.get_mut(minipage) else { return };
        (local.pending, local.is_foretold) = (None, false);
        local.raise(minipage, want.access(), effects);
        let home = local.home;
        let is_waited_for = self.wake_all(minipage, effects);
        if is_waited_for && !self.unresumed.contains(&minipage) {
            self.unresumed.push(minipage);
        }
        // Another manager goes on at once, and what it sends for the next is deferred here. This one is not told before a
        // thread has used the minipage.
        if !is_waited_for || home != self.me {
            self.send(home, Message::Done { minipage }, effects);
        }
    }

    /// Wakes the threads that wait for a minipage. Whether there were any.
    fn wake_all(&mut self, minipage: Minipage, effects: &mut impl Effects) -> bool {
        let first = self.waiters.partition_point(|(other, _)| *other < minipage);
        let behind = self.waiters.partition_point(|(other, _)| *other <= minipage);
        self.waiters.drain(first..behind).for_each(|(_, waiter)| effects.wake(waiter));
        first < behind
    }

    fn is_manager_of(&self, minipage: Minipage) -> bool {
        self.minipages.get(minipage).is_some_and(|local| local.home == self.me)
    }

    /// As one of those that everything is pushed to. A request of its own may be under way, and stays so.
    fn pushed(&mut self, minipage: Minipage, effects: &mut impl Effects) {
        let Some(local) = self.minipages.get_mut(minipage) else { return };
        local.raise(minipage, Access::Read, effects);
        let home = local.home;
        self.wake_all(minipage, effects);
        self.send(home, Message::Done { minipage }, effects);
    }

    fn lower(&mut self, minipage: Minipage, access: Access, effects: &mut impl Effects) {
        if let Some(local) = self.minipages.get_mut(minipage)
            && local.access > access
        {
            local.access = access;
            effects.protect(minipage, access);
        }
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
