//! A server with two films, whose questions are answered as a caller would.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use forebay_rtsp::key::Key;
use forebay_rtsp::message::Status;
use forebay_rtsp::presentation::{Codec, Presentation, Track};
use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::server::{
    Action, Answer, Config, ConnectionId, FirstPacket, Playing, Question, QuestionId, Server,
};
use forebay_rtsp::transport::{Offer, Transport};
use rtsp_types::{HeaderName, Message, ParseError};

pub type Response = rtsp_types::Response<Vec<u8>>;

/// What the server did, with its responses read by another's parser.
#[derive(Debug, PartialEq)]
pub enum Done {
    Said(u64, Response),
    Closed(u64),
    Started(u64),
    Stopped(u64),
    Released(u64, usize),
    Ended(u64),
    Reported(u64, usize, Vec<u8>),
    /// So many wrong passwords have come.
    Refused(u32),
    /// Not what a user may watch.
    Forbidden(String),
}

pub struct World {
    pub server: Server,
    pub now_ns: u64,
    /// Whether questions stay open until [`World::answer`].
    pub is_slow: bool,
    pub open: Vec<(QuestionId, Question)>,
}

/// Positions from here on leave no room to play on.
const END_NS: u64 = 1 << 62;

/// `film.mp4` has two tracks and 100 seconds, recorded at a known time; `loop.ts` has one and no end; `endless.mp4` has none
/// either, and can be sought in.
pub fn presentation(path: &str) -> Result<Arc<Presentation>, Status> {
    let track = |codec| Track { codec, bits_per_second: None };
    let film = Presentation {
        title: path.to_owned(),
        version: 1,
        tracks: vec![
            track(Codec::H264 { sps: vec![vec![0x67, 0x64, 0, 0x1F]], pps: vec![vec![0x68, 1]] }),
            track(Codec::Aac { config: vec![0x12, 0x10], clock_rate: 44_100, channels: 2 }),
        ],
        duration_ns: Some(100 * SECOND_NS),
        recorded_ns: Some(1_000_000_000 * SECOND_NS),
        is_seekable: true,
    };
    match path {
        "film.mp4" | "open.mp4" => Ok(Arc::new(film)),
        "loop.ts" => Ok(Arc::new(Presentation {
            tracks: vec![track(Codec::MpegTransport)],
            duration_ns: None,
            recorded_ns: None,
            is_seekable: false,
            ..film
        })),
        "endless.mp4" => Ok(Arc::new(Presentation { duration_ns: None, recorded_ns: None, ..film })),
        "broken.mp4" => Err(Status::UnsupportedMediaType),
        _ => Err(Status::NotFound),
    }
}

