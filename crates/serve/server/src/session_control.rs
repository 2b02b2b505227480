//! What clients ask for: which file, which tracks, from where; and what becomes of their sessions.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay_rtsp::message::Status;
use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Presentation;
use forebay_rtsp::replay::Frames;
use forebay_rtsp::server::{
    Action, Answer, ConnectionId, FirstPacket, Playing, Question, QuestionId, SessionId,
};
use forebay_rtsp::transport::Offer;
use forebay_streaming::course::Course;
use forebay_streaming::program::{Choice, is_video};
use forebay_streaming::stream::{self, Next, Setup, Stream};

use crate::access_log::Access;
use crate::catalog::{Extent, Failure, Opened};
use crate::clock;
use crate::event_loop::Serving;
use crate::folders::no_folder;
use crate::openers::Opening;
use crate::pace::Pace;
use crate::readers::{Filling, Reading};
use crate::sessions::{Cue, Key, Part, Session, Viewer};
use crate::settings::Folder;
use crate::transport::{Ends, TrackTransport};

/// How long until an index is asked again whether it has come far enough.
const DEFERRED_NS: u64 = 50_000_000;

/// What the RTSP machine wants done, and the questions that it waits for.
#[derive(Default)]
pub(crate) struct Control {
    /// Each with the connection on whose behalf it is done.
    actions: VecDeque<(Action, ConnectionId)>,
    /// The connections on whose behalf questions were asked.
    pub(crate) askers: HashMap<QuestionId, ConnectionId>,
    /// What was asked for by questions for files.
    asked: HashMap<QuestionId, Asked>,
    /// What clients have been shown, by the address of its description.
    shown: HashMap<usize, Arc<Opened>>,
}

impl Control {
    /// Forgets files that no session plays and no connection has described.
    pub fn sweep(&mut self) {
        self.shown
            .retain(|_, opened| Arc::strong_count(opened) > 1 || Arc::strong_count(&opened.presentation) > 1);
    }

    /// Forgets files of folders that settings have no more: their descriptions are of no more use to clients.
    pub fn keep_those_of(&mut self, folders: &[Folder]) {
        self.shown.retain(|_, opened| opened.root.is_among(folders));
    }
}

impl Serving {
    /// Whether what is open may be watched, as settings are now.
    pub(crate) fn may_go_on(&self, user: Option<&str>, opened: &Opened) -> bool {
        opened.root.is_among(&self.settings.folders) && self.server.may_watch(user, &opened.path)
    }

    /// Does what the RTSP machine says, and what follows from it.
    pub(crate) fn act(&mut self, actions: Vec<Action>, on: ConnectionId) {
        self.control.actions.extend(actions.into_iter().map(|action| (action, on)));
        while let Some((action, on)) = self.control.actions.pop_front() {
            let action = if self.cameras.is_some() { self.act_on_camera(action) } else { Some(action) };
            let Some(action) = action else { continue };
            match action {
                Action::Send { connection, bytes } => {
                    if let Some(one) = self.connections.get_mut(connection) {
                        one.send(&bytes);
                        self.tend(connection);
                    }
                }
                Action::Close { connection } => {
                    if let Some(one) = self.connections.get_mut(connection) {
                        one.is_closing = true;
                        self.tend(connection);
                    }
                }
                Action::Ask { id, question } => {
                    self.control.askers.insert(id, on);
                    self.ask(id, question);
                }
                Action::Start { session } => self.start(session),
                Action::Stop { session } => self.stop(session),
                Action::Release { session, track } => self.release(session, track),
                Action::End { session } => self.end(session),
                Action::WrongPassword { client, user, wrong } => {
                    let sentence = format!(
                        "{client}: wrong password for user {user}; {wrong} wrong ones from there of late"
                    );
                    self.log.say(clock::now_ns(), &sentence);
                    let asked = Asked { client, user: Some(user), path: String::new(), query: String::new() };
                    self.note_refused(&asked, Status::Unauthorized);
                }
                Action::Forbidden { client, user, path, query } => {
                    let asked = Asked { client, user: Some(user), path, query };
                    self.note_refused(&asked, Status::Forbidden);
                }
                Action::Report { session, packet, .. } => self.take_report(session, &packet),
            }
        }
    }

