//! HTTP on the ports of RTSP: a list of what can be played, pages that play it, and the playlists and segments that these need.
//!
//! # Model
//!
//! The first bytes of a connection tell HTTP from RTSP. A connection has one request at a time. What takes reads is done by other
//! threads: opening a file, a walk through the folder, a look at a film, filling a buffer. Users, their paths and their passwords
//! are those of RTSP. A segment takes its buffers from the same memory as RTSP sessions, and has a share of it while it is sent.
//!
//! ```text
//!   bytes --> request --> route --> list, page, playlist ----------------------> body ----> bytes
//!                           |  file opened, film looked at                         ^
//!                           +----------------------------> download: buffer, buffer
//! ```

mod answers;
#[cfg(test)]
mod any_request;
mod download;
mod films;
pub(crate) mod listing;
pub(crate) mod lookups;
mod pages;
mod ranges;
pub(crate) mod request;
pub(crate) mod response;
mod route;
mod told;
mod tunnel;
pub(crate) mod web_socket;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use forebay_rtsp::authentication::claimed_user;
use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::server::{Admitted, ConnectionId, Purpose, QuestionId};

use self::download::Download;
use self::films::Films;
use self::listing::Listing;
use self::request::{HEAD_BYTES_MAX, Malformed, Received};
use self::response::Response;
use self::route::Route;
use self::told::Told;
use self::tunnel::{Cookie, Decoder};
use self::web_socket::Frames;
use crate::clock;
use crate::event_loop::Serving;
use crate::readers::{Destination, Filling, Reading};

/// How long a client may take for a request, or for what it was sent, without any progress.
const PATIENCE_NS: u64 = 60 * SECOND_NS;
/// How long it may take to find out what is answered: a large file is read from end to end for that.
const ASKING_NS: u64 = 600 * SECOND_NS;
/// The part of the memory for buffers that bodies of lists and playlists may have beside it.
const BODIES_PARTS: u64 = 8;
/// When a client that finds no room may try again, in seconds.
const RETRY_S: u64 = 5;
/// How long a buffer of a segment may take before others are more urgent.
const FILL_NS: u64 = 100_000_000;

/// All connections that speak HTTP, and what they have asked for.
#[derive(Default)]
pub(crate) struct Web {
    connections: HashMap<ConnectionId, Talk>,
    /// The connections of RTSP within HTTP, by their cookies.
    tunnels: HashMap<Cookie, ConnectionId>,
    /// Connections that wait for a file to be opened.
    questions: HashMap<QuestionId, ConnectionId>,
    films: Films,
    listing: Option<(Arc<Listing>, u64)>,
    /// Connections that wait for the list.
    list_waiters: Vec<ConnectionId>,
    /// Connections whose buffers are being filled.
    fillings: HashMap<u64, ConnectionId>,
    /// Connections whose segments wait for memory.
    without_memory: VecDeque<ConnectionId>,
    last_filling: u64,
    /// Of bodies that are being sent.
    body_bytes: usize,
}

/// One connection.
struct Talk {
    /// What has come and is not used.
    bytes: Vec<u8>,
    /// What is still to come of a body that nobody reads.
    skip: u64,
    /// When something was last received or sent.
    progress_ns: u64,
    state: State,
    /// What the access log will say of the request, if there is one.
    told: Option<Box<Told>>,
}

enum State {
    /// A request is awaited.
    Idle,
    /// Something has to be found out for a request.
    Asking(Box<Asked>),
    Body {
        bytes: Vec<u8>,
        at: usize,
        keeps_alive: bool,
    },
    Segment(Box<Download>, Box<Asked>),
    /// RTSP is spoken on it, and its requests come on others.
    TunnelOut {
        cookie: Cookie,
    },
    /// Requests of RTSP come on it, for another one.
    TunnelIn {
        out: ConnectionId,
        decoder: Decoder,
    },
    /// RTSP is spoken on it, in frames.
    WebSocket(Frames),
}

