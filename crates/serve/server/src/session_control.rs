//! What clients ask for: which file, which tracks, from where.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use forebay_rtsp::message::Status;
use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Presentation;
use forebay_rtsp::server::{
    Action, Answer, ConnectionId, FirstPacket, Playing, Question, QuestionId, SessionId,
};
use forebay_rtsp::transport::{Offer, Transport};
use forebay_streaming::program::{Choice, is_video};
use forebay_streaming::stream::{Next, Setup, Stream};
use rustix::net::addr::SocketAddrArg;

use crate::batch::Destination;
use crate::catalog::{Failure, Opened};
use crate::clock;
use crate::event_loop::Serving;
use crate::pace::Pace;
use crate::readers::{Filling, Opening, Reading};
use crate::session::{Cue, Key, Session, TrackTransport};

impl Serving {
    /// Does what the machine says, and what comes of it.
    pub(crate) fn act(&mut self, actions: Vec<Action>, on: ConnectionId) {
        self.actions.extend(actions.into_iter().map(|action| (action, on)));
        while let Some((action, on)) = self.actions.pop_front() {
            match action {
                Action::Send { connection, bytes } => {
                    if let Some(one) = self.connections.get_mut(&connection) {
                        one.send(&bytes);
                        self.tend(connection);
                    }
                }
                Action::Close { connection } => {
                    if let Some(one) = self.connections.get_mut(&connection) {
                        one.is_closing = true;
                        self.tend(connection);
                    }
                }
                Action::Ask { id, question } => {
                    self.askers.insert(id, on);
                    self.ask(id, question);
                }
                Action::Start { session } => self.start(session),
                Action::Stop { session } => self.stop(session),
                Action::Release { session, track } => self.release(session, track),
                Action::End { session } => self.end(session),
                Action::Report { session, packet, .. } => self.hear(session, &packet),
            }
        }
    }

    fn answer(&mut self, question: QuestionId, answer: Result<Answer, Status>) {
        let on = self.askers.remove(&question).unwrap_or(ConnectionId(0));
        let actions = self.server.answer(question, answer, clock::now_ns());
        self.actions.extend(actions.into_iter().map(|action| (action, on)));
    }

    fn ask(&mut self, id: QuestionId, question: Question) {
        match question {
            Question::Describe { path, query, .. } => {
                if !self.readers.open(Opening { question: id, path, query }) {
                    self.answer(id, Err(Status::ServiceUnavailable));
                }
            }
            Question::SetUp { session, presentation, track, offers, packet_bytes_max, client: _ } => {
                let on = self.askers.get(&id).copied().unwrap_or(ConnectionId(0));
                let wanted = Wanted { session, presentation, track, offers, packet_bytes_max };
                let answer = self.set_up(on, wanted);
                self.answer(id, answer);
            }
            Question::Play { session, from_ns, until_ns, scale, speed } => {
                let Some(place) = self.places.get(&session).copied() else {
                    return self.answer(id, Err(Status::SessionNotFound));
                };
                self.cue(place, id, Part { from_ns, until_ns, scale, speed });
            }
        }
    }

    /// A file has been opened, or has not.
    pub(crate) fn opened(&mut self, question: QuestionId, result: Result<Arc<Opened>, Failure>) {
        let answer = match result {
            Ok(opened) => {
                let remarks = opened.files.iter().filter_map(|file| file.take_remark());
                remarks.for_each(|remark| self.log.say(clock::now_ns(), &remark));
                let presentation = opened.presentation.clone();
                self.shown.insert(Arc::as_ptr(&presentation).addr(), opened);
                Ok(Answer::Described(presentation))
            }
            Err(Failure { status, sentence }) => {
                self.log.say(clock::now_ns(), &sentence);
                Err(status)
            }
        };
        self.answer(question, answer);
        self.act(Vec::new(), ConnectionId(0));
    }