    pub(crate) fn answer(&mut self, question: QuestionId, answer: Result<Answer, Status>) {
        let on = self.control.askers.remove(&question).unwrap_or(ConnectionId(0));
        let actions = self.server.answer(question, answer, clock::now_ns());
        self.control.actions.extend(actions.into_iter().map(|action| (action, on)));
    }

    fn ask(&mut self, id: QuestionId, question: Question) {
        let Some(question) = self.ask_camera(id, question) else { return };
        match question {
            Question::Describe { path, query, user } => {
                let asker = self.control.askers.get(&id).and_then(|on| self.connections.get(*on));
                let Some(client) = asker.map(|connection| connection.client.ip()) else {
                    return self.answer(id, Err(Status::ServiceUnavailable));
                };
                let asked = Asked { client, user, path: path.clone(), query: query.clone() };
                self.control.asked.insert(id, asked);
                let extent = Extent::Begun;
                if !self.readers.open(Opening { question: id, client, path, query, extent }) {
                    let sentence = "too many files wait to be opened".to_owned();
                    let failure = Failure { status: Status::ServiceUnavailable, sentence };
                    self.opened(id, Err(failure));
                }
            }
            Question::SetUp {
                session,
                presentation,
                track,
                offers,
                packet_bytes_max,
                user,
                agent,
                query,
                client: _,
            } => {
                let on = self.control.askers.get(&id).copied().unwrap_or(ConnectionId(0));
                let viewer = Viewer { user, agent, query };
                let wanted = Wanted { session, presentation, track, offers, packet_bytes_max, viewer };
                let answer = self.set_up(on, wanted);
                self.answer(id, answer);
            }
            Question::Play { session, from_ns, until_ns, scale, speed, replay } => {
                let Some(place) = self.sessions.place(session) else {
                    return self.answer(id, Err(Status::SessionNotFound));
                };
                self.cue(place, id, Part { from_ns, until_ns, scale, speed, replay });
            }
        }
    }

    /// A file has been opened, or has not.
    pub(crate) fn opened(&mut self, question: QuestionId, result: Result<Arc<Opened>, Failure>) {
        let asked = self.control.asked.remove(&question);
        // The folders may have changed while the file was opened.
        let result = result.and_then(|opened| {
            let user = asked.as_ref().and_then(|asked| asked.user.as_deref());
            if self.may_go_on(user, &opened) { Ok(opened) } else { Err(no_folder(&opened.path)) }
        });
        let answer = match result {
            Ok(opened) => {
                let remarks = opened.files.iter().filter_map(|file| file.take_remark());
                remarks.for_each(|remark| self.log.say(clock::now_ns(), &remark));
                let presentation = opened.presentation.clone();
                self.control.shown.insert(Arc::as_ptr(&presentation).addr(), opened);
                Ok(Answer::Described(presentation))
            }
            Err(Failure { status, sentence }) => {
                self.log.say(clock::now_ns(), &sentence);
                if let Some(asked) = asked {
                    self.note_refused(&asked, status);
                }
                Err(status)
            }
        };
        self.answer(question, answer);
        self.act(Vec::new(), ConnectionId(0));
    }

    fn set_up(&mut self, on: ConnectionId, wanted: Wanted) -> Result<Answer, Status> {
        let Some(connection) = self.connections.get(on) else { return Err(Status::ServiceUnavailable) };
        let ends = Ends { connection: on, client: connection.client, host: connection.host };
        let ip = ends.client.ip();
        let address = Arc::as_ptr(&wanted.presentation).addr();
        let opened = self.control.shown.get(&address).cloned().ok_or(Status::ServiceUnavailable)?;
        let is_new = self.sessions.place(wanted.session).is_none();
        // Memory is for sessions that play, but a client that could not play now need not begin.
        if is_new && !self.buffers.has_room(opened.bytes_per_second()) {
            return Err(self.without_room());
        }
        let sessions_max = self.settings.sessions_per_address;
        if is_new && !self.connections.admission.admit_session(ip, sessions_max) {
            let sentence =
                format!("{ip} was turned away: it has all the sessions that sessions-per-address allows");
            self.log.say(clock::now_ns(), &sentence);
            return Err(Status::NotEnoughBandwidth);
        }
        let result = self.set_up_track(ends, wanted, opened);
        if is_new && result.is_err() {
            self.connections.admission.leave_session(ip);
        }
        result
    }

    fn without_room(&mut self) -> Status {
        let sentence = "a client was turned away: buffers have no more memory; --memory gives them more";
        self.log.say(clock::now_ns(), sentence);
        Status::NotEnoughBandwidth
    }

