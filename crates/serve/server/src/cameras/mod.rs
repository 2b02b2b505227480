//! Cameras that films play: which session watches which camera, and what the server sends to it.
//!
//! `forebay-cameras` says what a camera sends and when. Each camera has one timeline for all of its viewers, which stands still
//! while there are none: it can be entered at any time.

mod loading;
mod onvif;
mod sending;
mod waiting;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay_cameras::{Plan, Script, Timeline};
use forebay_rtsp::authentication::Secret;
use forebay_rtsp::message::Status;
use forebay_rtsp::presentation::Presentation;
use forebay_rtsp::server::{
    Action, Answer, ConnectionId, FirstPacket, Playing, Question, QuestionId, SessionId,
};
use forebay_rtsp::transport::Offer;
use forebay_streaming::stream::Counts;

use crate::access_log::{self, Access};
use crate::clock;
use crate::error::{Result, to};
use crate::event_loop::Serving;
use crate::readers::Mailbox;
use crate::sessions;
use crate::settings::User;
use crate::transport::{Ends, TrackTransport};
pub use forebay_cameras::onvif::discovery::PORT as DISCOVERY_PORT;
pub use loading::{epoch, list, read_script};
use onvif::Face;
pub(crate) use onvif::Guess;
use sending::Outgoing;

/// Which cameras there are.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraSettings {
    /// What they play: camera `n` the film `(n - 1) % films`.
    pub films: Vec<PathBuf>,
    /// How many.
    pub count: u32,
    /// What all chance comes from.
    pub seed: u64,
    /// When their timelines begin, since 1970; without it, when the server starts.
    pub epoch_unix_ns: Option<u64>,
    /// Names, users and faults.
    pub script: Script,
    /// What all films together may take of memory.
    pub memory_bytes: u64,
    /// Where ONVIF clients are answered, if they are.
    pub onvif: Option<SocketAddr>,
    /// Where their probes are heard.
    pub discovery: SocketAddr,
}

/// The memory for films, where no other is chosen.
pub const FILM_BYTES: u64 = 1 << 30;

/// All cameras and their viewers.
pub(crate) struct Cameras {
    plan: Arc<Plan>,
    presentations: Vec<Arc<Presentation>>,
    /// What is added to the server's time for the time from the epoch.
    since_epoch_ns: i64,
    live: Vec<Live>,
    viewers: HashMap<SessionId, Viewer>,
    /// When which camera has something to send, in time from the epoch; those without viewers have nothing.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    outgoing: Outgoing,
    /// What viewers have got that are gone.
    past: Counts,
}

/// Where ONVIF clients are answered, and where their probes are heard.
#[derive(Debug)]
pub struct Shown {
    /// HTTP.
    pub http: SocketAddr,
    /// WS-Discovery, or why cameras cannot be discovered.
    pub discovery: io::Result<SocketAddr>,
}

/// A camera as long as the server runs.
#[derive(Default)]
struct Live {
    timeline: Option<Timeline>,
    sessions: Vec<SessionId>,
    /// Whether it is among those that are due at some time.
    is_due: bool,
}

/// A session that watches a camera.
struct Viewer {
    camera: usize,
    client: IpAddr,
    connection: ConnectionId,
    is_tcp: bool,
    begun_ns: u64,
    described: sessions::Viewer,
    tracks: Vec<ViewedTrack>,
    is_playing: bool,
    counts: Counts,
}

/// A track as one viewer gets it.
struct ViewedTrack {
    number: usize,
    transport: TrackTransport,
    /// Whether it gets packets now: from the first key frame on, unless its connection is full.
    is_on: bool,
}

impl Cameras {
    pub fn new(plan: Plan, epoch_unix_ns: u64) -> Self {
        let presentation = |camera: &Arc<forebay_cameras::Camera>| {
            Arc::new(camera.film.presentation(camera.name.clone(), camera.number.into()))
        };
        let presentations = plan.cameras().iter().map(presentation).collect();
        let live = plan.cameras().iter().map(|_| Live::default()).collect();
        let since_epoch_ns =
            i128::from(clock::unix_ns()) - i128::from(epoch_unix_ns) - i128::from(clock::now_ns());
        Self {
            plan: Arc::new(plan),
            presentations,
            since_epoch_ns: since_epoch_ns as i64,
            live,
            viewers: HashMap::new(),
            due: BinaryHeap::new(),
            outgoing: Outgoing::default(),
            past: Counts::default(),
        }
    }

