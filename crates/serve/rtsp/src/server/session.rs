//! What is known of a session.

use core::net::IpAddr;
use std::sync::Arc;

use super::ConnectionId;
use crate::presentation::Presentation;
use crate::target::Target;
use crate::transport::{Channels, Transport};

pub(super) struct Session {
    /// What clients call it.
    pub name: String,
    /// Where its requests come from, and its packets go.
    pub client: IpAddr,
    /// The connection of its first SETUP, which is the one that packets may be sent on.
    pub made_on: ConnectionId,
    /// Of what, without a track.
    pub of: Target,
    pub presentation: Arc<Presentation>,
    /// In the order in which they were set up.
    pub tracks: Vec<SetUp>,
    pub is_playing: bool,
    /// Its client has required replay.
    pub is_replay: bool,
    /// What the last PLAY was answered.
    pub pace: Pace,
    /// A request of it waits for its answer.
    pub is_busy: bool,
    /// When it last gave a sign of life.
    pub seen_ns: u64,
}

/// A track that has been set up.
pub(super) struct SetUp {
    pub number: usize,
    /// As the client called it.
    pub url: String,
    pub transport: Transport,
}

/// How a session plays, and until where.
#[derive(Clone, Copy, Default)]
pub(super) struct Pace {
    pub until_ns: Option<u64>,
    pub scale: f64,
    pub speed: f64,
}

impl Session {
    /// The connection that packets of it are sent on, if there is one.
    pub fn carrier(&self) -> Option<ConnectionId> {
        self.channels().next().map(|_| self.made_on)
    }

    /// The channels that it uses on its connection.
    pub fn channels(&self) -> impl Iterator<Item = Channels> {
        self.tracks.iter().filter_map(SetUp::channels)
    }

    /// The track whose reports come on this channel.
    pub fn reported_on(&self, connection: ConnectionId, channel: u8) -> Option<usize> {
        let is_it = |track: &&SetUp| track.channels().is_some_and(|(_, reports)| reports == channel);
        self.tracks.iter().find(is_it).filter(|_| self.made_on == connection).map(|track| track.number)
    }

    /// Whether a request is about one of several tracks, where it has to be about all.
    pub fn is_partial(&self, target: &Target) -> bool {
        target.track.is_some() && self.tracks.len() > 1
    }
}

impl SetUp {
    fn channels(&self) -> Option<Channels> {
        match self.transport {
            Transport::Interleaved { channels } => Some(channels),
            Transport::Udp { .. } | Transport::Multicast { .. } => None,
        }
    }
}
