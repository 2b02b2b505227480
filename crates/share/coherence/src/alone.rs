//! What threads of a host wait for that add minipages alone, or free them.

use crate::message::{Minipage, Waiter};

/// On one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Alone {
    /// Minipages that not all hosts know yet: the first of them, how many hosts are to say that they do, and who waits.
    added: Vec<(Minipage, u16, Waiter)>,
    /// Minipages that are being freed.
    freed: Vec<(Minipage, Waiter)>,
}

impl Alone {
    /// A thread waits until so many hosts know minipages.
    pub fn add(&mut self, first: Minipage, hosts: u16, waiter: Waiter) {
        self.added.push((first, hosts, waiter));
    }

    /// One more does. Who has waited for the last one.
    pub fn added(&mut self, first: Minipage) -> Option<Waiter> {
        let index = self.added.iter().position(|(other, ..)| *other == first)?;
        let (_, missing, _) = &mut self.added[index];
        *missing -= 1;
        (*missing == 0).then(|| self.added.swap_remove(index).2)
    }

    /// A thread waits until a minipage is free.
    pub fn free(&mut self, minipage: Minipage, waiter: Waiter) {
        self.freed.push((minipage, waiter));
    }

    /// It is. Who has waited for that: of several threads that free one minipage any one.
    pub fn freed(&mut self, minipage: Minipage) -> Option<Waiter> {
        let index = self.freed.iter().position(|(other, _)| *other == minipage)?;
        Some(self.freed.remove(index).1)
    }

    /// Whether no thread waits.
    pub const fn is_calm(&self) -> bool {
        self.added.is_empty() && self.freed.is_empty()
    }
}
