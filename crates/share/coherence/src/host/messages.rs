//! What the messages of hosts do, each when it is taken.

use super::{Effects, Host, IN_TURN, INBOX, outgoing_max};
use crate::company::{Company, Neighbours, Page};
use crate::directory::{Entry, Outgoing};
use crate::forgetting::Forgetting;
use crate::message::{Access, HostId, Lock, Message, Minipage, Other, Want};

impl Host {
    pub(super) fn take(&mut self, from: HostId, message: Message, effects: &mut impl Effects) {
        // Hosts that take a minipage from each other before any thread uses it would do so for ever.
        if message.takes_away().is_some_and(|minipage| self.unresumed.contains(&minipage)) {
            return self.deferred.push((from, message));
        }
        match message {
            Message::Request { minipage, want } => self.requested(minipage, from, want, effects),
            Message::Invalidated { minipage, .. } => {
                self.manage(minipage, effects, |entry, out| entry.invalidated(minipage, out));
            }
            Message::Done { minipage, .. } => {
                self.manage(minipage, effects, |entry, out| entry.done(minipage, out));
            }
            Message::Forward { minipage, want, requester, .. } => {
                self.hand_out(minipage, want, requester, effects)
            }
            Message::Invalidate { minipage, .. } => {
                self.counts.invalidations += 1;
                self.lower(minipage, Access::None, effects);
                self.send(from, Message::Invalidated { minipage, more: 0 }, effects);
            }
            Message::Contents { minipage, want: Want::Push, .. } => {
                self.counts.contents_received += 1;
                self.pushed(minipage, effects);
            }
            Message::Contents { minipage, want, .. } => {
                self.counts.contents_received += 1;
                self.granted(minipage, want, effects);
            }
            Message::Grant { minipage, want, .. } => {
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
            Message::Forget { first, count, pushes } => {
                let numbers = first.0..first.0.saturating_add(count);
                let hosts = self.hosts;
                let forgetting =
                    self.forgetting.get_or_insert_with(|| Forgetting::of(numbers.clone(), hosts));
                if forgetting.numbers == numbers {
                    forgetting.hear(from, pushes);
                }
            }
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

    /// As the manager: a host wants something. With it goes what has the same user.
    fn requested(&mut self, minipage: Minipage, from: HostId, want: Want, effects: &mut impl Effects) {
        self.counts.requests += 1;
        let neighbours = effects.neighbours(minipage).filter(|_| want != Want::Push);
        let (mut competing, mut company) = (false, None);
        let mut out = std::mem::take(&mut self.out);
        if let Some(Neighbours { first, kind, .. }) = neighbours {
            let mut page = self.minipages.entry_mut(first).map_or(Page::new(), |entry| entry.page);
            page.note(from, minipage);
            let is_swept = page.is_swept(kind);
            if let Some(entry) = self.minipages.entry_mut(minipage) {
                let has_copy = entry.has_copy(from);
                let (goes_along, evidence) = entry.bond.asked(from, want, has_copy, is_swept, &mut page);
                company = goes_along;
                evidence.into_iter().for_each(|evidence| self.kinds.learn(kind, evidence));
            }
            self.minipages.entry_mut(first).into_iter().for_each(|entry| entry.page = page);
        }
        if let Some(entry) = self.minipages.entry_mut(minipage) {
            competing = entry.request(minipage, from, want, &mut out);
        }
        self.counts.competing_requests += u64::from(competing);
        if let Some(freed) = self.forgetting.as_mut().filter(|freed| freed.has_begun)
            && want == Want::Push
            && freed.numbers.contains(&minipage.0)
        {
            freed.pushes = freed.pushes.wrapping_add(1);
        }
        if let (Some(neighbours), Some(company), false) = (neighbours, company, competing) {
            self.accompany(neighbours, company, from, want, &mut out);
            // Those of one kind to one host, one behind the other.
            out.sort_unstable();
        }
        self.send_all(out.drain(..), effects);
        self.out = out;
    }

    /// Lets a host have neighbours that go along, as many as there is room for.
    fn accompany(
        &mut self,
        neighbours: Neighbours,
        company: Company,
        from: HostId,
        want: Want,
        out: &mut Outgoing,
    ) {
        // Of what an entry says at most one message is to this host itself.
        let mut left = INBOX.saturating_sub(self.inbox.len() + self.deferred.len() + 2 * IN_TURN);
        for minipage in neighbours.iter() {
            if left == 0 || out.len() + usize::from(self.hosts) > outgoing_max(self.hosts) {
                return;
            }
            let entry = self.minipages.entry_mut(minipage);
            if let Some(entry) = entry.filter(|entry| entry.goes_along(company, from, want)) {
                entry.bond.go(from, company);
                entry.request(minipage, from, want, out);
                left -= 1;
            }
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
        if let Some(entry) = self.minipages.entry_mut(minipage) {
            act(entry, &mut out);
        }
        self.send_all(out.drain(..), effects);
        self.out = out;
    }

    /// As the owner: a copy for the requester, or the only one; or one for everybody.
    fn hand_out(&mut self, minipage: Minipage, want: Want, requester: HostId, effects: &mut impl Effects) {
        if !self.knows(minipage) {
            return;
        }
        let kept = if want == Want::Write { Access::None } else { Access::Read };
        self.lower(minipage, kept, effects);
        let contents = Message::Contents { minipage, want, more: 0 };
        let me = self.me;
        let (first, count) = if want == Want::Push { (0, usize::MAX) } else { (requester.0, 1) };
        // A requester that is no host gets nothing.
        for host in (first..self.hosts).take(count).map(HostId).filter(|host| *host != me) {
            self.counts.contents_sent += 1;
            self.send(host, contents, effects);
        }
    }

    /// As the requester.
    fn granted(&mut self, minipage: Minipage, want: Want, effects: &mut impl Effects) {
        let Some(local) = self.minipages.get_mut(minipage) else { return };
        self.counts.in_company += u64::from(local.pending.is_none());
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
            self.send(home, Message::Done { minipage, more: 0 }, effects);
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
        self.send(home, Message::Done { minipage, more: 0 }, effects);
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