    fn set_up_track(&mut self, ends: Ends, wanted: Wanted, opened: Arc<Opened>) -> Result<Answer, Status> {
        let Wanted { session: id, track: number, viewer, .. } = wanted;
        let (transport, answer) = self.choose_transport(ends, id, number, &wanted.offers)?;
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(|_| Status::InternalServerError)?;
        let [a, b, c, d, e, f, g, h, i, j] = random;
        let ssrc = u32::from_be_bytes([a, b, c, d]);
        let track = opened.playlist.items()[0].tracks().get(number).ok_or(Status::NotFound)?;
        let packet_bytes_max = wanted.packet_bytes_max.map_or(usize::MAX, |bytes| bytes as usize);
        let setup = Setup {
            track: number,
            format: track.format,
            payload_type: track.codec.payload_type(number),
            clock_rate: track.codec.clock_rate(),
            ssrc,
            sequence: u16::from_be_bytes([i, j]),
            timestamp: u32::from_be_bytes([e, f, g, h]),
            packet_bytes_max: packet_bytes_max.min(self.settings.packet_bytes),
            is_video: is_video(&track.codec),
            needs_sync: !track.index().is_all_sync(),
            is_paced: matches!(transport, TrackTransport::Udp { .. }),
            is_bundled: matches!(track.format, Format::Aac | Format::MpegAudio),
        };
        let place = match self.sessions.place(id) {
            Some(place) => place,
            None => self.sessions.insert(id, ends.client.ip(), opened, self.settings.buffers),
        };
        let session = &mut self.sessions[place];
        session.viewer.get_or_insert(viewer);
        self.reports.expect(&transport, id);
        // Most have one or two, and there are thousands of sessions.
        session.transports.reserve_exact(1);
        session.transports.push((number, transport));
        session.stream.add_sender(setup);
        Ok(Answer::SetUp { transport: answer, ssrc })
    }

    /// Gets ready what is to be played, and answers when it is.
    fn cue(&mut self, place: usize, question: QuestionId, part: Part) {
        if self.is_deferred(place, question, part) {
            return;
        }
        let session = &mut self.sessions[place];
        let tracks = session.tracks();
        let media = &session.opened.playlist.items()[0];
        let has_pictures =
            tracks.iter().any(|track| media.tracks().get(*track).is_some_and(|track| is_video(&track.codec)));
        let is_tcp = session.transports.iter().all(|(_, one)| matches!(one, TrackTransport::Tcp { .. }));
        let pace = Pace::near(&part, has_pictures, is_tcp);
        if !self.buffers.charge(session, &tracks, pace) {
            let status = self.without_room();
            return self.answer(question, Err(status));
        }
        // From here on in positions of the program, not of the client.
        let in_program = |ns: u64| ns.saturating_add(session.opened.origin_ns);
        let asked_ns = part.from_ns.map(in_program);
        let is_as_asked = pace.is_backwards() == (part.scale < 0.0);
        let until_ns = part.until_ns.filter(|_| is_as_asked).map(in_program);
        let is_resumed = part.from_ns.is_none() && part.until_ns.is_none() && session.stopped_ns.is_some();
        let until_ns = if is_resumed { session.until_ns } else { until_ns };
        let are_others = session.stream.drop_released() || session.program_tracks != tracks;
        let goes_on = part.from_ns.is_none()
            && part.until_ns.is_none()
            && !are_others
            && session.pace.goes_on_as(&pace);
        let from_ns = match session.stopped_ns.filter(|_| goes_on) {
            Some(stopped_ns) => stopped_ns,
            None => {
                let playlist = &session.opened.playlist;
                let wanted_ns = asked_ns.or(session.stopped_ns);
                let choice = Choice { tracks: tracks.clone(), until_ns, frames: pace.frames };
                let (from_ns, course) = if pace.is_backwards() {
                    let from_ns = wanted_ns.unwrap_or(playlist.end_ns()).min(playlist.end_ns());
                    (from_ns, Course::backwards(playlist.backwards(choice, from_ns)))
                } else {
                    let from_ns = playlist.seek(&tracks, wanted_ns.unwrap_or(session.opened.origin_ns));
                    (from_ns, Course::forwards(playlist.program(choice, from_ns)))
                };
                session.stream.empty();
                session.program = Some(Box::new(course.peekable()));
                session.program_tracks = tracks;
                session.is_beginning = true;
                (session.until_ns, session.pace) = (until_ns, pace);
                self.sessions.begin_life(place);
                from_ns
            }
        };
        let session = &mut self.sessions[place];
        (session.bye_ns, session.stopped_ns) = (None, Some(from_ns));
        let cue = Cue { question, from_ns, speed: pace.speed, replay: part.replay };
        // The connection of an earlier PLAY is gone: its question needs no answer.
        if let Some(earlier) = session.cue.replace(cue) {
            self.control.askers.remove(&earlier.question);
        }
        self.buffers.reclaim(session);
        self.buffers.want(session, clock::now_ns());
        self.answer_cue(place);
    }

