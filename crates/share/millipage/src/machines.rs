//! Which hosts of a job are on one machine, and map one memory.

use forebay_coherence::HostId;

/// The hosts of each machine. To the protocol a machine is one host; its number there is that of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// By the ranks of hosts.
    of: Vec<HostId>,
    hosts: Vec<Vec<HostId>>,
}

impl Machines {
    /// Hosts with equal keys are on one machine. Machines are in the order of their first hosts.
    pub fn by<K: PartialEq>(keys: &[K]) -> Self {
        let mut all = Self { of: vec![], hosts: vec![] };
        for (host, key) in keys.iter().enumerate() {
            let first = keys.iter().position(|other| other == key).unwrap_or(host);
            let machine = all.of.get(first).copied().unwrap_or(HostId(all.hosts.len() as u16));
            if machine.index() == all.hosts.len() {
                all.hosts.push(vec![]);
            }
            all.of.push(machine);
            all.hosts[machine.index()].push(HostId(host as u16));
        }
        all
    }

    /// How many hosts there are on all of them.
    pub fn hosts_at_all(&self) -> u16 {
        self.of.len() as u16
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.hosts.len() as u16
    }

    /// That of a host.
    pub fn of(&self, host: HostId) -> HostId {
        self.of[host.index()]
    }

    /// The hosts of a machine, in their order.
    pub fn hosts(&self, machine: HostId) -> &[HostId] {
        &self.hosts[machine.index()]
    }

    /// The host that serves a machine.
    pub fn first(&self, machine: HostId) -> HostId {
        self.hosts[machine.index()][0]
    }

    /// Whether a host serves its machine.
    pub fn serves(&self, host: HostId) -> bool {
        self.first(self.of(host)) == host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_one_key_are_on_one_machine() {
        let machines = Machines::by(&["b", "a", "b", "c", "a"]);
        assert_eq!(machines.count(), 3);
        let of: Vec<u16> = (0..5).map(|host| machines.of(HostId(host)).0).collect();
        assert_eq!(of, [0, 1, 0, 2, 1]);
        assert_eq!(machines.hosts(HostId(1)), [HostId(1), HostId(4)]);
        let serve: Vec<bool> = (0..5).map(|host| machines.serves(HostId(host))).collect();
        assert_eq!(serve, [true, true, false, true, false]);
        assert_eq!(Machines::by(&[0, 1, 2]).count(), 3);
        assert_eq!(Machines::by(&["", ""]).count(), 1);
    }
}