    fn set_up(&mut self, on: ConnectionId, wanted: Wanted) -> Result<Answer, Status> {
        let Some(connection) = self.connections.get(&on) else { return Err(Status::ServiceUnavailable) };
        let (client, host) = (connection.client, connection.host);
        let address = Arc::as_ptr(&wanted.presentation).addr();
        let opened = self.shown.get(&address).cloned().ok_or(Status::ServiceUnavailable)?;
        let is_new = !self.places.contains_key(&wanted.session);
        // Memory is for those that play, but who could not do that now need not begin.
        if is_new && !self.budget.has_room(opened.bytes_per_second(), None) {
            return Err(self.without_room());
        }
        if is_new && !self.admission.admit_session(client.ip(), self.settings.sessions_per_address) {
            let ip = client.ip();
            let sentence =
                format!("{ip} was turned away: it has all the sessions that sessions-per-address allows");
            self.log.say(clock::now_ns(), &sentence);
            return Err(Status::NotEnoughBandwidth);
        }
        let result = self.set_up_track(on, (client, host), wanted, opened);
        if is_new && result.is_err() {
            self.admission.leave_session(client.ip());
        }
        result
    }

    fn without_room(&mut self) -> Status {
        let sentence = "a client was turned away: buffers have no more memory; --memory gives them some";
        self.log.say(clock::now_ns(), sentence);
        Status::NotEnoughBandwidth
    }

    fn set_up_track(
        &mut self,
        on: ConnectionId,
        (client, host): (SocketAddr, SocketAddr),
        wanted: Wanted,
        opened: Arc<Opened>,
    ) -> Result<Answer, Status> {
        let (wire, transport) = self.wire(on, client, host, &wanted)?;
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(|_| Status::InternalServerError)?;
        let [a, b, c, d, e, f, g, h, i, j] = random;
        let ssrc = u32::from_be_bytes([a, b, c, d]);
        let track = opened.playlist.items()[0].tracks().get(wanted.track).ok_or(Status::NotFound)?;
        let packet_bytes_max = wanted.packet_bytes_max.map_or(usize::MAX, |bytes| bytes as usize);
        let setup = Setup {
            track: wanted.track,
            format: track.format,
            payload_type: track.codec.payload_type(wanted.track),
            clock_rate: track.codec.clock_rate(),
            ssrc,
            sequence: u16::from_be_bytes([i, j]),
            timestamp: u32::from_be_bytes([e, f, g, h]),
            packet_bytes_max: packet_bytes_max.min(self.settings.packet_bytes),
            is_video: is_video(&track.codec),
            is_paced: matches!(wire, TrackTransport::Udp { .. }),
            is_bundled: matches!(track.format, Format::Aac | Format::MpegAudio),
        };
        let place = self.place_of(wanted.session, client.ip(), opened);
        let session = &mut self.sessions[place];
        if let TrackTransport::Udp { rtcp, .. } = &wire {
            self.reporters.insert(*rtcp, session.id);
        }
        // Most have one or two, and there are thousands of sessions.
        session.transports.reserve_exact(1);
        session.transports.push((wanted.track, wire));
        session.stream.add_sender(setup);
        Ok(Answer::SetUp { transport, ssrc })
    }

    fn place_of(&mut self, id: SessionId, client: IpAddr, opened: Arc<Opened>) -> usize {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let life = self.next_life();
        let entry = self.sessions.vacant_entry();
        let key = Key { place: entry.key(), life };
        self.places.insert(id, key.place);
        entry.insert(Session::new(id, key, client, opened, self.settings.buffers));
        key.place
    }

    fn next_life(&mut self) -> u64 {
        self.last_life += 1;
        self.last_life
    }

