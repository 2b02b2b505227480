//! Connections: which ones the server accepts, what clients send on them, and when they end.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

use forebay_rtsp::server::{ConnectionId, Server};
use rustix::event::epoll::EventFlags;

use crate::admission::Admission;
use crate::backlog::Backlogs;
use crate::connection::{Connection, Protocol, Received};
use crate::encryption::{Cipher, Identity};
use crate::error::{Result, to};
use crate::event_loop::Serving;
use crate::events::Events;
use crate::http::request::is_http;
use crate::log::Log;
use crate::settings::Settings;
use crate::token::Token;
use crate::{clock, status};

/// What a read from a connection takes at once.
const RECEIVE_BYTES: usize = 16 << 10;
/// Connections that one listener accepts before other events get their turn.
const ACCEPTS_MAX: usize = 64;
/// For how long no connection is accepted when there are no descriptors.
const PAUSE_NS: u64 = 1_000_000_000;
/// Reads from one connection before others get their turn.
const RECEIVE_TURNS_MAX: usize = 4;

/// A request to the status page, as far as it has been received.
#[derive(Debug)]
struct HttpRequest {
    came_ns: u64,
    bytes: Vec<u8>,
}

/// What is spoken where a listener listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Encrypted,
    Status,
}

/// All connections, and what decides whether there may be another one.
pub(crate) struct Connections {
    open: HashMap<ConnectionId, Connection>,
    /// Of those connections that are for the status page.
    http_requests: HashMap<ConnectionId, HttpRequest>,
    /// The sum over `open`.
    backlogs: Backlogs,
    pub admission: Admission,
    listeners: Vec<(TcpListener, Kind)>,
    identity: Option<Identity>,
    last_id: u64,
    /// When connections are accepted again; `None` while they are.
    paused_until_ns: Option<u64>,
}