/// A request that has been let in.
#[derive(Clone)]
struct Asked {
    received: Received,
    route: Route,
    user: Option<String>,
    /// Until when it waits for what is recorded next, if it does.
    waits_until_ns: Option<u64>,
}

impl Talk {
    fn skip_body(&mut self) {
        let bytes = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes.drain(..bytes);
        self.skip -= bytes as u64;
    }
}

impl Web {
    /// Whether a connection speaks HTTP.
    pub fn has(&self, id: ConnectionId) -> bool {
        self.connections.contains_key(&id)
    }

    /// When something is to be done next.
    pub fn due_ns(&self) -> Option<u64> {
        self.films.due_ns()
    }

    /// Forgets what is not used, and returns connections whose clients make no progress.
    pub fn sweep(&mut self, now_ns: u64) -> Vec<ConnectionId> {
        self.films.sweep(now_ns);
        let is_stuck = |talk: &Talk| {
            let is_ours = match &talk.state {
                State::Asking(_) | State::TunnelOut { .. } | State::WebSocket(_) => true,
                State::TunnelIn { out, .. } => self.connections.contains_key(out),
                State::Idle | State::Body { .. } | State::Segment(..) => false,
            };
            !is_ours && now_ns.saturating_sub(talk.progress_ns) > PATIENCE_NS
        };
        self.connections.iter().filter(|(_, talk)| is_stuck(talk)).map(|(id, _)| *id).collect()
    }

    /// Connections whose clients have waited for an answer for too long.
    fn overdue(&self, now_ns: u64) -> Vec<ConnectionId> {
        let is_overdue = |talk: &Talk| {
            matches!(talk.state, State::Asking(_)) && now_ns.saturating_sub(talk.progress_ns) > ASKING_NS
        };
        self.connections.iter().filter(|(_, talk)| is_overdue(talk)).map(|(id, _)| *id).collect()
    }
}

impl Serving {
    /// A connection speaks HTTP from now on.
    pub(crate) fn begin_http(&mut self, id: ConnectionId) {
        let progress_ns = clock::now_ns();
        let talk = Talk { bytes: Vec::new(), skip: 0, progress_ns, state: State::Idle, told: None };
        self.web.connections.insert(id, talk);
    }

    /// A connection that spoke HTTP is gone.
    pub(crate) fn end_http(&mut self, id: ConnectionId) {
        self.end_line(id);
        let Some(talk) = self.web.connections.remove(&id) else { return };
        match talk.state {
            State::Segment(download, _) => self.end_download(*download),
            State::Body { bytes, .. } => self.web.body_bytes -= bytes.len(),
            State::TunnelOut { cookie } => _ = self.web.tunnels.remove(&cookie),
            State::Asking(_) | State::Idle | State::TunnelIn { .. } | State::WebSocket(_) => {}
        }
    }

    /// Bytes have come on a connection that speaks HTTP.
    pub(crate) fn http_received(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(talk) = self.web.connections.get_mut(&id) else { return };
        match talk.state {
            // Nothing is said there.
            State::TunnelOut { .. } => return,
            State::TunnelIn { .. } => return self.tunnel_received(id, bytes),
            State::WebSocket(_) => return self.web_socket_received(id, bytes),
            _ => {}
        }
        talk.bytes.extend_from_slice(bytes);
        talk.skip_body();
        if matches!(talk.state, State::Idle) {
            talk.progress_ns = clock::now_ns();
        }
        // A client that goes on sending while it waits for a response gets none.
        if talk.bytes.len() > 2 * HEAD_BYTES_MAX {
            self.break_off(id);
        } else {
            self.go_on_http(id);
        }
    }