    /// The first of a client's offers that there is.
    fn wire(
        &mut self,
        on: ConnectionId,
        client: SocketAddr,
        host: SocketAddr,
        wanted: &Wanted,
    ) -> Result<(TrackTransport, Transport), Status> {
        let at = |mut address: SocketAddr, port| {
            address.set_port(port);
            address
        };
        for offer in &wanted.offers {
            match offer {
                Offer::Interleaved { channels: Some(channels) } => {
                    let wire = TrackTransport::Tcp { connection: on, channels: *channels };
                    return Ok((wire, Transport::Interleaved { channels: *channels }));
                }
                Offer::Udp { client: ports, .. } => {
                    let pair = self.pair_on(host)?;
                    let server = self.datagrams.pair(pair).ports;
                    let rtp = Destination::new(at(client, ports.0).as_any());
                    let wire = TrackTransport::Udp { pair, rtp, rtcp: at(client, ports.1) };
                    return Ok((wire, Transport::Udp { client: *ports, server }));
                }
                Offer::Multicast { .. } => {
                    let Some(first) = self.settings.multicast else { continue };
                    let pair = self.pair_on(host)?;
                    let ttl = self.settings.multicast_ttl;
                    if self.datagrams.pair(pair).allow_groups(ttl).is_err() {
                        continue;
                    }
                    let (group, ports) = group(first, wanted.session, wanted.track);
                    let to = SocketAddr::new(group, 0);
                    let rtp = Destination::new(at(to, ports.0).as_any());
                    let wire = TrackTransport::Udp { pair, rtp, rtcp: at(to, ports.1) };
                    return Ok((wire, Transport::Multicast { group, ports, ttl }));
                }
                Offer::Interleaved { channels: None } => {}
            }
        }
        Err(Status::UnsupportedTransport)
    }

    /// The sockets on an address.
    fn pair_on(&mut self, host: SocketAddr) -> Result<usize, Status> {
        match self.datagrams.pair_on(host) {
            Ok(pair) => Ok(pair),
            Err(error) => {
                let (ports, ip) = (&self.settings.udp_ports, host.ip());
                let (first, last) = (ports.start(), ports.end());
                let sentence = format!(
                    "no packets can be sent from {ip}, ports {first} to {last}: {error}; choose others with --udp-ports"
                );
                self.log.say(clock::now_ns(), &sentence);
                Err(Status::UnsupportedTransport)
            }
        }
    }

    /// Gets ready what is to be played, and answers when it is.
    fn cue(&mut self, place: usize, question: QuestionId, part: Part) {
        let session = &self.sessions[place];
        let senders = session.stream.senders().iter().filter(|sender| !sender.is_released());
        let tracks: Vec<usize> = senders.map(|sender| sender.setup().track).collect();
        let media = &session.opened.playlist.items()[0];
        let has_pictures =
            tracks.iter().any(|track| media.tracks().get(*track).is_some_and(|track| is_video(&track.codec)));
        let pace = Pace::near(part.scale, part.speed, has_pictures);
        if !self.charge(place, &tracks, pace) {
            let status = self.without_room();
            return self.answer(question, Err(status));
        }
        let life = self.next_life();
        let session = &mut self.sessions[place];
        // From here on in positions of the program, not of the client.
        let in_program = |ns: u64| ns.saturating_add(session.opened.origin_ns);
        let asked_ns = part.from_ns.map(in_program);
        let until_ns = part.until_ns.filter(|_| part.scale > 0.0).map(in_program);
        let is_resumed = part.from_ns.is_none() && part.until_ns.is_none() && session.stopped_ns.is_some();
        let until_ns = if is_resumed { session.until_ns } else { until_ns };
        let are_others = session.stream.drop_released() || session.program_tracks != tracks;
        let goes_on =
            part.from_ns.is_none() && part.until_ns.is_none() && !are_others && session.scale == pace.scale;
        let from_ns = match session.stopped_ns.filter(|_| goes_on) {
            Some(stopped_ns) => stopped_ns,
            None => {
                let wanted_ns = asked_ns.or(session.stopped_ns).unwrap_or(session.opened.origin_ns);
                let playlist = &session.opened.playlist;
                let from_ns = playlist.seek(&tracks, wanted_ns);
                let choice = Choice { tracks: tracks.clone(), until_ns, is_sync_only: pace.is_sync_only };
                session.stream.empty();
                session.program = Some(Box::new(playlist.program(choice, from_ns).peekable()));
                session.program_tracks = tracks;
                (session.key.life, session.is_beginning, session.timer_ns) = (life, true, None);
                (session.until_ns, session.scale) = (until_ns, pace.scale);
                from_ns
            }
        };
        (session.bye_ns, session.stopped_ns) = (None, Some(from_ns));
        let cue = Cue { question, from_ns, speed: pace.speed };
        // Nobody waits for an earlier one any more: its connection is gone.
        if let Some(earlier) = session.cue.replace(cue) {
            self.askers.remove(&earlier.question);
        }
        self.give_back(place);
        self.want_buffer(place, clock::now_ns());
        self.answer_cue(place);
    }