pub fn answer(question: &Question) -> Result<Answer, Status> {
    match question {
        Question::Describe { path, .. } => presentation(path).map(Answer::Described),
        Question::SetUp { offers, track, .. } => {
            let transport = match &offers[0] {
                Offer::Udp { client, .. } => Transport::Udp { client: *client, server: (6000, 6001) },
                Offer::Multicast { .. } => return Err(Status::UnsupportedTransport),
                Offer::Interleaved { channels } => {
                    Transport::Interleaved { channels: channels.expect("channels are chosen") }
                }
            };
            Ok(Answer::SetUp { transport, ssrc: 0xA0 + *track as u32 })
        }
        Question::Play { from_ns, until_ns, scale, speed, replay, .. } => {
            assert!(from_ns.is_none_or(|ns| ns < END_NS), "no film can be played from there: {from_ns:?}");
            assert!(*speed > 0.0 && speed.is_finite() && *scale != 0.0 && scale.is_finite());
            Ok(Answer::Playing(Playing {
                from_ns: from_ns.unwrap_or(0),
                until_ns: *until_ns,
                scale: *scale,
                speed: *speed,
                is_paced: replay.is_none_or(|replay| replay.is_paced),
                first: vec![
                    FirstPacket { track: 0, sequence: 10, timestamp: 1000 },
                    FirstPacket { track: 1, sequence: 20, timestamp: 2000 },
                ],
            }))
        }
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(Server::new(Config::new(Key([3; 32])), None))
    }

    pub fn with(server: Server) -> Self {
        let mut world = Self { server, now_ns: 0, is_slow: false, open: vec![] };
        world.connect(1, [192, 0, 2, 1]);
        world
    }

    pub fn connect(&mut self, connection: u64, client: [u8; 4]) {
        let id = ConnectionId(connection);
        self.server.connected(id, client.into(), [198, 51, 100, 1].into(), false, self.now_ns);
    }

    pub fn receive(&mut self, connection: u64, bytes: &[u8]) -> Vec<Done> {
        let actions = self.server.received(ConnectionId(connection), bytes, self.now_ns);
        self.carry_out(actions)
    }

    /// The only response to a request, and what was done beside it.
    pub fn request(&mut self, connection: u64, text: &str) -> (Response, Vec<Done>) {
        let mut done = self.receive(connection, text.replace('\n', "\r\n").as_bytes());
        let is_said = |one: &Done| matches!(one, Done::Said(to, _) if *to == connection);
        let at = done.iter().position(is_said).unwrap_or_else(|| panic!("no response to {text}: {done:?}"));
        let Done::Said(_, response) = done.remove(at) else { unreachable!() };
        assert!(!done.iter().any(|one| matches!(one, Done::Said(..))), "two responses to {text}: {done:?}");
        (response, done)
    }

    pub fn status(&mut self, connection: u64, text: &str) -> u16 {
        self.request(connection, text).0.status().into()
    }

    pub fn elapse(&mut self, seconds: u64) -> Vec<Done> {
        self.now_ns += seconds * SECOND_NS;
        let actions = self.server.elapsed(self.now_ns);
        self.carry_out(actions)
    }

    pub fn disconnect(&mut self, connection: u64) -> Vec<Done> {
        let actions = self.server.disconnected(ConnectionId(connection));
        self.carry_out(actions)
    }

    /// The oldest question that is open.
    pub fn answer(&mut self) -> Vec<Done> {
        let (id, question) = self.open.remove(0);
        self.answer_with(id, answer(&question))
    }

    pub fn answer_with(&mut self, id: QuestionId, answer: Result<Answer, Status>) -> Vec<Done> {
        let actions = self.server.answer(id, answer, self.now_ns);
        self.carry_out(actions)
    }

    fn carry_out(&mut self, actions: Vec<Action>) -> Vec<Done> {
        let mut done = vec![];
        for action in actions {
            match action {
                Action::Send { connection, bytes } => done.push(Done::Said(connection.0, parse(&bytes))),
                Action::Close { connection } => done.push(Done::Closed(connection.0)),
                Action::Start { session } => done.push(Done::Started(session.0)),
                Action::Stop { session } => done.push(Done::Stopped(session.0)),
                Action::Release { session, track } => done.push(Done::Released(session.0, track)),
                Action::End { session } => done.push(Done::Ended(session.0)),
                Action::Report { session, track, packet } => {
                    done.push(Done::Reported(session.0, track, packet))
                }
                Action::WrongPassword { wrong, .. } => done.push(Done::Refused(wrong)),
                Action::Forbidden { path, .. } => done.push(Done::Forbidden(path)),
                Action::Ask { id, question } if self.is_slow => self.open.push((id, question)),
                Action::Ask { id, question } => done.extend(self.answer_with(id, answer(&question))),
            }
        }
        done
    }
}

fn parse(bytes: &[u8]) -> Response {
    let text = String::from_utf8_lossy(bytes);
    match Message::<Vec<u8>>::parse(bytes) {
        Ok((Message::Response(response), length)) if length == bytes.len() => response,
        Err(ParseError::Incomplete(_)) => panic!("half a response: {text}"),
        other => panic!("not a response: {text}: {other:?}"),
    }
}

pub fn field(response: &Response, name: &'static str) -> Option<String> {
    let name = HeaderName::from_static_str(name).expect("a name");
    response.header(&name).map(|value| value.as_str().to_owned())
}

/// `SETUP` of one track; the session if there is one already.
pub fn setup(cseq: u32, url: &str, transport: &str, session: Option<&str>) -> String {
    let session = session.map(|session| format!("Session: {session}\n")).unwrap_or_default();
    format!("SETUP {url} RTSP/1.0\nCSeq: {cseq}\nTransport: {transport}\n{session}\n")
}

/// Any request of a session.
pub fn of_session(method: &str, url: &str, session: &str, more: &str) -> String {
    format!("{method} {url} RTSP/1.0\nCSeq: 9\nSession: {session}\n{more}\n")
}