    /// Answers ONVIF clients from now on, and their probes where those can be heard.
    pub fn show(
        &self,
        settings: &CameraSettings,
        listener: TcpListener,
        rtsp: SocketAddr,
        mailbox: Mailbox,
    ) -> Result<Shown> {
        let http = listener.local_addr().map_err(to("a socket"))?;
        let http_port = http.port();
        let face = Face {
            plan: self.plan.clone(),
            since_epoch_ns: self.since_epoch_ns,
            rtsp_port: rtsp.port(),
            http_port,
            guesses: Arc::default(),
            pull_points: Arc::default(),
            waiting: Arc::default(),
            mailbox,
        };
        face.clone().serve(listener)?;
        let discovery = onvif::discovery_socket(settings.discovery).and_then(|socket| {
            let address = socket.local_addr()?;
            face.discover(socket)?;
            Ok(address)
        });
        Ok(Shown { http, discovery })
    }

    /// Those that may watch cameras.
    pub fn users(&self) -> Vec<User> {
        let user = |(login, paths): (forebay_cameras::Login, Vec<String>)| User {
            name: login.user,
            secret: Secret::Password(login.password),
            paths,
        };
        self.plan.logins().into_iter().flatten().map(user).collect()
    }

    /// How many sessions watch, and how many of them are being sent.
    pub fn viewers(&self) -> (usize, usize) {
        (self.viewers.len(), self.viewers.values().filter(|viewer| viewer.is_playing).count())
    }

    /// What all viewers have got so far.
    pub fn counts(&self) -> Counts {
        self.viewers.values().fold(self.past, |mut sum, viewer| {
            sum.add(viewer.counts);
            sum
        })
    }

    /// The time from the epoch.
    fn at(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add_signed(self.since_epoch_ns)
    }

    fn describe(&self, path: &str, now_ns: u64) -> Result<Answer, Status> {
        let place = self.plan.place(path).ok_or(Status::NotFound)?;
        if self.plan.cameras()[place].refuses(self.at(now_ns)) {
            return Err(Status::Unauthorized);
        }
        Ok(Answer::Described(self.presentations[place].clone()))
    }

    /// Where a session will go on: where its camera is.
    fn play(&mut self, session: SessionId, now_ns: u64) -> Result<Answer, Status> {
        let at_ns = self.at(now_ns);
        let viewer = self.viewers.get(&session).ok_or(Status::SessionNotFound)?;
        let place = viewer.camera;
        let tracks: Vec<usize> = viewer.tracks.iter().map(|track| track.number).collect();
        let camera = self.plan.cameras()[place].clone();
        let sequences = self.timeline(place, at_ns).first_sequences();
        let first = |track: usize| {
            let sequence = sequences.get(track).copied().flatten()?;
            Some(FirstPacket { track, sequence, timestamp: camera.timestamp(track, at_ns) })
        };
        let first = tracks.into_iter().filter_map(first).collect();
        Ok(Answer::Playing(Playing {
            from_ns: 0,
            until_ns: None,
            scale: 1.0,
            speed: 1.0,
            is_paced: true,
            first,
        }))
    }

    /// The timeline of a camera, as far as it is at this time.
    fn timeline(&mut self, place: usize, at_ns: u64) -> &mut Timeline {
        let live = &mut self.live[place];
        let camera = &self.plan.cameras()[place];
        let timeline = live.timeline.get_or_insert_with(|| Timeline::new(camera.clone()));
        if !live.is_due {
            timeline.skip_to(at_ns);
        }
        timeline
    }

    fn start(&mut self, session: SessionId, now_ns: u64) {
        let at_ns = self.at(now_ns);
        let Some(viewer) = self.viewers.get_mut(&session) else { return };
        viewer.is_playing = true;
        viewer.tracks.iter_mut().for_each(|track| track.is_on = false);
        let place = viewer.camera;
        let due_ns = self.timeline(place, at_ns).due_ns();
        if !std::mem::replace(&mut self.live[place].is_due, true) {
            self.due.push(Reverse((due_ns, place)));
        }
    }
}

impl Serving {
    /// Answers a question about a camera; gives back any other one.
    pub(crate) fn ask_camera(&mut self, id: QuestionId, question: Question) -> Option<Question> {
        let Some(cameras) = &mut self.cameras else { return Some(question) };
        let now_ns = clock::now_ns();
        let answer = match question {
            Question::Describe { path, .. } => cameras.describe(&path, now_ns),
            Question::Play { session, .. } => cameras.play(session, now_ns),
            Question::SetUp { session, presentation, track, offers, user, agent, query, .. } => {
                let described = sessions::Viewer { user, agent, query };
                let on = self.control.askers.get(&id).copied().unwrap_or(ConnectionId(0));
                self.set_up_camera(on, session, (&presentation, track), &offers, described)
            }
        };
        self.answer(id, answer);
        None
    }