    /// Whether a PLAY has to wait until the index of its file has come as far as its client wants to begin.
    fn is_deferred(&mut self, place: usize, question: QuestionId, part: Part) -> bool {
        let session = &mut self.sessions[place];
        let end_ns = || session.opened.presentation.duration_ns.filter(|_| part.is_backwards());
        let from_ns = part.from_ns.or_else(end_ns);
        let wanted_ns = from_ns.map(|ns| ns.saturating_add(session.opened.origin_ns));
        let has_come = wanted_ns.is_none_or(|wanted_ns| session.opened.playlist.reaches(wanted_ns));
        let deferred = (!has_come).then_some((question, part));
        let earlier = std::mem::replace(&mut session.deferred, deferred);
        if let Some((earlier, _)) = earlier.filter(|(earlier, _)| *earlier != question) {
            self.control.askers.remove(&earlier);
        }
        if !has_come {
            session.waits_until_ns = clock::now_ns() + DEFERRED_NS;
            self.sessions.set_timer(place);
        }
        !has_come
    }

    /// Tries again what waited for the index of a file.
    pub(crate) fn retry(&mut self, place: usize) {
        let deferred = self.sessions.get(place).and_then(|session| session.deferred);
        if let Some((question, part)) = deferred {
            self.cue(place, question, part);
            self.act(Vec::new(), ConnectionId(0));
        }
    }

