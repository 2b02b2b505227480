//! What is known of a connection.

use core::net::IpAddr;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ConnectionId, QuestionId, SessionId};
use crate::authentication::Line;
use crate::message::Request;
use crate::presentation::Presentation;
use crate::range::Unit;
use crate::reader::{Limits, Reader};
use crate::target::Target;

pub(super) struct Connection {
    pub reader: Reader,
    pub client: IpAddr,
    pub host: IpAddr,
    pub is_encrypted: bool,
    /// When the last request came.
    pub seen_ns: u64,
    /// What the client has described to it last: it will probably set that up.
    pub described: Option<(Target, Arc<Presentation>)>,
    /// Those that were made on it.
    pub sessions: BTreeSet<SessionId>,
    /// Who is at the other end, once a password has told.
    pub user: Option<String>,
    /// A request with a password that is not looked at yet.
    pub held: Option<Box<Request>>,
    /// The request that waits for an answer.
    pub pending: Option<(QuestionId, Box<Pending>)>,
}

/// Where a response goes, what it repeats of its request, and whether the connection is closed after it.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub connection: ConnectionId,
    pub cseq: Option<u32>,
    pub timestamp: Option<String>,
    pub is_last: bool,
}

/// A request whose question has been asked.
pub(super) struct Pending {
    pub exchange: Exchange,
    pub step: Step,
}

/// What the answer is for.
pub(super) enum Step {
    /// DESCRIBE.
    Describe { target: Target, base: String, is_replay: bool },
    /// SETUP of something that has not been described on this connection.
    DescribeToSetUp { target: Target, request: Box<Request> },
    /// SETUP.
    SetUp { session: SessionId, track: usize, url: String },
    /// PLAY.
    Play(Play),
}

/// What the response to a PLAY depends on.
pub(super) struct Play {
    pub session: SessionId,
    /// What the client counts positions in.
    pub unit: Unit,
    pub was_playing: bool,
    pub has_scale: bool,
    pub has_speed: bool,
    pub is_replay: bool,
}

impl Connection {
    pub fn new(limits: Limits, client: IpAddr, host: IpAddr, is_encrypted: bool, now_ns: u64) -> Self {
        Self {
            reader: Reader::new(limits),
            client: client.to_canonical(),
            host,
            is_encrypted,
            seen_ns: now_ns,
            described: None,
            sessions: BTreeSet::new(),
            user: None,
            held: None,
            pending: None,
        }
    }

    pub fn line(&self, id: ConnectionId) -> Line {
        Line { connection: id.0, is_encrypted: self.is_encrypted }
    }
}

impl Exchange {
    pub fn of(connection: ConnectionId, request: &Request) -> Self {
        let is_close = |value: &str| value.eq_ignore_ascii_case("close");
        Self {
            connection,
            cseq: request.cseq(),
            timestamp: request.headers.get("Timestamp").map(str::to_owned),
            is_last: request.headers.get("Connection").is_some_and(is_close),
        }
    }
}
