//! Barriers: the manager of a barrier counts the hosts that have arrived, and compares their arguments.

use std::collections::BTreeMap;

use crate::message::{Barrier, HostId, Other, Waiter};

/// What a manager knows of the barriers that it manages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arrivals(BTreeMap<Barrier, Arrival>);

/// What each host said that has arrived.
type Arrival = BTreeMap<HostId, u64>;

/// Hosts, and for each one that did not do the same there, if any.
pub type Outcomes = Vec<(HostId, Option<Other>)>;

impl Arrivals {
    /// Another of `hosts` has come. If that was the last one, what each of them learns.
    pub fn arrive(&mut self, barrier: Barrier, word: u64, host: HostId, hosts: u16) -> Option<Outcomes> {
        let arrival = self.0.entry(barrier).or_default();
        arrival.insert(host, word);
        if arrival.len() < usize::from(hosts) {
            return None;
        }
        let said = self.0.remove(&barrier)?;
        // Where all agree, this looks at each but once.
        let agree = said.values().all(|other| *other == word);
        let other = |mine: u64| said.iter().find(|(_, word)| **word != mine);
        let learns = |mine| {
            if agree { None } else { other(mine).map(|(host, word)| Other { host: *host, word: *word }) }
        };
        Some(said.iter().map(|(host, word)| (*host, learns(*word))).collect())
    }

    /// One host will arrive at none. Which hosts wait for it, and where.
    pub fn take_all(&mut self) -> Vec<(HostId, Barrier)> {
        let all = std::mem::take(&mut self.0).into_iter();
        let waiting = |(barrier, arrival): (_, Arrival)| {
            arrival.into_keys().map(|host| (host, barrier)).collect::<Vec<_>>()
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