    /// Has the session's share of memory be what its tracks take at that pace. `false` if there is no room for it: then the share
    /// stays as it was.
    fn charge(&mut self, place: usize, tracks: &[usize], pace: Pace) -> bool {
        let session = &mut self.sessions[place];
        let opened = &session.opened;
        let (all, sync) = (opened.bytes_per_second_of(tracks), opened.sync_bytes_per_second_of(tracks));
        let bytes_per_second = pace.bytes_per_second(all, sync);
        if !self.budget.has_room(bytes_per_second, session.share) {
            return false;
        }
        if let Some(share) = session.share.take() {
            self.budget.leave(share);
        }
        if let Some(file) = session.opened.files.first() {
            let device =
                *self.devices.entry(file.identity.device).or_insert_with(|| self.budget.add_device());
            session.share = Some(self.budget.enter(device, bytes_per_second));
        }
        session.bytes_per_second = bytes_per_second;
        true
    }

    /// A buffer has been filled, or has not.
    pub(crate) fn filled(&mut self, mut filled: Filling) {
        let key = filled.key;
        let Some(session) = self.sessions.get_mut(key.place).filter(|session| session.key == key) else {
            return self.give_back_filled(filled);
        };
        let result = std::mem::replace(&mut filled.result, Ok(Reading::default()));
        match result {
            Ok(reading) => {
                let device =
                    session.opened.files.first().and_then(|file| self.devices.get(&file.identity.device));
                if let Some(device) = device.and_then(|device| self.budget.device(*device))
                    && reading.reads > 0
                {
                    device.note(reading.bytes / reading.reads, reading.elapsed_ns / reading.reads);
                }
                session.stream.put_filled(filled.buffer);
            }
            Err(sentence) => {
                let id = session.id;
                self.give_back_filled(filled);
                let session = &mut self.sessions[key.place];
                if let Some(cue) = session.cue.take() {
                    self.answer(cue.question, Err(Status::InternalServerError));
                }
                self.log.say(clock::now_ns(), &sentence);
                let actions = self.server.end(id);
                return self.act(actions, ConnectionId(0));
            }
        }
        let session = &self.sessions[key.place];
        let is_playing = session.stream.position_ns(0).is_some();
        let is_waited_for = session.next == Next::Buffer;
        let now_ns = clock::now_ns();
        self.want_buffer(key.place, now_ns);
        if is_playing {
            // Otherwise its timer rings when something is due.
            if is_waited_for {
                self.prepare(key.place, now_ns);
            }
        } else {
            self.answer_cue(key.place);
            self.act(Vec::new(), ConnectionId(0));
        }
    }

    /// Answers a PLAY if its first samples are here.
    fn answer_cue(&mut self, place: usize) {
        let now_ns = clock::now_ns();
        let session = &mut self.sessions[place];
        if !session.stream.is_ready() {
            return;
        }
        let Some(cue) = session.cue.take() else { return };
        let epoch_ns = *session.epoch_ns.get_or_insert(now_ns);
        session.stream.cue(cue.from_ns, now_ns - epoch_ns, session.scale, cue.speed);
        let first = |stream: &Stream| {
            let senders = stream.senders().iter();
            let first = senders.map(|sender| FirstPacket {
                track: sender.setup().track,
                sequence: sender.next_sequence(),
                timestamp: sender.anchor(),
            });
            first.collect()
        };
        let of_client = |ns: u64| ns.saturating_sub(session.opened.origin_ns);
        let playing = Playing {
            from_ns: of_client(cue.from_ns),
            until_ns: session.until_ns.map(of_client).or(session.opened.presentation.duration_ns),
            scale: session.scale,
            speed: cue.speed,
            first: first(&session.stream),
        };
        self.answer(cue.question, Ok(Answer::Playing(playing)));
    }

