//! What comes of each request (RFC 2326, section 10).

use core::net::IpAddr;
use std::sync::Arc;

use super::connection::{Exchange, Play, Step};
use super::session::{Pace, Session};
use super::{Action, ConnectionId, Question, Server, SessionId};
use crate::authentication::{self, Refused};
use crate::message::{METHODS, Method, Request, Response, Status};
use crate::presentation::Presentation;
use crate::range::{Range, SECOND_NS, Unit};
use crate::replay::{self, Replay};
use crate::target::Target;
use crate::transport::{Channels, Offer};

/// How far into what has no end a client may ask for: ten years, so that positions stay far from where their numbers end for
/// as long as anybody plays on from there.
const ENDLESS_NS_MAX: u64 = 10 * 365 * 86_400 * SECOND_NS;

/// A response at once, or none because a question has been asked.
type Reply = Result<Option<Response>, Status>;

impl Server {
    pub(super) fn request(&mut self, id: ConnectionId, request: Request, now_ns: u64) {
        let Some(request) = self.hold_back(id, request, now_ns) else { return };
        let exchange = Exchange::of(id, &request);
        match self.dispatch(request, &exchange, now_ns) {
            Ok(Some(response)) => self.respond(&exchange, response),
            Ok(None) => {}
            Err(status) => self.respond(&exchange, Response::new(status)),
        }
    }

    fn dispatch(&mut self, request: Request, exchange: &Exchange, now_ns: u64) -> Reply {
        if request.cseq().is_none() {
            return Err(Status::BadRequest);
        }
        let (_, unknown) = replay::required(&request);
        if !unknown.is_empty() {
            return Ok(Some(unsupported(&unknown)));
        }
        let target = Target::parse(&request.url).ok_or(Status::BadRequest)?;
        let user = match self.user(exchange.connection, &request, &target, now_ns) {
            Ok(user) => user,
            Err(response) => return Ok(Some(response)),
        };
        let session = self.session(exchange.connection, &request, now_ns)?;
        match request.method {
            Method::Options => Ok(Some(Response::new(Status::Ok).with("Public", METHODS))),
            Method::Describe => self.describe(&request, target, exchange, user),
            Method::Setup => self.set_up(request, target, session, exchange, user),
            Method::Play => self.play(&request, &target, session, exchange),
            Method::Pause => self.pause(&request, &target, session),
            Method::Teardown => self.tear_down(&target, session),
            // A sign of life; there are no parameters.
            Method::GetParameter | Method::SetParameter if request.body.is_empty() => {
                Ok(Some(self.with_session(Response::new(Status::Ok), session)))
            }
            Method::GetParameter | Method::SetParameter => Err(Status::ParameterNotUnderstood),
            Method::Other(name) => {
                let is_known = ["ANNOUNCE", "RECORD", "REDIRECT"].contains(&name.as_str());
                let status = if is_known { Status::MethodNotAllowed } else { Status::NotImplemented };
                Ok(Some(Response::new(status).with("Allow", METHODS)))
            }
        }
    }

    /// The user that asks, if users have to be known; or the response to a client that is not authenticated.
    fn user(
        &mut self,
        id: ConnectionId,
        request: &Request,
        target: &Target,
        now_ns: u64,
    ) -> Result<Option<String>, Response> {
        let Some((guard, users)) = &self.guard else { return Ok(None) };
        if request.method == Method::Options {
            return Ok(None);
        }
        let line = self.connections[&id].line(id);
        let is_of_path = matches!(request.method, Method::Describe | Method::Setup | Method::Play);
        // Other requests are about a session, and some clients write any URL there.
        let session = if is_of_path { None } else { self.named(id, request) };
        let path = session.map_or(&target.path, |session| &session.of.path);
        if request.headers.get("Authorization").is_none() && users.may_watch(None, path) {
            return Ok(None);
        }
        match guard.check(users.as_ref(), request, line, now_ns) {
            Ok(user) if is_of_path && !users.may_watch(Some(&user), path) => {
                let client = self.connections[&id].client;
                let Target { path, query, .. } = target.clone();
                self.actions.push(Action::Forbidden { client, user, path, query });
                Err(Response::new(Status::Forbidden))
            }
            Ok(user) => {
                let connection = self.connections.get_mut(&id);
                connection.into_iter().for_each(|connection| connection.user = Some(user.clone()));
                Ok(Some(user))
            }
            Err(Refused { is_stale }) => {
                if !is_stale && let Some(user) = authentication::claimed_user(request) {
                    let client = self.connections[&id].client;
                    let wrong = self.guesses.note_wrong(client, now_ns);
                    self.actions.push(Action::WrongPassword { client, user, wrong });
                }
                let challenges = guard.challenges(users.as_ref(), line, is_stale, now_ns).into_iter();
                let response = Response::new(Status::Unauthorized);
                Err(challenges
                    .fold(response, |response, challenge| response.with("WWW-Authenticate", challenge)))
            }
        }
    }

