//! Minipages that all hosts free together, so that their numbers can be those of others. No thread asks for any of them from then on,
//! but messages may be under way that no thread waits for.
//!
//! A host whose requests for them have ended says so to all hosts, and how many pushes of them it asked each for. To a manager
//! that has heard all, and has had as many pushes, no request is under way. When its transactions have ended, no message about what
//! it manages is left. When all managers are as far, none is left at all.

use std::ops::Range;

use crate::copies::Copies;
use crate::message::{HostId, Waiter};

/// How far one host has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forgetting {
    pub numbers: Range<u32>,
    /// Who waits on this host, once a thread of it has freed them and until nothing is left here.
    pub waiter: Option<Waiter>,
    /// Whether a thread of this host has freed them.
    pub has_begun: bool,
    /// Whether this host has said that it has asked for none any more.
    pub has_said: bool,
    /// Of those below, this host has asked for none; when it has said so, their transactions have ended.
    pub next: u32,
    /// Hosts that have said so.
    heard: Copies,
    /// Pushes of them that those have asked this host for, and those that it has had.
    expected: u32,
    pub pushes: u32,
}

impl Forgetting {
    pub fn of(numbers: Range<u32>, hosts: u16) -> Self {
        let (next, heard) = (numbers.start, Copies::none(hosts));
        let (waiter, has_begun, has_said) = (None, false, false);
        Self { numbers, waiter, has_begun, has_said, next, heard, expected: 0, pushes: 0 }
    }

    /// A thread of this host has freed them, of which the host has had so many pushes.
    pub fn begun(self, waiter: Waiter, pushes: u32) -> Self {
        Self { waiter: Some(waiter), has_begun: true, pushes, ..self }
    }

    /// A host has asked for none any more, and has asked this one for so many pushes.
    pub fn hear(&mut self, host: HostId, pushes: u32) {
        if !self.heard.has(host) {
            self.heard.insert(host);
            self.expected = self.expected.wrapping_add(pushes);
        }
    }

    /// Whether no request comes any more.
    pub fn has_heard_all(&self) -> bool {
        self.has_said && self.heard.are_all() && self.expected == self.pushes
    }

    /// Goes on to the first that is not as it should be. Whether all are.
    pub fn advance(&mut self, is_done: impl Fn(u32) -> bool) -> bool {
        while self.next < self.numbers.end && is_done(self.next) {
            self.next += 1;
        }
        self.next >= self.numbers.end
    }
}
