//! The order of the parent process: how many players play which URLs, and how.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// What players are to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Where the server listens.
    pub address: SocketAddr,
    /// What there is to play, below the server's address. Player n plays the one with n modulo their number.
    pub paths: Vec<String>,
    /// Bits a second of the link between the server and a player, for each of the paths; empty where there is no limit.
    pub links: Vec<f64>,
    /// How much faster than time the clock of each path's timestamps runs, such as 0.00005; empty where none does.
    pub drifts: Vec<f64>,
    /// How many play at the same time.
    pub players: u32,
    /// How packets are to come.
    pub transport: Transport,
    /// So many begin in a second at most.
    pub ramp_per_second: f64,
    /// Where they begin.
    pub start: Start,
    /// How much of its media a player needs behind where it begins, in seconds.
    pub needed_s: f64,
    /// Each seeks so often, on average, in seconds.
    pub seek_every_s: Option<f64>,
    /// Each leaves after so long, on average, in seconds, and another one comes.
    pub stay_s: Option<f64>,
    /// Packets that come so long after they were due are late, in seconds.
    pub late_s: f64,
    /// The same seed gives the same places, seeks and leaves.
    pub seed: u64,
}

impl Order {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let positive = |value: Option<f64>| value.is_none_or(|value| value.is_finite() && value > 0.0);
        if self.players == 0 || self.paths.is_empty() {
            return Err(Error::Order("there is nobody to play, or nothing; give at least one of both"));
        }
        let has_links = self.links.is_empty() || self.links.len() == self.paths.len();
        if !has_links || !self.links.iter().all(|bits| positive(Some(*bits))) {
            return Err(Error::Order("give a link of more than nothing for each path, or none"));
        }
        let has_drifts = self.drifts.is_empty() || self.drifts.len() == self.paths.len();
        if !has_drifts || !self.drifts.iter().all(|drift| drift.is_finite() && *drift > -1.0) {
            return Err(Error::Order("give a drift of more than -1 for each path, or none"));
        }
        if !positive(Some(self.ramp_per_second)) || !positive(self.seek_every_s) || !positive(self.stay_s) {
            return Err(Error::Order(
                "times between beginnings, seeks and leaves are to be more than nothing",
            ));
        }
        Ok(())
    }
}

/// How packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// As datagrams to two ports for each player.
    Udp,
    /// On the connection, between answers.
    Tcp,
}

forebay_names::names! { "transport": Transport {
    Udp = "udp",
    Tcp = "tcp",
} }

/// Where players begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// At the beginning of the media.
    Beginning,
    /// Anywhere from where what is needed is left, where the server says how long the media are.
    Anywhere,
}