impl Connections {
    pub fn new(listeners: Vec<(TcpListener, Kind)>, identity: Option<Identity>) -> Self {
        Self {
            open: HashMap::new(),
            http_requests: HashMap::new(),
            backlogs: Backlogs::default(),
            admission: Admission::default(),
            listeners,
            identity,
            last_id: 0,
            paused_until_ns: None,
        }
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.open.get(&id)
    }

    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.open.get_mut(&id)
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(listener, _)| listener.local_addr().ok()).collect()
    }

    pub fn backlog_bytes(&self) -> usize {
        self.backlogs.bytes()
    }

    #[cfg(test)]
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    #[cfg(test)]
    pub fn newest_id(&self) -> ConnectionId {
        ConnectionId(self.last_id)
    }

    #[cfg(test)]
    pub fn newest(&mut self) -> Option<&mut Connection> {
        self.open.get_mut(&ConnectionId(self.last_id))
    }

    /// The certificate that connections have from now on.
    pub fn set_identity(&mut self, identity: Option<Identity>) {
        self.identity = identity;
    }

    pub fn watch_listeners(&self, events: &Events) -> Result<()> {
        for (number, (listener, _)) in self.listeners.iter().enumerate() {
            events.watch(listener, Token::Listener(number)).map_err(to("epoll"))?;
        }
        Ok(())
    }

    /// Accepts connections of a listener, and tells the RTSP machine.
    fn accept(
        &mut self,
        number: usize,
        settings: &Settings,
        events: &Events,
        server: &mut Server,
        log: &mut Log,
    ) {
        for _ in 0..ACCEPTS_MAX {
            let Some((listener, kind)) = self.listeners.get(number) else { return };
            let kind = *kind;
            let now_ns = clock::now_ns();
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                    _ => {
                        let advice = "raise the limit of open files (ulimit -n), or allow fewer connections";
                        log.say(now_ns, &format!("no connection can be accepted: {error}; {advice}"));
                        return self.pause(events, now_ns);
                    }
                },
            };
            let is_full = self.open.len() >= settings.connections_max;
            let Settings { connections_per_address, connects_per_second, .. } = *settings;
            let from = from.ip().to_canonical();
            if is_full || !self.admission.admit(from, connections_per_address, connects_per_second, now_ns) {
                let why = if is_full {
                    "there are as many connections as settings and the limit of open files (ulimit -Hn) allow"
                } else {
                    "it has, or opens, too many connections"
                };
                log.say(now_ns, &format!("{from} was turned away: {why}"));
                continue;
            }
            if self.add(stream, kind, events, server, now_ns).is_none() {
                self.admission.leave(from);
            }
        }
    }

    /// Accepts no connection for a while, or until one is closed: epoll would report the same one again and again.
    fn pause(&mut self, events: &Events, now_ns: u64) {
        self.paused_until_ns = Some(now_ns + PAUSE_NS);
        self.change_listeners(events, EventFlags::empty());
    }

    /// When [`Connections::resume`] is due; `None` while connections are accepted.
    pub fn paused_until_ns(&self) -> Option<u64> {
        self.paused_until_ns
    }

    pub fn resume(&mut self, events: &Events) {
        self.paused_until_ns = None;
        self.change_listeners(events, EventFlags::IN);
    }

    fn change_listeners(&self, events: &Events, interest: EventFlags) {
        for (number, (listener, _)) in self.listeners.iter().enumerate() {
            let _ = events.change(listener, Token::Listener(number), interest);
        }
    }

    fn add(
        &mut self,
        stream: TcpStream,
        kind: Kind,
        events: &Events,
        server: &mut Server,
        now_ns: u64,
    ) -> Option<()> {
        let cipher = match (kind, &self.identity) {
            (Kind::Encrypted, Some(identity)) => Some(Cipher::new(identity)?),
            _ => None,
        };
        let connection = Connection::new(stream, cipher).ok()?;
        self.last_id += 1;
        let id = ConnectionId(self.last_id);
        events.watch(connection.stream(), Token::Connection(id.0)).ok()?;
        let (client, host) = (connection.client.ip(), connection.host.ip());
        self.open.insert(id, connection);
        if kind == Kind::Status {
            self.http_requests.insert(id, HttpRequest { came_ns: now_ns, bytes: Vec::new() });
        } else {
            server.connected(id, client, host, kind == Kind::Encrypted, now_ns);
        }
        Some(())
    }

    /// How many bytes more may be sent on a connection now; one that is gone takes everything.
    pub fn room(&self, id: ConnectionId, memory_bytes: u64) -> usize {
        self.get(id).map_or(usize::MAX, |one| self.backlogs.room(one.backlog_bytes(), memory_bytes))
    }

    /// A connection to send on, and the sum of backlogs that it has to be noted in.
    pub fn get_to_send(&mut self, id: ConnectionId) -> Option<(&mut Connection, &mut Backlogs)> {
        self.open.get_mut(&id).map(|connection| (connection, &mut self.backlogs))
    }

    /// Removes a connection that is over, and makes epoll report what is of interest on another one. Returns whether the RTSP
    /// machine has to be told that it is gone.
    fn tend(&mut self, id: ConnectionId, settings: &Settings, events: &Events) -> bool {
        let Some(connection) = self.open.get_mut(&id) else { return false };
        if connection.is_closing {
            connection.end(clock::now_ns());
        }
        if connection.is_broken {
            let (was_closing, client) = (connection.is_closing, connection.client.ip());
            if let Some(connection) = self.open.remove(&id) {
                connection.forget_backlog(&mut self.backlogs);
            }
            self.admission.leave(client);
            if self.paused_until_ns.is_some() {
                self.resume(events);
            }
            let is_http = self.http_requests.remove(&id).is_some();
            return !was_closing && !is_http;
        }
        connection.note_backlog(&mut self.backlogs);
        let backlog_bytes = connection.backlog_bytes();
        let has_room = self.backlogs.has_room(backlog_bytes, settings.memory_bytes);
        let mut interest = EventFlags::empty();
        // A client that takes no responses gets no further ones.
        interest.set(EventFlags::IN, has_room);
        interest.set(EventFlags::OUT, backlog_bytes > 0);
        if interest != connection.interest {
            connection.interest = interest;
            connection.is_broken |=
                events.change(connection.stream(), Token::Connection(id.0), interest).is_err();
        }
        false
    }

    /// Forgets addresses of the past, and gives up connections that ended before `since_ns` and those whose HTTP requests came
    /// before that and are not complete. Returns those connections, which are to be tended.
    pub fn sweep(&mut self, now_ns: u64, since_ns: u64) -> Vec<ConnectionId> {
        self.admission.sweep(now_ns);
        let mut given_up = Vec::new();
        for (id, connection) in &mut self.open {
            let came_ns = self.http_requests.get(id).map(|request| request.came_ns);
            if connection.ended_ns.or(came_ns).is_some_and(|then_ns| then_ns < since_ns) {
                connection.is_broken = true;
                given_up.push(*id);
            }
        }
        given_up
    }

    /// Accepts and receives no more; what is still to be sent is sent.
    pub fn close_all(&mut self) {
        self.listeners.clear();
        self.open.values_mut().for_each(|connection| connection.is_closing = true);
    }

    /// Whether clients have taken all that was sent.
    pub fn are_drained(&self) -> bool {
        self.open.values().all(|connection| connection.backlog_bytes() == 0)
    }
}

