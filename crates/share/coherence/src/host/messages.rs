//! What the messages of hosts do, each when it is taken.

use super::{Effects, Host};
use crate::directory::{Entry, Outgoing};
use crate::message::{Access, HostId, Lock, Message, Minipage, Other, Want};

impl Host {
    pub(super) fn take(&mut self, from: HostId, message: Message, effects: &mut impl Effects) {
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
}