    /// The session that a request names, if it comes from where the session's packets go.
    fn named(&self, id: ConnectionId, request: &Request) -> Option<&Session> {
        let name = request.headers.get("Session")?.split(';').next().unwrap_or_default().trim();
        let session = self.sessions.get(self.names.get(name)?)?;
        (session.client == self.connections[&id].client).then_some(session)
    }

    /// The same, which thereby gives a sign of life; an error if there is no such session.
    fn session(
        &mut self,
        id: ConnectionId,
        request: &Request,
        now_ns: u64,
    ) -> Result<Option<SessionId>, Status> {
        let Some(header) = request.headers.get("Session") else {
            // Clients that name no session mean the ones that they have set up on this connection.
            for session in &self.connections[&id].sessions {
                self.sessions.get_mut(session).into_iter().for_each(|session| session.seen_ns = now_ns);
            }
            return Ok(None);
        };
        let name = header.split(';').next().unwrap_or_default().trim();
        let session_id = *self.names.get(name).ok_or(Status::SessionNotFound)?;
        let session = self.sessions.get_mut(&session_id).ok_or(Status::SessionNotFound)?;
        if session.client != self.connections[&id].client {
            return Err(Status::SessionNotFound);
        }
        session.seen_ns = now_ns;
        Ok(Some(session_id))
    }

    /// A named session that can be changed now.
    fn ready(
        &mut self,
        session: Option<SessionId>,
        target: &Target,
    ) -> Result<(SessionId, &mut Session), Status> {
        let id = session.ok_or(Status::SessionNotFound)?;
        let session = self.sessions.get_mut(&id).ok_or(Status::SessionNotFound)?;
        if session.of.path != target.path {
            return Err(Status::NotFound);
        }
        if session.is_busy {
            return Err(Status::MethodNotValidInThisState);
        }
        Ok((id, session))
    }

    pub(super) fn with_session(&self, response: Response, session: Option<SessionId>) -> Response {
        match session.and_then(|id| self.sessions.get(&id)) {
            Some(session) => response.with("Session", &session.name),
            None => response,
        }
    }

    fn describe(
        &mut self,
        request: &Request,
        target: Target,
        exchange: &Exchange,
        user: Option<String>,
    ) -> Reply {
        let mut accepted = request.headers.all("Accept").flat_map(|accept| accept.split(',')).peekable();
        let is_sdp = |accept: &str| {
            let kind = accept.split(';').next().unwrap_or_default().trim();
            ["application/sdp", "application/*", "*/*"].iter().any(|known| kind.eq_ignore_ascii_case(known))
        };
        if accepted.peek().is_some() && !accepted.any(is_sdp) {
            return Err(Status::NotAcceptable);
        }
        let (path, query) = (target.path.clone(), target.query.clone());
        let (is_replay, _) = replay::required(request);
        let step = Step::Describe { target, base: base(&request.url), is_replay };
        self.ask(exchange, step, Question::Describe { path, query, user });
        Ok(None)
    }

    fn set_up(
        &mut self,
        request: Request,
        mut target: Target,
        session: Option<SessionId>,
        exchange: &Exchange,
        user: Option<String>,
    ) -> Reply {
        if let Some(session) = session {
            return self.set_up_in(session, &request, &target, exchange);
        }
        let described = self.connections[&exchange.connection].described.as_ref();
        match described.filter(|(described, _)| described.path == target.path) {
            Some((described, presentation)) if target.query.is_empty() || target.query == described.query => {
                // Clients that resolve a track's name as a relative URL lose the query on the way.
                target.query = described.query.clone();
                let presentation = presentation.clone();
                self.set_up_new(presentation, &request, target, exchange)
            }
            _ => {
                let (path, query) = (target.path.clone(), target.query.clone());
                let step = Step::DescribeToSetUp { target, request: Box::new(request) };
                self.ask(exchange, step, Question::Describe { path, query, user });
                Ok(None)
            }
        }
    }

