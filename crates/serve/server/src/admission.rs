//! Admission of connections and sessions by address: no address can take all of the server.

use std::collections::HashMap;
use std::net::IpAddr;

use forebay_rtsp::address::neighbourhood;

const SECOND_NS: f64 = 1e9;
/// How many seconds' worth of connections an address may open at once.
const BURST_SECONDS: f64 = 10.0;

/// Addresses that have connections or sessions, and addresses that had some a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    addresses: HashMap<IpAddr, Visits>,
}

#[derive(Debug)]
struct Visits {
    connections: usize,
    sessions: usize,
    /// How many more connections it may open now.
    credit: f64,
    seen_ns: u64,
}

impl Admission {
    /// Whether an address may open one more connection; then it counts.
    pub fn admit(&mut self, from: IpAddr, connections_max: usize, per_second: f64, now_ns: u64) -> bool {
        let full = per_second * BURST_SECONDS;
        let fresh = Visits { connections: 0, sessions: 0, credit: full, seen_ns: now_ns };
        let visits = self.addresses.entry(neighbourhood(from)).or_insert(fresh);
        visits.credit =
            (visits.credit + now_ns.saturating_sub(visits.seen_ns) as f64 / SECOND_NS * per_second).min(full);
        visits.seen_ns = now_ns;
        let is_admitted =
            from.is_loopback() || (visits.credit >= 1.0 && visits.connections < connections_max);
        if is_admitted {
            visits.credit = (visits.credit - 1.0).max(0.0);
            visits.connections += 1;
        }
        is_admitted
    }

    /// A connection has ended.
    pub fn leave(&mut self, from: IpAddr) {
        if let Some(visits) = self.addresses.get_mut(&neighbourhood(from)) {
            visits.connections = visits.connections.saturating_sub(1);
        }
    }

    /// Whether an address that has connected may have one session more; then it counts. Sessions may outlive connections.
    pub fn admit_session(&mut self, from: IpAddr, sessions_max: usize) -> bool {
        let Some(visits) = self.addresses.get_mut(&neighbourhood(from)) else { return false };
        let is_admitted = from.is_loopback() || visits.sessions < sessions_max;
        visits.sessions += usize::from(is_admitted);
        is_admitted
    }

    /// A session has ended.
    pub fn leave_session(&mut self, from: IpAddr) {
        if let Some(visits) = self.addresses.get_mut(&neighbourhood(from)) {
            visits.sessions = visits.sessions.saturating_sub(1);
        }
    }

    /// Forgets addresses that have no limit to wait for.
    pub fn sweep(&mut self, now_ns: u64) {
        let is_recent =
            |visits: &Visits| now_ns.saturating_sub(visits.seen_ns) as f64 / SECOND_NS < BURST_SECONDS;
        self.addresses.retain(|_, visits| visits.connections > 0 || visits.sessions > 0 || is_recent(visits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_from_one_address_keeps_no_other_address_out() {
        let mut admission = Admission::default();
        let [one, other, home] =
            ["192.0.2.1", "192.0.2.2", "127.0.0.1"].map(|ip| ip.parse().expect("an address"));
        let mut connect = |from, now_ns| admission.admit(from, 1000, 5.0, now_ns);
        assert_eq!((0..1000).filter(|_| connect(one, 1)).count(), 50);
        assert!(connect(other, 1));
        assert_eq!((0..1000).filter(|_| connect(one, 2_000_000_001)).count(), 10);
        assert_eq!((0..1000).filter(|_| connect(home, 1)).count(), 1000);
    }

    #[test]
    fn connections_that_end_make_room() {
        let mut admission = Admission::default();
        let [one, same] = ["2001:db8::1", "2001:db8::2"].map(|ip| ip.parse().expect("an address"));
        assert!(admission.admit(one, 2, 100.0, 0) && admission.admit(same, 2, 100.0, 0));
        assert!(!admission.admit(one, 2, 100.0, 0));
        admission.leave(same);
        assert!(admission.admit(one, 2, 100.0, 0));
        admission.leave(one);
        admission.leave(one);
        admission.sweep(100_000_000_000);
        assert!(admission.addresses.is_empty());
    }

    #[test]
    fn sessions_count_for_as_long_as_they_last() {
        let mut admission = Admission::default();
        let [one, other, home] =
            ["192.0.2.1", "192.0.2.2", "127.0.0.1"].map(|ip| ip.parse().expect("an address"));
        for from in [one, other, home] {
            assert!(!admission.admit_session(from, 2), "it has not connected");
            assert!(admission.admit(from, 1, 100.0, 0));
        }
        assert!(admission.admit_session(one, 2) && admission.admit_session(one, 2));
        assert!(!admission.admit_session(one, 2) && admission.admit_session(other, 2));
        assert!((0..100).all(|_| admission.admit_session(home, 2)));
        admission.leave(one);
        admission.sweep(100_000_000_000);
        assert!(!admission.admit_session(one, 2), "packets are still sent there");
        admission.leave_session(one);
        assert!(admission.admit_session(one, 2));
    }
}