    /// Forgets what was found out before folders and users changed, and breaks off segments that may not be watched any more.
    pub(crate) fn forget_web(&mut self) {
        let waiting = self.web.films.take_waiting();
        (self.web.films, self.web.listing) = (Films::default(), None);
        self.serve_again(waiting);
        let is_over = |talk: &Talk| match &talk.state {
            State::Segment(download, asked) => !self.may_go_on(asked.user.as_deref(), &download.opened),
            _ => false,
        };
        let over = self.web.connections.iter().filter(|(_, talk)| is_over(talk));
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.break_off(id);
            self.tend(id);
        }
    }

    pub(crate) fn break_off(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.is_broken = true;
        }
    }

    /// Goes on sending what is to be sent, and takes requests that wait.
    pub(crate) fn go_on_http(&mut self, id: ConnectionId) {
        loop {
            let Some(talk) = self.web.connections.get_mut(&id) else { return };
            let Some(connection) = self.connections.get_mut(id) else { return };
            if connection.is_broken || connection.is_closing || connection.backlog_bytes() > 0 {
                return;
            }
            let keeps_alive = match &mut talk.state {
                State::Asking(_) | State::TunnelOut { .. } | State::TunnelIn { .. } | State::WebSocket(_) => {
                    return;
                }
                State::Idle => match self.take_request(id) {
                    true => continue,
                    false => return,
                },
                State::Body { bytes, at, keeps_alive } => {
                    const AT_ONCE: usize = 64 << 10;
                    let end = bytes.len().min(*at + AT_ONCE);
                    connection.send(&bytes[*at..end]);
                    (*at, talk.progress_ns) = (end, clock::now_ns());
                    if end < bytes.len() {
                        continue;
                    }
                    self.web.body_bytes -= bytes.len();
                    *keeps_alive
                }
                State::Segment(download, asked) => {
                    let keeps_alive = asked.received.keeps_alive && download.tells_its_end();
                    let (has_sent, parts) = download.send(connection);
                    let (status, sent_bytes) = (download.status(), download.sent_bytes);
                    if has_sent {
                        talk.progress_ns = clock::now_ns();
                    }
                    let is_over = download.is_over();
                    self.buffers.take_back(parts);
                    if has_sent {
                        self.answered(id, status, sent_bytes);
                    }
                    if !is_over {
                        return self.want_buffer(id);
                    }
                    if let Some(talk) = self.web.connections.get_mut(&id)
                        && let State::Segment(download, _) = std::mem::replace(&mut talk.state, State::Idle)
                    {
                        self.end_download(*download);
                    }
                    keeps_alive
                }
            };
            self.end_line(id);
            let Some(talk) = self.web.connections.get_mut(&id) else { return };
            talk.state = State::Idle;
            if !keeps_alive {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.is_closing = true;
                }
                return;
            }
        }
    }

    /// Takes the next request; returns whether there is one.
    fn take_request(&mut self, id: ConnectionId) -> bool {
        let Some(talk) = self.web.connections.get_mut(&id) else { return false };
        let received = match Received::parse(&talk.bytes) {
            Ok(None) => return false,
            Ok(Some(mut received)) => {
                talk.bytes.drain(..received.head_bytes);
                talk.bytes.shrink_to(HEAD_BYTES_MAX);
                // A tunnel is no response to one request.
                let client = self.connections.get(id).map(|connection| connection.client.ip());
                if let Some(cookie) = client.and_then(|client| received.cookie(client)) {
                    self.begin_tunnel(id, &received, cookie);
                    return true;
                }
                // So no two readers disagree where the next request begins.
                match self.web.connections.get_mut(&id).zip(received.body_bytes()) {
                    Some((_, 0)) => Ok(received),
                    _ if received.is_for_content() => Err(Malformed::HasBody),
                    Some((talk, bytes)) => {
                        talk.skip = bytes;
                        talk.skip_body();
                        Ok(received)
                    }
                    None => {
                        received.keeps_alive = false;
                        Ok(received)
                    }
                }
            }
            Err(malformed) => Err(malformed),
        };
        match received {
            Ok(received) if received.wants_web_socket() => self.begin_web_socket(id, &received),
            Ok(received) => self.request(id, received),
            Err(malformed) => {
                self.send_response(id, &Response::to_malformed(malformed), false, false);
            }
        }
        true
    }

    fn request(&mut self, id: ConnectionId, received: Received) {
        self.begin_line(id, &received);
        let Some(connection) = self.connections.get(id) else { return };
        let (client, is_encrypted) = (connection.client.ip(), connection.is_encrypted());
        if let Some(response) = Response::to_method(received.request.method.as_str()) {
            return self.respond(id, &received, &response);
        }
        if self.cameras.is_some() {
            let response = Response::refusal(404, "the server has cameras, which are watched over RTSP");
            return self.respond(id, &received, &response);
        }
        let Some(route) = Route::of(&received.request.url) else {
            return self.respond(id, &received, &Response::refusal(404, "there is no such page"));
        };
        // Pages without names of files are for everybody, so that a browser asks for a password once.
        if let Route::Asset(name) = &route {
            return self.respond(id, &received, &pages::asset(name));
        }
        let purpose = match &route {
            Route::Film { path, .. } => Purpose::Film(path),
            Route::List { signs_in: true, .. } | Route::Asset(_) => Purpose::SignIn,
            Route::List { folder, .. } => Purpose::List(folder),
        };
        let now_ns = clock::now_ns();
        let (admitted, actions) = self.server.admit(&received.request, purpose, client, is_encrypted, now_ns);
        self.act(actions, id);
        match admitted {
            Admitted::As(user) => {
                self.name_in_line(id, user.as_deref());
                self.serve_route(id, Asked { received, route, user, waits_until_ns: None });
            }
            Admitted::Forbidden => {
                self.name_in_line(id, claimed_user(&received.request).as_deref());
                self.respond(id, &received, &Response::refusal(403, "this user may not watch it"));
            }
            Admitted::Challenged(challenges) => {
                let response = Response::refusal(401, "a user's name and password are wanted");
                let response = challenges
                    .into_iter()
                    .fold(response, |response, challenge| response.with("WWW-Authenticate", challenge));
                self.respond(id, &received, &response);
            }
            Admitted::Later(seconds) => {
                let sentence = "too many wrong passwords have come from this address: try again later";
                let response = Response::refusal(429, sentence).with("Retry-After", seconds);
                self.respond(id, &received, &response);
            }
        }
    }

    /// Has another buffer of a segment filled, if it wants one and there is memory.
    fn want_buffer(&mut self, id: ConnectionId) {
        let buffers = self.settings.buffers;
        let Some(Talk { state: State::Segment(download, _), .. }) = self.web.connections.get_mut(&id) else {
            return;
        };
        if !download.wants_buffer(buffers) {
            return;
        }
        let Some(buffer) = self.buffers.lend(&mut download.rest) else {
            download.is_waiting = true;
            self.web.without_memory.push_back(id);
            return;
        };
        self.web.last_filling += 1;
        let number = self.web.last_filling;
        download.begin_filling(number);
        self.web.fillings.insert(number, id);
        self.buffers.fill(Filling {
            destination: Destination::Download(number),
            buffer,
            opened: download.opened.clone(),
            deadline_ns: clock::now_ns() + FILL_NS,
            result: Ok(Reading::default()),
        });
    }

    /// Segments that wait for memory get some, if there is any.
    pub(crate) fn feed_downloads(&mut self) {
        for _ in 0..self.web.without_memory.len() {
            let Some(id) = self.web.without_memory.pop_front() else { return };
            if let Some(Talk { state: State::Segment(download, _), .. }) = self.web.connections.get_mut(&id) {
                download.is_waiting = false;
                self.want_buffer(id);
            }
        }
        self.buffers.hand_over(&self.readers);
    }

    /// A buffer of a segment has been filled, or has not.
    pub(crate) fn filled_for_http(&mut self, number: u64, mut filling: Filling) {
        let result = std::mem::replace(&mut filling.result, Ok(Reading::default()));
        let id = self.web.fillings.remove(&number);
        let talk = id.and_then(|id| self.web.connections.get_mut(&id));
        let (Some(id), Some(Talk { state: State::Segment(download, asked), .. })) = (id, talk) else {
            return self.buffers.reclaim_filled(filling);
        };
        if download.filling != Some(number) {
            return self.buffers.reclaim_filled(filling);
        }
        if let Err(sentence) = result {
            let (received, is_head_sent) = (asked.received.clone(), download.is_head_sent);
            self.buffers.reclaim_filled(filling);
            self.log.say(clock::now_ns(), &sentence);
            if is_head_sent {
                // The client sees that the rest is missing.
                self.break_off(id);
            } else {
                self.drop_download(id);
                self.respond(id, &received, &Response::refusal(500, "the file cannot be read any more"));
            }
            return self.tend(id);
        }
        let unused = download.put_filled(filling.buffer.into_parts());
        self.buffers.take_back(unused);
        match download.measured() {
            None => {}
            Some(Ok(())) => return self.want_buffer(id),
            Some(Err(length)) => {
                let received = asked.received.clone();
                self.drop_download(id);
                self.respond(id, &received, &Response::unsatisfiable(length));
                self.go_on_http(id);
                return self.tend(id);
            }
        }
        if !std::mem::replace(&mut download.is_head_sent, true) {
            let head = download.head(asked.received.keeps_alive);
            if let Some(connection) = self.connections.get_mut(id) {
                connection.send(head.as_bytes());
            }
        }
        self.want_buffer(id);
        self.go_on_http(id);
        self.tend(id);
    }

    fn drop_download(&mut self, id: ConnectionId) {
        let Some(talk) = self.web.connections.get_mut(&id) else { return };
        if let State::Segment(download, _) = std::mem::replace(&mut talk.state, State::Idle) {
            self.end_download(*download);
        }
    }

    fn end_download(&mut self, download: Download) {
        if let Some(number) = download.filling {
            self.web.fillings.remove(&number);
        }
        self.buffers.dismiss(download.share);
        self.buffers.take_back(download.into_parts());
    }

    fn take_asked(&mut self, id: ConnectionId) -> Option<Asked> {
        let talk = self.web.connections.get_mut(&id)?;
        match std::mem::replace(&mut talk.state, State::Idle) {
            State::Asking(asked) => Some(*asked),
            other => {
                talk.state = other;
                None
            }
        }
    }

    fn set_state(&mut self, id: ConnectionId, state: State) {
        if let Some(talk) = self.web.connections.get_mut(&id) {
            talk.state = state;
        }
    }

    fn respond(&mut self, id: ConnectionId, received: &Received, response: &Response) {
        let is_refused = response.status >= 500;
        let part = ranges::part(received, response);
        let response = part.as_ref().unwrap_or(response);
        self.send_response(id, response, received.keeps_alive && !is_refused, received.is_head());
    }

    /// Begins to send a response. Its body waits here, and not in the connection.
    fn send_response(&mut self, id: ConnectionId, response: &Response, keeps_alive: bool, is_head: bool) {
        let most = (self.settings.memory_bytes / BODIES_PARTS) as usize;
        if response.status < 300
            && self.web.body_bytes.saturating_add(response.body.len()) > most.max(1 << 20)
        {
            let busy = busy("too many lists are being sent");
            return self.send_response(id, &busy, false, is_head);
        }
        let body_bytes = if is_head { 0 } else { response.body.len() as u64 };
        self.answered(id, response.status, body_bytes);
        self.send_body(id, response.bytes(is_head, keeps_alive), keeps_alive);
    }

    fn send_body(&mut self, id: ConnectionId, bytes: Vec<u8>, keeps_alive: bool) {
        self.web.body_bytes += bytes.len();
        self.set_state(id, State::Body { bytes, at: 0, keeps_alive });
    }
}

fn busy(sentence: &str) -> Response {
    Response::refusal(503, &format!("{sentence}: try again in a moment")).with("Retry-After", RETRY_S)
}
