//! The server: connections and sessions of all clients as one state machine. Bytes and answers come in, [`Action`]s go out.
//!
//! # Model
//!
//! A *session* is created by its first SETUP, and belongs to one presentation and one client address. It is not bound to the
//! connection that it was made on, unless its packets are sent there (RFC 2326, section 3 and appendix A.2).
//!
//! ```text
//!            SETUP            PLAY
//!   no session ---> Ready -----------> Playing
//!        ^          |  ^                |  |
//!        | TEARDOWN |  | PAUSE, its end |  | PLAY: from elsewhere
//!        +----------+  +----------------+--+
//!        +------------------------------+ TEARDOWN, no sign of life
//! ```
//!
//! What takes time is a [`Question`]: the connection's next request waits for the [`Answer`], so that responses keep their
//! order. Every question has to be answered, be it with a status.
//!
//! # Departures from RFC 2326
//!
//! A PLAY while playing takes effect at once, as in its successor (RFC 7826, section 13.4) and in all servers, instead of
//! after the present one. A PAUSE does so too, and not at a position to come. A session whose packets are sent on its
//! connection lives as long as that, while it plays: many clients send no other sign of life.

mod actions;
mod answers;
mod connection;
mod guessing;
mod http;
mod requests;
mod session;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::authentication::{Guard, Users};
use crate::key::Key;
use crate::message::{Response, Status};
use crate::range::SECOND_NS;
use crate::reader::{Limits, Received};
pub use actions::{Action, Answer, ConnectionId, FirstPacket, Playing, Question, QuestionId, SessionId};
use connection::{Connection, Exchange, Pending, Step};
pub use guessing::Guesses;
pub use http::{Admitted, Purpose};
use session::Session;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Config {
    /// What a message may be like.
    pub limits: Limits,
    /// How much a client may send while it waits for a response, in bytes. More than a message may have.
    pub ahead_bytes_max: usize,
    /// How many sessions there may be.
    pub sessions_max: usize,
    /// After how long without a sign of life a session ends, in nanoseconds, and in whole seconds for clients.
    pub session_timeout_ns: u64,
    /// After how long without a request a connection without a session is closed, in nanoseconds.
    pub idle_timeout_ns: u64,
    /// What makes session identifiers.
    pub key: Key,
    /// The `Server` field.
    pub name: String,
}