    /// One track more of a session, or one of its tracks in another way.
    fn set_up_in(
        &mut self,
        session: SessionId,
        request: &Request,
        target: &Target,
        exchange: &Exchange,
    ) -> Reply {
        let (session_id, session) = self.ready(Some(session), target)?;
        if session.is_playing {
            return Err(Status::MethodNotValidInThisState);
        }
        let track = track(target, &session.presentation)?;
        if is_without_time(request, &session.presentation) {
            return Ok(Some(unsupported(&[replay::FEATURE])));
        }
        let offers = self.offers(exchange.connection, Some(session_id), request)?;
        let session = self.sessions.get_mut(&session_id).ok_or(Status::SessionNotFound)?;
        if session.tracks.iter().any(|one| one.number == track) {
            session.tracks.retain(|one| one.number != track);
            self.actions.push(Action::Release { session: session_id, track });
        }
        self.ask_to_set_up(session_id, track, offers, request, exchange)
    }

    /// The first track of a session.
    pub(super) fn set_up_new(
        &mut self,
        presentation: Arc<Presentation>,
        request: &Request,
        target: Target,
        exchange: &Exchange,
    ) -> Reply {
        let track = track(&target, &presentation)?;
        if is_without_time(request, &presentation) {
            return Ok(Some(unsupported(&[replay::FEATURE])));
        }
        let offers = self.offers(exchange.connection, None, request)?;
        if self.sessions.len() >= self.config.sessions_max {
            return Err(Status::NotEnoughBandwidth);
        }
        self.last_session += 1;
        let session_id = SessionId(self.last_session);
        // Half of the digits are as hard to guess as is of use, and fit into what clients have room for.
        let name = self.config.key.sign("session", &self.last_session.to_string())[..32].to_owned();
        let id = exchange.connection;
        let connection = self.connections.get_mut(&id).ok_or(Status::InternalServerError)?;
        connection.sessions.insert(session_id);
        let session = Session {
            name: name.clone(),
            client: connection.client,
            made_on: id,
            of: Target { track: None, ..target },
            presentation,
            tracks: Vec::new(),
            is_playing: false,
            is_replay: false,
            pace: Pace::default(),
            is_busy: false,
            seen_ns: connection.seen_ns,
        };
        let due_ns = session.seen_ns.saturating_add(self.config.session_timeout_ns);
        self.timers.insert((due_ns, super::Timer::Session(session_id)));
        self.names.insert(name, session_id);
        self.sessions.insert(session_id, session);
        self.ask_to_set_up(session_id, track, offers, request, exchange)
    }

    fn ask_to_set_up(
        &mut self,
        session_id: SessionId,
        track: usize,
        offers: Vec<Offer>,
        request: &Request,
        exchange: &Exchange,
    ) -> Reply {
        let session = self.sessions.get_mut(&session_id).ok_or(Status::SessionNotFound)?;
        session.is_busy = true;
        session.is_replay |= replay::required(request).0;
        let question = Question::SetUp {
            session: session_id,
            presentation: session.presentation.clone(),
            track,
            offers,
            client: session.client,
            user: self.connections.get(&exchange.connection).and_then(|connection| connection.user.clone()),
            agent: request.headers.get("User-Agent").map(str::to_owned),
            query: session.of.query.clone(),
            packet_bytes_max: request.headers.get("Blocksize").and_then(|bytes| bytes.parse().ok()),
        };
        let step = Step::SetUp { session: session_id, track, url: request.url.clone() };
        self.ask(exchange, step, question);
        Ok(None)
    }

    /// What the client offers and can have. Packets go to its own address, to a group, or on the connection of the session.
    fn offers(
        &self,
        id: ConnectionId,
        session: Option<SessionId>,
        request: &Request,
    ) -> Result<Vec<Offer>, Status> {
        let connection = &self.connections[&id];
        let mut offers = Vec::new();
        for offer in request.headers.all("Transport").flat_map(Offer::parse_all) {
            match offer {
                Offer::Udp { destination: Some(destination), .. }
                    if !is_at(&destination, connection.client) =>
                {
                    return Err(Status::Forbidden);
                }
                // A host at an address that is no group has not asked for packets.
                Offer::Multicast { group: Some(group), .. } if !is_group(&group) => {
                    return Err(Status::Forbidden);
                }
                Offer::Interleaved { channels } => {
                    let made_here = session.is_none_or(|session| connection.sessions.contains(&session));
                    let channels = made_here.then(|| self.free_channels(id, channels)).flatten();
                    offers.extend(channels.map(|channels| Offer::Interleaved { channels: Some(channels) }));
                }
                offer => offers.push(offer),
            }
        }
        if offers.is_empty() { Err(Status::UnsupportedTransport) } else { Ok(offers) }
    }

