//! Wrong passwords, counted by address: after a few, each one makes the next password from there wait longer.

use core::net::IpAddr;
use std::collections::HashMap;

use super::{ConnectionId, Server, Timer};
use crate::address::neighbourhood;
use crate::message::Request;
use crate::range::SECOND_NS;

/// Wrong passwords after which the next one does not wait: people mistype.
const FREE: u32 = 5;
/// How long the first one waits, and the longest wait.
const WAIT_NS_MIN: u64 = SECOND_NS / 4;
const WAIT_NS_MAX: u64 = 8 * SECOND_NS;
/// How long an address is remembered after its last wrong password.
const FORGOTTEN_NS: u64 = 600 * SECOND_NS;
/// How many addresses are remembered.
const ADDRESSES_MAX: usize = 100_000;

/// What is remembered of addresses that wrong passwords came from.
#[derive(Debug, Default)]
pub struct Guesses {
    addresses: HashMap<IpAddr, Guess>,
}

#[derive(Clone, Copy, Debug)]
struct Guess {
    wrong: u32,
    last_ns: u64,
    /// When the next password is looked at.
    next_ns: u64,
}

impl Guesses {
    /// When a password that comes from an address now is looked at.
    pub fn next_ns(&self, from: IpAddr, now_ns: u64) -> u64 {
        self.addresses.get(&neighbourhood(from)).map_or(now_ns, |guess| guess.next_ns.max(now_ns))
    }

    /// A wrong one. Returns how many there were.
    pub fn note_wrong(&mut self, from: IpAddr, now_ns: u64) -> u32 {
        if self.addresses.len() >= ADDRESSES_MAX {
            self.addresses.retain(|_, guess| now_ns.saturating_sub(guess.last_ns) < FORGOTTEN_NS);
        }
        if self.addresses.len() >= ADDRESSES_MAX {
            self.addresses.clear();
        }
        let fresh = Guess { wrong: 0, last_ns: now_ns, next_ns: now_ns };
        let guess = self.addresses.entry(neighbourhood(from)).or_insert(fresh);
        if now_ns.saturating_sub(guess.last_ns) >= FORGOTTEN_NS {
            *guess = fresh;
        }
        (guess.wrong, guess.last_ns) = (guess.wrong.saturating_add(1), now_ns);
        if let Some(doublings) = guess.wrong.checked_sub(FREE) {
            guess.next_ns = now_ns.saturating_add((WAIT_NS_MIN << doublings.min(8)).min(WAIT_NS_MAX));
        }
        guess.wrong
    }
}

impl Server {
    /// Keeps back a request with a password until its address may try again. Returns the request if that is now.
    pub(super) fn hold_back(&mut self, id: ConnectionId, request: Request, now_ns: u64) -> Option<Request> {
        let Some(connection) = self.connections.get_mut(&id) else { return Some(request) };
        let has_password = self.guard.is_some() && request.headers.get("Authorization").is_some();
        // A connection whose user is known is not guessing.
        if !has_password || connection.user.is_some() {
            return Some(request);
        }
        let next_ns = self.guesses.next_ns(connection.client, now_ns);
        if next_ns <= now_ns {
            return Some(request);
        }
        connection.held = Some(Box::new(request));
        self.timers.insert((next_ns, Timer::Held(id)));
        None
    }

    /// The time of a request that was kept back has come.
    pub(super) fn release_held(&mut self, id: ConnectionId, now_ns: u64) {
        let held = self.connections.get_mut(&id).and_then(|connection| connection.held.take());
        if let Some(request) = held {
            self.request(id, *request, now_ns);
            self.go_on(id, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_password_makes_the_next_wait_longer_and_only_from_there() {
        let mut guesses = Guesses::default();
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().expect("an address"));
        for _ in 1..FREE {
            guesses.note_wrong(one, 0);
            assert_eq!(guesses.next_ns(one, 0), 0);
        }
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                guesses.note_wrong(one, 0);
                guesses.next_ns(one, 0) / WAIT_NS_MIN
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(guesses.next_ns(other, 0), 0);
        guesses.note_wrong(one, FORGOTTEN_NS);
        assert_eq!(guesses.next_ns(one, FORGOTTEN_NS), FORGOTTEN_NS);
    }
}