impl Serving {
    pub(crate) fn accept(&mut self, number: usize) {
        self.connections.accept(number, &self.settings, &self.events, &mut self.server, &mut self.log);
    }

    /// A connection can be read or written.
    pub(crate) fn serve_connection(&mut self, id: ConnectionId, flags: EventFlags) {
        if flags.contains(EventFlags::OUT)
            && let Some((connection, backlogs)) = self.connections.get_to_send(id)
        {
            connection.flush();
            connection.note_backlog(backlogs);
            self.resume_blocked(id);
            self.go_on_http(id);
        }
        let Some(connection) = self.connections.get_mut(id) else { return };
        let is_ready = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        if is_ready && !connection.is_closing {
            self.receive(id);
        } else if is_ready && flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            connection.is_broken = true;
        } else if is_ready {
            // Bytes that come after the end are of no interest, but epoll would report them for ever.
            let mut buffer = [0; RECEIVE_BYTES];
            connection.is_broken |= connection.receive(&mut buffer) == Received::End;
        }
        self.tend(id);
    }

    /// Takes in what a client sent. A cipher may hold more of it than the socket.
    fn receive(&mut self, id: ConnectionId) {
        let mut buffer = [0; RECEIVE_BYTES];
        for turn in 0.. {
            let Some(connection) = self.connections.get_mut(id).filter(|one| !one.is_closing) else {
                return;
            };
            if turn >= RECEIVE_TURNS_MAX && !connection.holds_some() {
                return;
            }
            let received = connection.receive(&mut buffer);
            // What the cipher itself answers.
            connection.flush();
            match received {
                Received::Bytes(count) => {
                    let now_ns = clock::now_ns();
                    if let Some(request) = self.connections.http_requests.get_mut(&id) {
                        request.bytes.extend_from_slice(&buffer[..count]);
                        self.answer_http(id);
                        continue;
                    }
                    self.set_date(now_ns);
                    self.received(id, &buffer[..count], now_ns);
                }
                Received::Nothing => return,
                Received::End => {
                    connection.is_broken = true;
                    return;
                }
            }
        }
    }

    /// Hands over what came on a connection, by what is spoken there.
    fn received(&mut self, id: ConnectionId, bytes: &[u8], now_ns: u64) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let mut begin = Vec::new();
        if let Protocol::Unknown(first) = &mut connection.speaks {
            first.extend_from_slice(bytes);
            begin = std::mem::take(first);
            match is_http(&begin) {
                Some(true) => {
                    connection.speaks = Protocol::Http;
                    let actions = self.server.disconnected(id);
                    self.act(actions, id);
                    self.begin_http(id);
                }
                Some(false) => connection.speaks = Protocol::Rtsp,
                None => {
                    connection.speaks = Protocol::Unknown(begin);
                    return;
                }
            }
        }
        let bytes = if begin.is_empty() { bytes } else { &begin };
        if self.web.has(id) {
            return self.http_received(id, bytes);
        }
        let actions = self.server.received(id, bytes, now_ns);
        self.act(actions, id);
    }

    fn answer_http(&mut self, id: ConnectionId) {
        let request = self.connections.http_requests.get(&id);
        let Some(response) = request.and_then(|request| status::respond(&request.bytes, self)) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(id) {
            connection.send(&response);
            connection.is_closing = true;
        }
    }

    /// Brings up to date what epoll reports of a connection; removes it if it is over.
    pub(crate) fn tend(&mut self, id: ConnectionId) {
        if self.connections.tend(id, &self.settings, &self.events) {
            let actions = self.server.disconnected(id);
            self.act(actions, id);
        }
        if self.connections.get(id).is_none() {
            self.end_http(id);
        }
    }
}