    /// The channels that the client wants, or the first two that are free.
    fn free_channels(&self, id: ConnectionId, wanted: Option<Channels>) -> Option<Channels> {
        let sessions = self.connections[&id].sessions.iter().filter_map(|session| self.sessions.get(session));
        let taken: Vec<u8> =
            sessions.flat_map(Session::channels).flat_map(|(rtp, rtcp)| [rtp, rtcp]).collect();
        let is_free = |(rtp, rtcp): &Channels| !taken.contains(rtp) && !taken.contains(rtcp);
        wanted.filter(is_free).or_else(|| (0..128u8).map(|pair| (2 * pair, 2 * pair + 1)).find(is_free))
    }

    fn play(
        &mut self,
        request: &Request,
        target: &Target,
        session: Option<SessionId>,
        exchange: &Exchange,
    ) -> Reply {
        let number = |name| match request.headers.get(name).map(|value| value.trim().parse::<f64>()) {
            None => Ok(None),
            Some(Ok(value)) if value.is_finite() && value != 0.0 => Ok(Some(value)),
            Some(_) => Err(Status::BadRequest),
        };
        let (scale, speed) = (number("Scale")?, number("Speed")?);
        if speed.is_some_and(|speed| speed < 0.0) {
            return Err(Status::BadRequest);
        }
        let range = range(request)?;
        let (session_id, session) = self.ready(session, target)?;
        if session.is_partial(target) {
            return Err(Status::OnlyAggregateOperationAllowed);
        }
        if is_without_time(request, &session.presentation) {
            return Ok(Some(unsupported(&[replay::FEATURE])));
        }
        session.is_replay |= replay::required(request).0;
        let has_time = session.presentation.recorded_ns.is_some();
        let is_replay = has_time && (session.is_replay || replay::is_told(&request.headers));
        let replay = is_replay.then(|| Replay::of(request).map_err(|_| Status::BadRequest)).transpose()?;
        if session.tracks.is_empty() {
            return Err(Status::MethodNotValidInThisState);
        }
        let is_changed = range.is_some() || scale.is_some() || speed.is_some();
        if session.is_playing && !is_changed && !replay::is_told(&request.headers) {
            return Ok(Some(as_it_plays(session)));
        }
        let range = range.unwrap_or(Range { unit: Unit::Npt, from_ns: None, until_ns: None });
        let asked = within(&session.presentation, range, scale.unwrap_or(1.0) < 0.0)?;
        let was_playing = std::mem::replace(&mut session.is_playing, false);
        session.is_busy = true;
        if was_playing {
            self.actions.push(Action::Stop { session: session_id });
        }
        let step = Step::Play(Play {
            session: session_id,
            unit: range.unit,
            was_playing,
            has_scale: scale.is_some(),
            has_speed: speed.is_some(),
            is_replay,
        });
        let question = Question::Play {
            session: session_id,
            from_ns: asked.from_ns,
            until_ns: asked.until_ns,
            scale: scale.unwrap_or(1.0),
            speed: speed.unwrap_or(1.0),
            replay,
        };
        self.ask(exchange, step, question);
        Ok(None)
    }

    fn pause(&mut self, request: &Request, target: &Target, session: Option<SessionId>) -> Reply {
        let range = range(request)?;
        let (id, session) = self.ready(session, target)?;
        if session.is_partial(target) {
            return Err(Status::OnlyAggregateOperationAllowed);
        }
        // Where to stop later on is said by the PLAY. Here it is answered as it has to be where nothing plays up to there.
        if range.is_some_and(|range| range.from_ns.is_some() || range.until_ns.is_some()) {
            return Err(if session.is_playing { Status::NotImplemented } else { Status::InvalidRange });
        }
        if std::mem::replace(&mut session.is_playing, false) {
            self.actions.push(Action::Stop { session: id });
        }
        Ok(Some(self.with_session(Response::new(Status::Ok), Some(id))))
    }

