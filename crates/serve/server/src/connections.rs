//! Connections: who is let in, what they say, and when they are over.

use std::io::ErrorKind;
use std::net::TcpStream;

use forebay_rtsp::server::ConnectionId;
use rustix::event::epoll;

use crate::connection::{Connection, Received};
use crate::encryption::Cipher;
use crate::event_loop::Serving;
use crate::settings::Settings;
use crate::token::Token;
use crate::{clock, status};

/// What a read from a connection takes at once.
const RECEIVE_BYTES: usize = 16 << 10;
/// Clients that are let in before something else gets its turn.
const TURN_MAX: usize = 64;
/// How often reports are heard, and how many at a time from one socket: all that ten thousand clients send, and half a
/// millisecond of what others do.
pub(crate) const HEAR_NS: u64 = 50_000_000;
const REPORTS_MAX: usize = 1024;
/// What a report may have.
const REPORT_BYTES: usize = 1500;
/// For how long nobody is let in when there are no descriptors.
const REST_NS: u64 = 1_000_000_000;
/// Reads from one connection before others get their turn.
const RECEIVE_TURNS_MAX: usize = 4;

/// Somebody at the status page's port.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub came_ns: u64,
    pub request: Vec<u8>,
}

/// What is spoken where a listener listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Encrypted,
    Status,
}