    /// A buffer has been filled, or has not.
    pub(crate) fn filled(&mut self, key: Key, mut filled: Filling) {
        let Some(session) = self.sessions.of(key) else { return self.buffers.reclaim_filled(filled) };
        let now_ns = clock::now_ns();
        let result = std::mem::replace(&mut filled.result, Ok(Reading::default()));
        let reading = match result {
            Ok(reading) => reading,
            Err(sentence) => {
                let (id, cue) = (session.id, session.cue.take());
                self.buffers.reclaim_filled(filled);
                if let Some(cue) = cue {
                    self.answer(cue.question, Err(Status::InternalServerError));
                }
                self.log.say(now_ns, &sentence);
                let actions = self.server.end(id);
                return self.act(actions, ConnectionId(0));
            }
        };
        self.buffers.note_reading(session, reading);
        session.stream.put_filled(filled.buffer);
        let (is_playing, is_waited_for) = (session.is_playing(), session.next == Next::Buffer);
        self.buffers.want(session, now_ns);
        if !is_playing {
            self.answer_cue(key.place);
            self.act(Vec::new(), ConnectionId(0));
        } else if is_waited_for {
            // A session that waits for nothing has a timer that rings when something is due.
            self.prepare(key.place, now_ns);
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
        let recorded_ns = session.opened.presentation.recorded_ns.unwrap_or_default();
        session.stream.set_replay(cue.replay.map(|replay| {
            stream::Replay {
                epoch_ns: i64::try_from(recorded_ns)
                    .unwrap_or(i64::MAX)
                    .saturating_sub_unsigned(session.opened.origin_ns),
                cseq: replay.cseq,
                is_paced: session.pace.is_kept,
                is_predicted_only: session.pace.frames == Frames::Predicted,
            }
        }));
        session.stream.cue(cue.from_ns, now_ns - epoch_ns, session.pace.scale, cue.speed);
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
        let end_ns =
            if session.pace.is_backwards() { Some(0) } else { session.opened.presentation.duration_ns };
        let playing = Playing {
            from_ns: of_client(cue.from_ns),
            until_ns: session.until_ns.map(of_client).or(end_ns),
            scale: session.pace.scale,
            speed: cue.speed,
            is_paced: session.pace.is_kept,
            first: first(&session.stream),
        };
        self.answer(cue.question, Ok(Answer::Playing(playing)));
    }

    fn start(&mut self, id: SessionId) {
        let Some(place) = self.sessions.place(id) else { return };
        let now_ns = clock::now_ns();
        let session = &mut self.sessions[place];
        session.stream.start(now_ns);
        // The first report tells how the clocks of tracks belong together.
        session.report_ns = Some(now_ns);
        self.look_at(place, now_ns);
    }

    fn stop(&mut self, id: SessionId) {
        let Some(place) = self.sessions.place(id) else { return };
        let now_ns = clock::now_ns();
        let session = &mut self.sessions[place];
        session.stopped_ns = session.stream.position_ns(now_ns).or(session.stopped_ns);
        session.stream.stop();
        (session.report_ns, session.bye_ns) = (None, None);
        self.buffers.note_stopped(session);
        self.look_at(place, now_ns);
    }

    fn release(&mut self, id: SessionId, track: usize) {
        let Some(place) = self.sessions.place(id) else { return };
        let session = &mut self.sessions[place];
        session.stream.release(track);
        session.receptions.clear();
        for (_, transport) in session.transports.extract_if(.., |(number, _)| *number == track) {
            self.reports.forget(&transport, id);
        }
        // Else a client could set up tracks again and again.
        if session.is_idle() {
            self.buffers.take_all(place, &mut self.sessions);
            self.sessions[place].stream.drop_released();
        }
    }

    fn end(&mut self, id: SessionId) {
        let Some(place) = self.sessions.place(id) else { return };
        self.send_goodbyes(place);
        self.buffers.release(&mut self.sessions[place]);
        let session = self.sessions.remove(place);
        self.note_access(&session);
        self.connections.admission.leave_session(session.client);
        // A client that went away before its PLAY was answered gets no answer.
        let questions = [session.cue.map(|cue| cue.question), session.deferred.map(|(question, _)| question)];
        for question in questions.iter().flatten() {
            self.control.askers.remove(question);
        }
        for (_, transport) in &session.transports {
            self.reports.forget(transport, id);
        }
    }
}

impl Serving {
    /// The line of a session that ended, if it ever played.
    fn note_access(&mut self, session: &Session) {
        let Some(access_log) = &self.access_log else { return };
        let is_tcp = session.transports.iter().any(|(_, one)| matches!(one, TrackTransport::Tcp { .. }));
        let duration = Duration::from_nanos(clock::now_ns().saturating_sub(session.begun_ns));
        let viewer = session.viewer.as_ref();
        let access = Access {
            client: session.client,
            user: viewer.and_then(|viewer| viewer.user.as_deref()),
            agent: viewer.and_then(|viewer| viewer.agent.as_deref()),
            method: "PLAY",
            path: &session.opened.path,
            query: viewer.map_or("", |viewer| &viewer.query),
            status: 200,
            session: Some((if is_tcp { "TCP" } else { "UDP" }, duration, session.stream.counts())),
        };
        access_log.line(access.line(SystemTime::now()));
    }

    /// The line of a request that was refused.
    fn note_refused(&mut self, asked: &Asked, status: Status) {
        let Some(access_log) = &self.access_log else { return };
        let access = Access {
            client: asked.client,
            user: asked.user.as_deref(),
            agent: None,
            method: "DESCRIBE",
            path: &asked.path,
            query: &asked.query,
            status: status.code(),
            session: None,
        };
        access_log.line(access.line(SystemTime::now()));
    }
}

/// A track that a client wants set up.
struct Wanted {
    session: SessionId,
    presentation: Arc<Presentation>,
    track: usize,
    offers: Vec<Offer>,
    packet_bytes_max: Option<u32>,
    viewer: Viewer,
}

/// A file that a client has asked for.
struct Asked {
    client: IpAddr,
    user: Option<String>,
    path: String,
    query: String,
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use crate::rig::{Rig, SETUP, session};

    #[test]
    fn a_client_that_leaves_before_the_answer_leaves_nothing_behind() {
        let mut rig = Rig::with(|_| {});
        let mut stream = rig.connect(None);
        let response = rig.ask(&mut stream, SETUP);
        let session = session(&response);
        write!(stream, "PLAY rtsp://h/a.aac RTSP/1.0\r\nCSeq: 2\r\nSession: {session}\r\n\r\n")
            .expect("a request");
        drop(stream);
        rig.turn_until("the connection is gone", |serving| serving.connections.len() == 0);
        assert_eq!((rig.serving.sessions.len(), rig.serving.control.askers.len()), (0, 0));
    }

