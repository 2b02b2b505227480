//! What the server and its caller tell each other.

use core::net::IpAddr;
use std::sync::Arc;

use crate::presentation::Presentation;
use crate::replay::Replay;
use crate::transport::{Offer, Transport};

/// A connection, as the caller calls it. No two have the same, ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A session. No two have the same, ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A question that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// What the caller is to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send this on a connection, after all that was sent on it.
    Send {
        /// Which.
        connection: ConnectionId,
        /// A response.
        bytes: Vec<u8>,
    },
    /// Close a connection when all has been sent. It is gone here already.
    Close {
        /// Which.
        connection: ConnectionId,
    },
    /// Find something out, and call [`Server::answer`](super::Server::answer).
    Ask {
        /// What to call it in the answer.
        id: QuestionId,
        /// What.
        question: Question,
    },
    /// Send a session's packets, from where its last PLAY was answered to begin.
    Start {
        /// Which.
        session: SessionId,
    },
    /// Send no packets of a session until it is started again.
    Stop {
        /// Which.
        session: SessionId,
    },
    /// Forget one track of a session.
    Release {
        /// Which.
        session: SessionId,
        /// Its number in the presentation.
        track: usize,
    },
    /// Forget a session and all of its tracks, also those that are still being set up.
    End {
        /// Which.
        session: SessionId,
    },
    /// A client has given a name and a password that do not belong together.
    WrongPassword {
        /// Its address.
        client: IpAddr,
        /// The name.
        user: String,
        /// How many wrong passwords have come from there of late.
        wrong: u32,
    },
    /// A user has asked for what that user may not watch.
    Forbidden {
        /// The client's address.
        client: IpAddr,
        /// The user.
        user: String,
        /// What was asked for.
        path: String,
        /// What the URL has after its question mark.
        query: String,
    },
    /// An RTCP packet of a client's, come on the control connection. Whether it is a sign of life
    /// ([`Server::is_alive`](super::Server::is_alive)) is told by what it says.
    Report {
        /// Of which session.
        session: SessionId,
        /// About which track.
        track: usize,
        /// As it came.
        packet: Vec<u8>,
    },
}

/// What only the caller can find out.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// What there is at a path: [`Answer::Described`].
    Describe {
        /// As in [`Target`](crate::target::Target).
        path: String,
        /// As in [`Target`](crate::target::Target).
        query: String,
        /// The user that asks, where that is known.
        user: Option<String>,
    },
    /// How a track will be sent: [`Answer::SetUp`].
    SetUp {
        /// For which session; it may be the first that is heard of it.
        session: SessionId,
        /// What it will play.
        presentation: Arc<Presentation>,
        /// The track.
        track: usize,
        /// What the client is ready for, best liked first. Channels are free ones.
        offers: Vec<Offer>,
        /// Where its packets go.
        client: IpAddr,
        /// The user, where that is known.
        user: Option<String>,
        /// The client's program, if it says so (`User-Agent`).
        agent: Option<String>,
        /// What follows the question mark in the URL.
        query: String,
        /// The largest packet that the client wants, in bytes (`Blocksize`), if it says so.
        packet_bytes_max: Option<u32>,
    },
    /// From where a stopped session will go on: [`Answer::Playing`].
    Play {
        /// Which.
        session: SessionId,
        /// From where; `None`: where it was stopped, or the beginning.
        from_ns: Option<u64>,
        /// Until where; `None`: the end.
        until_ns: Option<u64>,
        /// How many seconds to show in one; negative is backwards.
        scale: f64,
        /// How many seconds to send in one.
        speed: f64,
        /// What else a client asks for that replays a recording; `None` for others.
        replay: Option<Replay>,
    },
}

/// What the caller found out.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What there is.
    Described(Arc<Presentation>),
    /// How a track will be sent.
    SetUp {
        /// One of the offers.
        transport: Transport,
        /// The synchronization source of its packets.
        ssrc: u32,
    },
    /// From where a session will go on.
    Playing(Playing),
}

/// From where a session will go on at its [`Action::Start`].
#[derive(Clone, Debug, PartialEq)]
pub struct Playing {
    /// The position of the first packet.
    pub from_ns: u64,
    /// Until where; `None`: there is no end.
    pub until_ns: Option<u64>,
    /// The scale that it will have.
    pub scale: f64,
    /// The speed that it will have.
    pub speed: f64,
    /// Whether the server keeps time.
    pub is_paced: bool,
    /// The first packet of each track that was set up.
    pub first: Vec<FirstPacket>,
}

/// What a client needs to tell packets of one PLAY from those of the last one (RFC 2326, section 12.33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstPacket {
    /// Which track's.
    pub track: usize,
    /// Its sequence number.
    pub sequence: u16,
    /// The RTP timestamp of the position that is played from.
    pub timestamp: u32,
}
