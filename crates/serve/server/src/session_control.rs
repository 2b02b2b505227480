//! What clients ask for, done in the order in which they ask: files to describe, and answers to what the RTSP machine asks.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay_rtsp::message::Status;
use forebay_rtsp::server::{Action, Answer, ConnectionId, Question, QuestionId};

use crate::access_log::{self, Access};
use crate::catalog::{Extent, Failure, Opened};
use crate::clock;
use crate::event_loop::Serving;
use crate::folders::no_folder;
use crate::openers::Opening;
use crate::sessions::{Part, Session, Viewer};
use crate::set_up::Wanted;
use crate::settings::Folder;
use crate::transport::TrackTransport;

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
    pub(crate) shown: HashMap<usize, Arc<Opened>>,
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
                    self.say_wrong_password(client, &user, wrong);
                    if !self.name_in_line(on, Some(&user)) {
                        let (path, query) = Default::default();
                        let asked = Asked { client, user: Some(user), path, query };
                        self.note_refused(&asked, Status::Unauthorized);
                    }
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
                opened.take_remarks().for_each(|remark| self.log.say(clock::now_ns(), &remark));
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

    /// The line of a session that ended, if it ever played.
    pub(crate) fn note_access(&mut self, session: &Session) {
        let Some(access_log) = &self.access_log else { return };
        let is_tcp = session.transports.iter().any(|(_, one)| matches!(one, TrackTransport::Tcp { .. }));
        let duration = Duration::from_nanos(clock::now_ns().saturating_sub(session.begun_ns));
        let viewer = session.viewer.as_ref();
        let counts = session.stream.counts();
        let query = viewer.map_or("", |viewer| &viewer.query);
        let access = Access {
            client: session.client,
            user: viewer.and_then(|viewer| viewer.user.as_deref()),
            agent: viewer.and_then(|viewer| viewer.agent.as_deref()),
            method: "PLAY",
            target: &access_log::target(&session.opened.path, query),
            protocol: access_log::RTSP,
            status: 200,
            bytes: counts.bytes,
            session: Some((if is_tcp { "TCP" } else { "UDP" }, duration, counts)),
        };
        access_log.line(access.line(SystemTime::now()));
    }

    pub(crate) fn say_wrong_password(&mut self, client: IpAddr, user: &str, wrong: u32) {
        let sentence =
            format!("{client}: wrong password for user {user}; {wrong} wrong ones from there of late");
        self.log.say(clock::now_ns(), &sentence);
    }

    /// The line of a request that was refused.
    fn note_refused(&mut self, asked: &Asked, status: Status) {
        let Some(access_log) = &self.access_log else { return };
        let access = Access {
            client: asked.client,
            user: asked.user.as_deref(),
            agent: None,
            method: "DESCRIBE",
            target: &access_log::target(&asked.path, &asked.query),
            protocol: access_log::RTSP,
            status: status.code(),
            bytes: 0,
            session: None,
        };
        access_log.line(access.line(SystemTime::now()));
    }
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
    use std::io::Write;

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
}
