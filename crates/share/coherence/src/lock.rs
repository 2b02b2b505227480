//! Locks: the manager of a lock grants it to one host at a time, in the order of the requests. A host that would not wait is
//! refused where another one has the lock.

use std::collections::{BTreeMap, VecDeque};

use crate::message::{HostId, Lock, Message, Waiter};

/// What a manager knows of the locks that it manages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grants(BTreeMap<Lock, Granted>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Granted {
    holder: Option<HostId>,
    waiting: VecDeque<HostId>,
}

impl Grants {
    /// A host wants the lock, and `waits` for it or does not. The holder itself may, if its release is still on the way. Whom
    /// to tell what.
    pub fn acquire(&mut self, lock: Lock, host: HostId, waits: bool) -> Option<(HostId, Message)> {
        let granted = self.0.entry(lock).or_default();
        if !waits && granted.holder.is_some_and(|holder| holder != host) {
            return Some((host, Message::Acquired { lock, granted: false }));
        }
        granted.waiting.push_back(host);
        granted.next(lock)
    }

    /// A host has it no more. Whom to tell what.
    pub fn release(&mut self, lock: Lock, host: HostId) -> Option<(HostId, Message)> {
        let granted = self.0.get_mut(&lock)?;
        if granted.holder == Some(host) {
            granted.holder = None;
        }
        let next = granted.next(lock);
        if granted.holder.is_none() {
            self.0.remove(&lock);
        }
        next
    }
}

impl Granted {
    fn next(&mut self, lock: Lock) -> Option<(HostId, Message)> {
        if self.holder.is_some() {
            return None;
        }
        self.holder = self.waiting.pop_front();
        self.holder.map(|host| (host, Message::Acquired { lock, granted: true }))
    }
}

/// The locks that threads of one host have or want.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Held(BTreeMap<Lock, Local>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Local {
    held: bool,
    waiting: VecDeque<Waiter>,
}

impl Held {
    /// A thread wants the lock. Whether its manager has to be asked: one request is under way at a time.
    pub fn want(&mut self, lock: Lock, waiter: Waiter) -> bool {
        let local = self.0.entry(lock).or_default();
        local.waiting.push_back(waiter);
        !local.held && local.waiting.len() == 1
    }

    /// A thread wants the lock now or not at all. Whether its manager has to be asked; else another thread of this host has it.
    pub fn try_want(&mut self, lock: Lock, waiter: Waiter) -> bool {
        let is_free = !self.0.contains_key(&lock);
        is_free && self.want(lock, waiter)
    }

    /// The manager has refused it. Which thread does not get it, and whether others of this host want it.
    pub fn refused(&mut self, lock: Lock) -> Option<(Waiter, bool)> {
        let local = self.0.get_mut(&lock).filter(|local| !local.held)?;
        let refused = local.waiting.pop_front();
        let wanted = !local.waiting.is_empty();
        if !wanted {
            self.0.remove(&lock);
        }
        refused.map(|waiter| (waiter, wanted))
    }

    /// A thread that waits for it does so no longer; `false` if it does not wait. What was asked for is granted all the same.
    pub fn forgo(&mut self, lock: Lock, waiter: Waiter) -> bool {
        let Some(local) = self.0.get_mut(&lock) else { return false };
        let place = local.waiting.iter().position(|other| *other == waiter);
        place.and_then(|place| local.waiting.remove(place)).is_some()
    }

    /// The manager has granted it. Who has it now; `None` if no thread waits any more, and the host is to give it back.
    pub fn acquired(&mut self, lock: Lock) -> Option<Waiter> {
        let local = self.0.get_mut(&lock)?;
        let next = local.waiting.pop_front();
        local.held = next.is_some();
        if !local.held {
            self.0.remove(&lock);
        }
        next
    }

    /// Those that threads have.
    pub fn all(&self) -> Vec<Lock> {
        self.0.iter().filter(|(_, local)| local.held).map(|(lock, _)| *lock).collect()
    }

    /// A thread gives it up: whether others of this host want it. `None` if none had it.
    pub fn give_up(&mut self, lock: Lock) -> Option<bool> {
        let local = self.0.get_mut(&lock).filter(|local| local.held)?;
        local.held = false;
        let wanted = !local.waiting.is_empty();
        if !wanted {
            self.0.remove(&lock);
        }
        Some(wanted)
    }
}