    fn start(&mut self, id: SessionId) {
        let Some(place) = self.places.get(&id).copied() else { return };
        let now_ns = clock::now_ns();
        let session = &mut self.sessions[place];
        session.stream.start(now_ns);
        // The first report tells how the clocks of tracks belong together.
        session.report_ns = Some(now_ns);
        self.look_at(place, now_ns);
    }

    fn stop(&mut self, id: SessionId) {
        let Some(place) = self.places.get(&id).copied() else { return };
        let now_ns = clock::now_ns();
        let session = &mut self.sessions[place];
        session.stopped_ns = session.stream.position_ns(now_ns).or(session.stopped_ns);
        session.stream.stop();
        (session.report_ns, session.bye_ns) = (None, None);
        self.note_stopped(id, place);
        self.look_at(place, now_ns);
    }

    fn release(&mut self, id: SessionId, track: usize) {
        let Some(place) = self.places.get(&id).copied() else { return };
        let session = &mut self.sessions[place];
        session.stream.release(track);
        session.heard.clear();
        for (_, wire) in session.transports.extract_if(.., |(number, _)| *number == track) {
            forget_reporter(&mut self.reporters, &wire, id);
        }
        // Else a client could have tracks set up again and again.
        if session.is_idle() {
            self.forget_buffers(place);
            self.sessions[place].stream.drop_released();
        }
    }

    fn end(&mut self, id: SessionId) {
        let Some(place) = self.places.remove(&id) else { return };
        self.send_goodbyes(place);
        self.give_back_all(place);
        let session = self.sessions.remove(place);
        self.ended.add(session.stream.counts());
        self.admission.leave_session(session.client);
        // A client that went away before its PLAY was answered gets no answer.
        if let Some(cue) = session.cue {
            self.askers.remove(&cue.question);
        }
        if let Some(share) = session.share {
            self.budget.leave(share);
        }
        for (_, wire) in &session.transports {
            forget_reporter(&mut self.reporters, wire, id);
        }
    }
}

/// Reports that come from where a session's packets go are of no interest any more, unless they are of another session by now.
fn forget_reporter(
    reporters: &mut HashMap<SocketAddr, SessionId>,
    wire: &TrackTransport,
    session: SessionId,
) {
    if let TrackTransport::Udp { rtcp, .. } = wire
        && reporters.get(rtcp) == Some(&session)
    {
        reporters.remove(rtcp);
    }
}

/// A track that a client wants set up.
struct Wanted {
    session: SessionId,
    presentation: Arc<Presentation>,
    track: usize,
    offers: Vec<Offer>,
    packet_bytes_max: Option<u32>,
}

/// What a client wants played.
struct Part {
    from_ns: Option<u64>,
    until_ns: Option<u64>,
    scale: f64,
    speed: f64,
}

/// The first port of groups: that of RTP, as far as it has one.
const GROUP_PORT: u16 = 5004;
/// Tracks and rounds of 256 sessions have ports of their own.
const GROUP_TRACKS: u64 = 32;
const GROUP_ROUNDS: u64 = 128;

/// Where a session's track goes: no other session's for as long as possible.
fn group(first: Ipv4Addr, session: SessionId, track: usize) -> (IpAddr, (u16, u16)) {
    let [a, b, c, _] = first.octets();
    let round = session.0 / 256 % GROUP_ROUNDS;
    let port = GROUP_PORT + 2 * (round * GROUP_TRACKS + track as u64 % GROUP_TRACKS) as u16;
    (Ipv4Addr::new(a, b, c, session.0 as u8).into(), (port, port + 1))
}