    /// Does what concerns viewers of cameras; gives back any other action.
    pub(crate) fn act_on_camera(&mut self, action: Action) -> Option<Action> {
        let cameras = self.cameras.as_mut()?;
        let now_ns = clock::now_ns();
        match action {
            Action::Start { session } => cameras.start(session, now_ns),
            Action::Stop { session } => {
                cameras.viewers.get_mut(&session).into_iter().for_each(|viewer| viewer.is_playing = false);
            }
            Action::Release { session, track } => {
                let viewer = cameras.viewers.get_mut(&session)?;
                for released in viewer.tracks.extract_if(.., |one| one.number == track) {
                    self.reports.forget(&released.transport, session);
                }
            }
            Action::End { session } => self.end_viewer(session),
            other => return Some(other),
        }
        None
    }

    fn set_up_camera(
        &mut self,
        on: ConnectionId,
        session: SessionId,
        (presentation, track): (&Arc<Presentation>, usize),
        offers: &[Offer],
        described: sessions::Viewer,
    ) -> Result<Answer, Status> {
        let cameras = self.cameras.as_ref().ok_or(Status::NotFound)?;
        let connection = self.connections.get(on).ok_or(Status::ServiceUnavailable)?;
        let ends = Ends { connection: on, client: connection.client, host: connection.host };
        let client = ends.client.ip();
        // A camera's presentation has its name as the title.
        let camera = cameras.plan.place(&presentation.title).ok_or(Status::NotFound)?;
        let ssrc = cameras.plan.cameras()[camera].ssrc(track).ok_or(Status::NotFound)?;
        let is_new = !cameras.viewers.contains_key(&session);
        let (transport, answer) = self.choose_transport(ends, session, track, offers)?;
        if is_new && !self.connections.admission.admit_session(client, self.settings.sessions_per_address) {
            return Err(Status::NotEnoughBandwidth);
        }
        self.reports.expect(&transport, session);
        let is_tcp = matches!(transport, TrackTransport::Tcp { .. });
        let cameras = self.cameras.as_mut().ok_or(Status::NotFound)?;
        if is_new {
            cameras.live[camera].sessions.push(session);
        }
        let viewer = cameras.viewers.entry(session).or_insert_with(|| Viewer {
            camera,
            client,
            connection: on,
            is_tcp,
            begun_ns: clock::now_ns(),
            described,
            tracks: Vec::new(),
            is_playing: false,
            counts: Counts::default(),
        });
        viewer.tracks.push(ViewedTrack { number: track, transport, is_on: false });
        Ok(Answer::SetUp { transport: answer, ssrc })
    }

    /// Notes a wrong password of an ONVIF client.
    pub(crate) fn note_guess(&mut self, guess: &Guess) {
        let Guess { client, path, status, wrong_password } = guess;
        self.say_wrong_password(*client, &wrong_password.user, wrong_password.wrong);
        let Some(access_log) = &self.access_log else { return };
        let access = Access {
            client: *client,
            user: Some(&wrong_password.user),
            agent: None,
            method: "POST",
            target: path,
            protocol: access_log::HTTP,
            status: *status,
            bytes: 0,
            session: None,
        };
        access_log.line(access.line(SystemTime::now()));
    }

    fn end_viewer(&mut self, session: SessionId) {
        let Some(cameras) = &mut self.cameras else { return };
        let Some(viewer) = cameras.viewers.remove(&session) else { return };
        cameras.past.add(viewer.counts);
        cameras.live[viewer.camera].sessions.retain(|one| *one != session);
        let path = cameras.plan.cameras()[viewer.camera].name.clone();
        self.connections.admission.leave_session(viewer.client);
        viewer.tracks.iter().for_each(|track| self.reports.forget(&track.transport, session));
        let Some(access_log) = &self.access_log else { return };
        let duration = Duration::from_nanos(clock::now_ns().saturating_sub(viewer.begun_ns));
        let access = Access {
            client: viewer.client,
            user: viewer.described.user.as_deref(),
            agent: viewer.described.agent.as_deref(),
            method: "PLAY",
            target: &access_log::target(&path, &viewer.described.query),
            protocol: access_log::RTSP,
            status: 200,
            bytes: viewer.counts.bytes,
            session: Some((if viewer.is_tcp { "TCP" } else { "UDP" }, duration, viewer.counts)),
        };
        access_log.line(access.line(SystemTime::now()));
    }
}
