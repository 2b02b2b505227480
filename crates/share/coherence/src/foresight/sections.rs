//! What a machine fetches while it has a lock.

use std::{collections::HashMap, ops::Range};

use super::epoch::{Epoch, Foretold, Log};
use crate::message::Lock;

/// Locks that are remembered, and minipages for each.
const LOCKS_MAX: usize = 1 << 16;
const FETCHES_MAX: usize = 64;

/// Of all locks.
#[derive(Clone, Debug, Default)]
pub struct Sections {
    last: HashMap<Lock, Epoch>,
    open: Option<Open>,
}

/// The section of the lock that was taken last.
#[derive(Clone, Debug)]
struct Open {
    lock: Lock,
    /// What was noted before it.
    noted: usize,
    foretold: Foretold,
}

impl Sections {
    /// The last section of a lock.
    pub fn last(&self, lock: Lock) -> Epoch {
        self.last.get(&lock).cloned().unwrap_or_default()
    }

    /// A section begins. One that has not ended is left: what is fetched from now on is of this one.
    pub fn enter(&mut self, lock: Lock, noted: usize, foretold: Foretold) {
        self.open = Some(Open { lock, noted, foretold });
    }

    /// What is fetched from now on is of no section.
    pub fn leave(&mut self) {
        self.open = None;
    }

    /// Forgets minipages of these numbers. What is noted has other places from now on, so a section that is under way tells nothing.
    pub fn forget(&mut self, numbers: &Range<u32>) {
        self.leave();
        self.last.values_mut().for_each(|section| section.forget(numbers));
    }

    /// A lock is given up. How much that was foretold was not needed.
    pub fn end(&mut self, lock: Lock, log: &mut Log) -> u64 {
        let Some(open) = self.open.take_if(|open| open.lock == lock) else { return 0 };
        let Some(stories) = log.take_since(open.noted) else { return 0 };
        let (section, verdict) = open.foretold.end(Some(stories));
        let has_room = self.last.len() < LOCKS_MAX || self.last.contains_key(&lock);
        if section.fetches.len() <= FETCHES_MAX && has_room {
            self.last.insert(lock, section);
        }
        verdict.unneeded
    }
}