impl Config {
    /// What does for most.
    pub fn new(key: Key) -> Self {
        Self {
            limits: Limits::default(),
            ahead_bytes_max: 64 << 10,
            sessions_max: 10_000,
            session_timeout_ns: 60 * SECOND_NS,
            idle_timeout_ns: 60 * SECOND_NS,
            key,
            name: concat!("Forebay/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// All connections and sessions.
pub struct Server {
    config: Config,
    guard: Option<(Guard, Box<dyn Users + Send>)>,
    date: Option<String>,
    connections: HashMap<ConnectionId, Connection>,
    sessions: HashMap<SessionId, Session>,
    /// By what clients call them.
    names: HashMap<String, SessionId>,
    /// Which connection waits for which answer.
    questions: BTreeMap<QuestionId, ConnectionId>,
    timers: BTreeSet<(u64, Timer)>,
    guesses: Guesses,
    last_session: u64,
    last_question: u64,
    actions: Vec<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Connection(ConnectionId),
    Session(SessionId),
    /// A request is looked at that was kept back.
    Held(ConnectionId),
}

impl Server {
    /// One without connections. Without a guard everybody may watch everything.
    pub fn new(config: Config, guard: Option<(Guard, Box<dyn Users + Send>)>) -> Self {
        Self {
            config,
            guard,
            date: None,
            connections: HashMap::new(),
            sessions: HashMap::new(),
            names: HashMap::new(),
            questions: BTreeMap::new(),
            timers: BTreeSet::new(),
            guesses: Guesses::default(),
            last_session: 0,
            last_question: 0,
            actions: Vec::new(),
        }
    }

    /// What holds from now on; connections that there are keep their limits.
    pub fn configure(&mut self, config: Config, guard: Option<(Guard, Box<dyn Users + Send>)>) {
        self.config = config;
        self.guard = guard;
    }

    /// What the `Date` field says from now on.
    pub fn set_date(&mut self, date: String) {
        self.date = Some(date);
    }

    /// A client has connected, from one address to another. An IPv4 address in IPv6 counts as IPv4.
    pub fn connected(
        &mut self,
        id: ConnectionId,
        client: IpAddr,
        host: IpAddr,
        is_encrypted: bool,
        now_ns: u64,
    ) {
        let connection = Connection::new(self.config.limits, client, host, is_encrypted, now_ns);
        self.connections.insert(id, connection);
        self.timers.insert((now_ns.saturating_add(self.config.idle_timeout_ns), Timer::Connection(id)));
    }

    /// A connection is gone.
    #[must_use]
    pub fn disconnected(&mut self, id: ConnectionId) -> Vec<Action> {
        self.forget_connection(id);
        std::mem::take(&mut self.actions)
    }

    /// Bytes have come on a connection.
    #[must_use]
    pub fn received(&mut self, id: ConnectionId, bytes: &[u8], now_ns: u64) -> Vec<Action> {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.reader.push(bytes);
            self.go_on(id, now_ns);
        }
        std::mem::take(&mut self.actions)
    }

    /// A question is answered: `Err` is the status of the response. Answers that no request waits for are ignored.
    #[must_use]
    pub fn answer(&mut self, id: QuestionId, answer: Result<Answer, Status>, now_ns: u64) -> Vec<Action> {
        if let Some(connection) = self.questions.remove(&id) {
            self.answered(connection, answer, now_ns);
            self.go_on(connection, now_ns);
        }
        std::mem::take(&mut self.actions)
    }

    /// A session's client has given a sign of life beside its requests: an RTCP packet that is no goodbye.
    pub fn is_alive(&mut self, id: SessionId, now_ns: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.seen_ns = now_ns;
        }
    }

    /// A session has been played to its end. It can be played again.
    pub fn has_played(&mut self, id: SessionId, now_ns: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.is_playing = false;
            // A client that receives packets on a connection need not have sent anything meanwhile.
            if session.carrier().is_some() {
                session.seen_ns = now_ns;
            }
        }
    }

    /// A session is to end, because its file is gone, or the server.
    #[must_use]
    pub fn end(&mut self, id: SessionId) -> Vec<Action> {
        self.end_session(id);
        std::mem::take(&mut self.actions)
    }

    /// When to call [`Server::elapsed`] next.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.timers.first().map(|(deadline_ns, _)| *deadline_ns)
    }