    fn tear_down(&mut self, target: &Target, session: Option<SessionId>) -> Reply {
        let id = session.ok_or(Status::SessionNotFound)?;
        let session = self.sessions.get_mut(&id).ok_or(Status::SessionNotFound)?;
        match target.track.filter(|_| session.tracks.len() > 1) {
            Some(track) => {
                let tracks = session.tracks.len();
                session.tracks.retain(|one| one.number != track);
                if session.tracks.len() == tracks {
                    return Err(Status::NotFound);
                }
                self.actions.push(Action::Release { session: id, track });
                Ok(Some(self.with_session(Response::new(Status::Ok), Some(id))))
            }
            None => {
                self.end_session(id);
                Ok(Some(Response::new(Status::Ok)))
            }
        }
    }
}

/// What a PLAY that asks for no change gets: it is a sign of life (section 10.5).
fn as_it_plays(session: &Session) -> Response {
    let Pace { until_ns, scale, speed } = session.pace;
    let range = Range { unit: Unit::Npt, from_ns: None, until_ns };
    let mut response = Response::new(Status::Ok).with("Session", &session.name).with("Range", range);
    for (name, value) in [("Scale", scale), ("Speed", speed)] {
        if value != 1.0 {
            response = response.with(name, format_args!("{value:?}"));
        }
    }
    response
}

/// The response to a request that requires what there is not (RFC 2326, section 12.32).
pub(super) fn unsupported(features: &[&str]) -> Response {
    Response::new(Status::OptionNotSupported).with("Unsupported", features.join(", "))
}

/// Whether a request requires replay of what was recorded at no time, such as files that follow each other.
fn is_without_time(request: &Request, presentation: &Presentation) -> bool {
    presentation.recorded_ns.is_none() && replay::required(request).0
}

fn range(request: &Request) -> Result<Option<Range>, Status> {
    request.headers.get("Range").map(Range::parse).transpose().map_err(|_| Status::InvalidRange)
}

/// The URL that tracks' names are relative to: with a slash at the end of its path.
fn base(url: &str) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{}/{mark}{query}", path.trim_end_matches('/'))
}

/// Which track a SETUP is about.
fn track(target: &Target, presentation: &Presentation) -> Result<usize, Status> {
    match target.track {
        Some(track) if track < presentation.tracks.len() => Ok(track),
        None if presentation.tracks.len() == 1 => Ok(0),
        Some(_) => Err(Status::NotFound),
        None => Err(Status::AggregateOperationNotAllowed),
    }
}

fn is_at(destination: &str, client: IpAddr) -> bool {
    let destination = destination.trim_start_matches('[').trim_end_matches(']');
    destination.parse().is_ok_and(|destination: IpAddr| destination.to_canonical() == client)
}

fn is_group(destination: &str) -> bool {
    destination.parse().is_ok_and(|destination: IpAddr| destination.to_canonical().is_multicast())
}

/// The part that was asked for, from the beginning of the presentation and not beyond its end.
fn within(presentation: &Presentation, range: Range, is_backwards: bool) -> Result<Range, Status> {
    let range = presentation.in_normal_play_time(range).ok_or(Status::HeaderFieldNotValidForResource)?;
    if !presentation.is_seekable && range.from_ns.is_some_and(|from_ns| from_ns > 0) {
        return Err(Status::HeaderFieldNotValidForResource);
    }
    let end_ns = presentation.duration_ns.unwrap_or(ENDLESS_NS_MAX);
    let is_in_order = match (range.from_ns, range.until_ns) {
        (Some(from_ns), Some(until_ns)) if is_backwards => until_ns < from_ns,
        (Some(from_ns), Some(until_ns)) => from_ns < until_ns,
        _ => true,
    };
    // Backwards from after its end is from its end.
    let is_beyond = !is_backwards && range.from_ns.is_some_and(|from_ns| from_ns > end_ns);
    if !is_in_order || is_beyond {
        return Err(Status::InvalidRange);
    }
    Ok(Range {
        from_ns: range.from_ns.map(|from_ns| from_ns.min(end_ns)),
        until_ns: range.until_ns.filter(|until_ns| *until_ns < end_ns),
        ..range
    })
}
