//! A set of hosts.

use fixedbitset::FixedBitSet;

use crate::message::HostId;

/// Some of the hosts: those that have a copy of a minipage, say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Copies(FixedBitSet);

impl Copies {
    pub fn none(hosts: u16) -> Self {
        Self(FixedBitSet::with_capacity(hosts.into()))
    }

    pub fn all(hosts: u16) -> Self {
        let mut all = Self::none(hosts);
        all.become_all();
        all
    }

    pub fn only(hosts: u16, host: HostId) -> Self {
        let mut only = Self::none(hosts);
        only.become_only(host);
        only
    }

    pub fn become_all(&mut self) {
        self.0.insert_range(..);
    }

    pub fn become_only(&mut self, host: HostId) {
        self.0.clear();
        self.insert(host);
    }

    pub fn insert(&mut self, host: HostId) {
        self.0.insert(host.index());
    }

    pub fn has(&self, host: HostId) -> bool {
        self.0.contains(host.index())
    }

    pub fn are_all(&self) -> bool {
        self.0.is_full()
    }

    pub fn are_only(&self, host: HostId) -> bool {
        self.has(host) && self.0.count_ones(..) == 1
    }

    pub fn iter(&self) -> impl Iterator<Item = HostId> {
        self.0.ones().map(|index| HostId(index as u16))
    }

    /// Hosts there are.
    pub fn hosts(&self) -> u16 {
        self.0.len() as u16
    }

    /// All but those two, which may be one.
    pub fn without(&self, one: HostId, another: HostId) -> impl Iterator<Item = HostId> {
        self.iter().filter(move |host| *host != one && *host != another)
    }
}
