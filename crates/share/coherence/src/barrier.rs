//! Barriers: the manager of a barrier counts the hosts that have arrived, and compares their arguments.

use std::collections::BTreeMap;

use crate::copies::Copies;
use crate::message::{Barrier, HostId, Waiter};

/// What a manager knows of the barriers that it manages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arrivals(BTreeMap<Barrier, Arrival>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Arrival {
    hosts: Copies,
    word: u64,
    agreed: bool,
}

impl Arrivals {
    /// Another of `hosts` has come. If that was the last one, whether all have said the same.
    pub fn arrive(&mut self, barrier: Barrier, word: u64, host: HostId, hosts: u16) -> Option<bool> {
        let first = || Arrival { hosts: Copies::none(hosts), word, agreed: true };
        let arrival = self.0.entry(barrier).or_insert_with(first);
        arrival.hosts.insert(host);
        arrival.agreed &= arrival.word == word;
        if !arrival.hosts.are_all() {
            return None;
        }
        self.0.remove(&barrier).map(|arrival| arrival.agreed)
    }

    /// One host will arrive at none. Who waits for it, and where.
    pub fn take_all(&mut self) -> Vec<(HostId, Barrier)> {
        let all = std::mem::take(&mut self.0).into_iter();
        let waiting = |(barrier, arrival): (_, Arrival)| {
            arrival.hosts.iter().map(|host| (host, barrier)).collect::<Vec<_>>()
        };
        all.flat_map(waiting).collect()
    }
}

/// The barriers at which one host waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arrived(BTreeMap<Barrier, Waiter>);

impl Arrived {
    /// A thread has arrived; `false` if another one of this host waits there.
    pub fn wait(&mut self, barrier: Barrier, waiter: Waiter) -> bool {
        if self.0.contains_key(&barrier) {
            return false;
        }
        self.0.insert(barrier, waiter);
        true
    }

    /// All have arrived at it. Who waits here.
    pub fn leave(&mut self, barrier: Barrier) -> Option<Waiter> {
        self.0.remove(&barrier)
    }
}