    #[test]
    fn without_memory_a_play_is_refused_and_sessions_that_play_go_on() {
        // The least that a session has is a buffer of a tenth of a second, and what is left when it asks for another: 5.7 KB.
        let mut rig = Rig::with(|settings| settings.memory_bytes = 15_000);
        let mut clients: Vec<_> = (0..3).map(|_| rig.connect(None)).collect();
        let sessions: Vec<String> =
            clients.iter_mut().map(|client| session(&rig.ask(client, SETUP)).to_owned()).collect();
        let play = |session: &str, more: &str| {
            format!("PLAY rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\nRange: npt=0-\n{more}\n")
        };
        for (number, status) in [(0, "200"), (1, "200"), (2, "453")] {
            let response = rig.ask(&mut clients[number], &play(&sessions[number], ""));
            assert!(response.starts_with(&format!("RTSP/1.0 {status} ")), "{number}: {response}");
        }
        let mut late = rig.connect(None);
        assert!(rig.ask(&mut late, SETUP).starts_with("RTSP/1.0 453 "));
        let share = rig.serving.sessions[0].share;
        clients[0]
            .write_all(play(&sessions[0], "Speed: 16\n").replace('\n', "\r\n").as_bytes())
            .expect("a request");
        let mut said = Vec::new();
        rig.turn_until("the faster PLAY is refused", |_| {
            let mut buffer = [0; 2000];
            let count = clients[0].read(&mut buffer).unwrap_or_default();
            said.extend_from_slice(&buffer[..count]);
            String::from_utf8_lossy(&said).contains("RTSP/1.0 453 ")
        });
        assert_eq!(rig.serving.sessions[0].share, share);
        assert!(rig.serving.sessions[0].is_playing(), "it plays as before");
    }

    #[test]
    fn a_track_that_is_set_up_again_and_again_is_one_track() {
        let mut rig = Rig::with(|_| {});
        let mut client = rig.connect(None);
        let first = rig.ask(&mut client, SETUP);
        let session = format!("CSeq: 2\nSession: {}\n", session(&first));
        let of_session = |request: &str| request.replace("CSeq: 1\n", &session);
        let play = of_session("PLAY rtsp://h/a.aac?loop RTSP/1.0\nCSeq: 1\nRange: npt=0-\n\n");
        let pause = of_session("PAUSE rtsp://h/a.aac RTSP/1.0\nCSeq: 1\n\n");
        for request in [&of_session(SETUP), &of_session(SETUP), &play, &pause, &of_session(SETUP), &play] {
            let mut said = rig.ask(&mut client, request);
            // Packets may come before; within so many reads the response comes.
            for _ in 0..1000 {
                if said.contains("RTSP/1.0 200 OK") {
                    break;
                }
                assert!(!said.contains("RTSP/1.0 4"), "{said}");
                said += &rig.ask(&mut client, "");
            }
            assert!(said.contains("RTSP/1.0 200 OK"), "{said}");
            assert_eq!(rig.serving.sessions[0].stream.senders().len(), 1);
        }
        assert!(rig.serving.sessions[0].is_playing(), "it plays");
    }

    #[test]
    fn one_address_has_so_many_sessions_and_others_have_theirs() {
        let mut rig = Rig::with(|settings| settings.sessions_per_address = 2);
        let mut one = rig.connect(Some("192.0.2.1:1000"));
        let first = rig.ask(&mut one, SETUP);
        let unsupported = SETUP.replace("RTP/AVP/TCP;interleaved=0-1", "RTP/AVP;multicast");
        for (request, status) in [(&*unsupported, "461"), (SETUP, "200"), (SETUP, "453")] {
            let response = rig.ask(&mut one, request);
            assert!(response.starts_with(&format!("RTSP/1.0 {status} ")), "{response}");
        }
        let mut other = rig.connect(Some("192.0.2.2:1000"));
        assert!(rig.ask(&mut other, SETUP).starts_with("RTSP/1.0 200 "));
        let session = session(&first);
        let end = format!("TEARDOWN rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\n\n");
        assert!(rig.ask(&mut one, &end).starts_with("RTSP/1.0 200 "));
        assert!(rig.ask(&mut one, SETUP).starts_with("RTSP/1.0 200 "));
    }
}