impl Serving {
    pub(crate) fn accept(&mut self, number: usize) {
        for _ in 0..TURN_MAX {
            let Some((listener, kind)) = self.listeners.get(number) else { return };
            let kind = *kind;
            let now_ns = clock::now_ns();
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                    _ => return self.rest(&error, now_ns),
                },
            };
            let is_full = self.connections.len() >= self.settings.connections_max;
            let Settings { connections_per_address, connects_per_second, .. } = self.settings;
            let from = from.ip().to_canonical();
            if is_full || !self.admission.admit(from, connections_per_address, connects_per_second, now_ns) {
                let why = if is_full {
                    "there are as many connections as settings and the limit of open files (ulimit -Hn) allow"
                } else {
                    "too many come from there"
                };
                self.log.say(now_ns, &format!("{from} was turned away: {why}"));
                continue;
            }
            if self.let_in(stream, kind, now_ns).is_none() {
                self.admission.leave(from);
            }
        }
    }

    /// Lets nobody in for a while, or until something is closed: who cannot be let in now would be told of again and again.
    fn rest(&mut self, error: &std::io::Error, now_ns: u64) {
        let advice = "raise the limit of open files (ulimit -n), or allow fewer connections";
        self.log.say(now_ns, &format!("clients wait, nobody can be let in: {error}; {advice}"));
        self.rested_ns = Some(now_ns + REST_NS);
        self.watch_listeners(epoll::EventFlags::empty());
    }

    pub(crate) fn let_in_again(&mut self) {
        self.rested_ns = None;
        self.watch_listeners(epoll::EventFlags::IN);
    }

    fn watch_listeners(&self, interest: epoll::EventFlags) {
        for (number, (listener, _)) in self.listeners.iter().enumerate() {
            let _ = epoll::modify(&self.epoll, listener, Token::Listener(number).to_data(), interest);
        }
    }

    fn let_in(&mut self, stream: TcpStream, kind: Kind, now_ns: u64) -> Option<()> {
        let cipher = match (kind, &self.identity) {
            (Kind::Encrypted, Some(identity)) => Some(Cipher::new(identity)?),
            _ => None,
        };
        let connection = Connection::new(stream, cipher).ok()?;
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        let token = Token::Connection(id.0).to_data();
        epoll::add(&self.epoll, connection.stream(), token, epoll::EventFlags::IN).ok()?;
        let (client, host) = (connection.client.ip(), connection.host.ip());
        self.connections.insert(id, connection);
        if kind == Kind::Status {
            self.http_requests.insert(id, HttpRequest { came_ns: now_ns, request: Vec::new() });
        } else {
            self.server.connected(id, client, host, kind == Kind::Encrypted, now_ns);
        }
        Some(())
    }

    /// A connection can be read or written.
    pub(crate) fn converse(&mut self, id: ConnectionId, flags: epoll::EventFlags) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if flags.contains(epoll::EventFlags::OUT) {
            connection.flush();
        }
        let is_ready =
            flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        if is_ready && !connection.is_closing {
            self.listen_to(id);
        } else if is_ready && flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            connection.is_broken = true;
        } else if is_ready {
            // What comes after the end is of no interest, but would wake this thread for ever.
            let mut buffer = [0; RECEIVE_BYTES];
            connection.is_broken |= connection.receive(&mut buffer) == Received::End;
        }
        self.tend(id);
    }

    /// Takes in what a client says. There may be more of it in a cipher than in the socket.
    fn listen_to(&mut self, id: ConnectionId) {
        let mut buffer = [0; RECEIVE_BYTES];
        for turn in 0.. {
            let Some(connection) = self.connections.get_mut(&id).filter(|one| !one.is_closing) else {
                return;
            };
            if turn >= RECEIVE_TURNS_MAX && !connection.holds_some() {
                return;
            }
            let received = connection.receive(&mut buffer);
            // What a cipher has to say of its own.
            connection.flush();
            match received {
                Received::Bytes(count) => {
                    let now_ns = clock::now_ns();
                    if let Some(http_request) = self.http_requests.get_mut(&id) {
                        http_request.request.extend_from_slice(&buffer[..count]);
                        self.answer_http(id);
                        continue;
                    }
                    self.set_date(now_ns);
                    let actions = self.server.received(id, &buffer[..count], now_ns);
                    self.act(actions, id);
                }
                Received::Nothing => return,
                Received::End => {
                    connection.is_broken = true;
                    return;
                }
            }
        }
    }

    fn answer_http(&mut self, id: ConnectionId) {
        let Some(response) = self.http_requests.get(&id).and_then(|one| status::respond(&one.request, self))
        else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.send(&response);
            connection.is_closing = true;
        }
    }

    /// Closes a connection that is over, and has epoll tell what is of interest on another one.
    pub(crate) fn tend(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_over() {
            let (was_closing, client) = (connection.is_closing, connection.client.ip());
            if let Some(connection) = self.connections.remove(&id) {
                connection.forget_backlog(&mut self.backlogs);
            }
            self.admission.leave(client);
            if self.rested_ns.is_some() {
                self.let_in_again();
            }
            let is_http = self.http_requests.remove(&id).is_some();
            if !was_closing && !is_http {
                let actions = self.server.disconnected(id);
                self.act(actions, id);
            }
            return;
        }
        connection.note_backlog(&mut self.backlogs);
        let backlog_bytes = connection.backlog_bytes();
        let has_room = self.backlogs.has_room(backlog_bytes, self.settings.memory_bytes);
        let mut interest = epoll::EventFlags::empty();
        // Who takes no responses gets no further ones.
        interest.set(epoll::EventFlags::IN, has_room);
        interest.set(epoll::EventFlags::OUT, backlog_bytes > 0);
        if interest != connection.interest {
            connection.interest = interest;
            let token = Token::Connection(id.0).to_data();
            connection.is_broken |= epoll::modify(&self.epoll, connection.stream(), token, interest).is_err();
        }
    }

    /// Hears reports, which wait in their sockets meanwhile: none of them is in a hurry. So whoever sends to those sockets wakes
    /// nobody, however much it is.
    pub(crate) fn hear_reports(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
        let mut buffer = [0; REPORT_BYTES];
        for number in 0..self.datagrams.pairs().len() {
            for _ in 0..REPORTS_MAX {
                let Ok((count, from)) = self.datagrams.pair(number).rtcp.recv_from(&mut buffer) else {
                    break;
                };
                if let Some(session) = self.reporters.get(&from).copied() {
                    self.hear(session, &buffer[..count]);
                }
            }
        }
    }
}