    /// Time has passed.
    #[must_use]
    pub fn elapsed(&mut self, now_ns: u64) -> Vec<Action> {
        while let Some(&(deadline_ns, timer)) = self.timers.first()
            && deadline_ns <= now_ns
        {
            self.timers.pop_first();
            let due_ns = match timer {
                Timer::Connection(id) => self.connection_due_ns(id, now_ns),
                Timer::Session(id) => self.session_due_ns(id, now_ns),
                Timer::Held(id) => {
                    self.release_held(id, now_ns);
                    None
                }
            };
            match (due_ns, timer) {
                (Some(due_ns), _) if due_ns > now_ns => _ = self.timers.insert((due_ns, timer)),
                (Some(_), Timer::Connection(id)) => self.close(id),
                (Some(_), Timer::Session(id)) => self.end_session(id),
                (Some(_), Timer::Held(_)) => {}
                // It is gone already.
                (None, _) => {}
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// When a connection is to be closed, as things stand.
    fn connection_due_ns(&self, id: ConnectionId, now_ns: u64) -> Option<u64> {
        let connection = self.connections.get(&id)?;
        let is_in_use =
            connection.pending.is_some() || connection.held.is_some() || !connection.sessions.is_empty();
        let since_ns = if is_in_use { now_ns } else { connection.seen_ns };
        Some(since_ns.saturating_add(self.config.idle_timeout_ns))
    }

    /// When a session is to end, as things stand.
    fn session_due_ns(&self, id: SessionId, now_ns: u64) -> Option<u64> {
        let session = self.sessions.get(&id)?;
        let is_watched = session.is_busy || (session.is_playing && session.carrier().is_some());
        let since_ns = if is_watched { now_ns } else { session.seen_ns };
        Some(since_ns.saturating_add(self.config.session_timeout_ns))
    }

    /// Reads on where a connection is not waiting for an answer.
    fn go_on(&mut self, id: ConnectionId, now_ns: u64) {
        while let Some(connection) = self.connections.get_mut(&id)
            && connection.pending.is_none()
            && connection.held.is_none()
        {
            match connection.reader.next() {
                Some(Ok(Received::Request(request))) => {
                    connection.seen_ns = now_ns;
                    self.request(id, request, now_ns);
                }
                Some(Ok(Received::Frame { channel, packet })) => self.frame(id, channel, packet),
                Some(Err(malformed)) => {
                    let is_last = malformed.is_fatal;
                    let exchange =
                        Exchange { connection: id, cseq: malformed.cseq, timestamp: None, is_last };
                    self.respond(&exchange, Response::new(malformed.status));
                }
                None => break,
            }
        }
        let is_too_far =
            |connection: &Connection| connection.reader.pending_bytes() > self.config.ahead_bytes_max;
        if self.connections.get(&id).is_some_and(is_too_far) {
            self.close(id);
        }
    }

    /// A packet on the control connection. Reports only are of interest: clients do not send media.
    fn frame(&mut self, id: ConnectionId, channel: u8, packet: Vec<u8>) {
        let sessions = self.connections.get(&id).map(|connection| &connection.sessions);
        let of_channel =
            |session: &SessionId| Some((*session, self.sessions.get(session)?.reported_on(id, channel)?));
        if let Some((session, track)) = sessions.into_iter().flatten().find_map(of_channel) {
            self.actions.push(Action::Report { session, track, packet });
        }
    }

    /// The response to a request, with the fields that all have.
    fn respond(&mut self, exchange: &Exchange, response: Response) {
        let mut all = Response::new(response.status);
        let cseq = exchange.cseq.map(|cseq| cseq.to_string());
        let fields = [
            ("CSeq", cseq.as_ref()),
            ("Server", Some(&self.config.name)),
            ("Date", self.date.as_ref()),
            ("Timestamp", exchange.timestamp.as_ref()),
        ];
        for (name, value) in fields {
            value.into_iter().for_each(|value| all.headers.push(name, value));
        }
        all.headers.append(response.headers);
        all.body = response.body;
        self.actions.push(Action::Send { connection: exchange.connection, bytes: all.to_bytes() });
        if exchange.is_last {
            self.close(exchange.connection);
        }
    }

    fn ask(&mut self, exchange: &Exchange, step: Step, question: Question) {
        let Some(connection) = self.connections.get_mut(&exchange.connection) else { return };
        self.last_question += 1;
        let question_id = QuestionId(self.last_question);
        connection.pending = Some((question_id, Box::new(Pending { exchange: exchange.clone(), step })));
        self.questions.insert(question_id, exchange.connection);
        self.actions.push(Action::Ask { id: question_id, question });
    }

    /// From our side.
    fn close(&mut self, id: ConnectionId) {
        if self.connections.contains_key(&id) {
            self.actions.push(Action::Close { connection: id });
            self.forget_connection(id);
        }
    }

    fn forget_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        for session in connection.sessions {
            if self.sessions.get(&session).is_some_and(|session| session.carrier() == Some(id)) {
                self.end_session(session);
            }
        }
        if let Some((question, pending)) = connection.pending {
            self.questions.remove(&question);
            self.abandon(*pending);
        }
    }

    fn end_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.names.remove(&session.name);
        if let Some(connection) = self.connections.get_mut(&session.made_on) {
            connection.sessions.remove(&id);
        }
        self.actions.push(Action::End { session: id });
    }
}
