//! Clients that do anything in any order, and a caller whose answers come late, are refusals, or answer something else.

mod support;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_rtsp::message::Status;
use forebay_rtsp::server::{Answer, Question, QuestionId};
use proptest::prelude::*;
use support::{Done, World, answer, presentation};

#[derive(Clone, Debug)]
enum Op {
    Request { client: usize, method: usize, url: usize, transport: usize, session: usize, range: usize },
    Bytes { client: usize, bytes: Vec<u8> },
    Reconnect { client: usize },
    Answer { which: usize, how: u8 },
    Elapse { seconds: u64 },
    HasPlayed { session: u64 },
    End { session: u64 },
}

const METHODS: [&str; 9] =
    ["OPTIONS", "DESCRIBE", "SETUP", "SETUP", "SETUP", "PLAY", "PLAY", "PAUSE", "TEARDOWN"];
const URLS: [&str; 7] = [
    "rtsp://h/film.mp4/trackID=0",
    "rtsp://h/film.mp4/trackID=1",
    "rtsp://h/film.mp4",
    "rtsp://h/loop.ts",
    "rtsp://h/none.mp4",
    "rtsp://h/endless.mp4/trackID=0",
    "rtsp://h/endless.mp4",
];
const TRANSPORTS: [&str; 4] = [
    "RTP/AVP;unicast;client_port=5000-5001",
    "RTP/AVP/TCP;unicast;interleaved=0-1",
    "RTP/AVP/TCP",
    "RTP/AVP;multicast,RTP/AVP;unicast;client_port=7000-7001",
];
const RANGES: [&str; 6] = [
    "",
    "Range: npt=5-\r\n",
    "Range: npt=500-\r\n",
    "Range: npt=9300000000-\r\n",
    "Range: npt=18446744073.709551614-\r\n",
    "Scale: 64\r\nSpeed: 16\r\n",
];

fn op() -> impl Strategy<Value = Op> {
    let client = 0..3usize;
    prop_oneof![
        12 => (client.clone(), 0..METHODS.len(), 0..URLS.len(), 0..TRANSPORTS.len(), 0..6usize, 0..RANGES.len())
            .prop_map(|(client, method, url, transport, session, range)| {
                Op::Request { client, method, url, transport, session, range }
            }),
        1 => (client.clone(), prop::collection::vec(any::<u8>(), 0..8)).prop_map(|(client, packet)| {
            let mut bytes = vec![b'$', 1, 0, packet.len() as u8];
            bytes.extend(packet);
            Op::Bytes { client, bytes }
        }),
        1 => client.prop_map(|client| Op::Reconnect { client }),
        10 => (0..4usize, any::<u8>()).prop_map(|(which, how)| Op::Answer { which, how }),
        1 => (0..70u64).prop_map(|seconds| Op::Elapse { seconds }),
        1 => (1..6u64).prop_map(|session| Op::HasPlayed { session }),
        1 => (1..6u64).prop_map(|session| Op::End { session }),
    ]
}

/// What a caller knows, and holds the server to.
struct Caller {
    world: World,
    /// The present connection of each client.
    connections: [u64; 3],
    next_connection: u64,
    next_cseq: u32,
    /// Requests that have no response yet, by connection.
    unanswered: BTreeMap<u64, VecDeque<u32>>,
    /// On which connection each question was asked.
    askers: BTreeMap<QuestionId, u64>,
    /// What clients call sessions.
    names: Vec<String>,
    set_up: BTreeMap<u64, BTreeSet<usize>>,
    started: BTreeSet<u64>,
    ended: BTreeSet<u64>,
}

impl Caller {
    fn new() -> Self {
        let mut world = World::new();
        world.is_slow = true;
        let mut caller = Self {
            world,
            connections: [1, 0, 0],
            next_connection: 2,
            next_cseq: 1,
            unanswered: BTreeMap::from([(1, VecDeque::new())]),
            askers: BTreeMap::new(),
            names: vec![],
            set_up: BTreeMap::new(),
            started: BTreeSet::new(),
            ended: BTreeSet::new(),
        };
        caller.connect(1);
        caller.connect(2);
        caller
    }

    fn connect(&mut self, client: usize) {
        self.connections[client] = self.next_connection;
        self.next_connection += 1;
        self.world.connect(self.connections[client], [192, 0, 2, 1]);
        self.unanswered.insert(self.connections[client], VecDeque::new());
    }

    fn take(&mut self, op: Op) {
        let mut asker = 0;
        let done = match op {
            Op::Request { client, method, url, transport, session, range } => {
                let cseq = self.next_cseq;
                self.next_cseq += 1;
                let mut text = format!("{} {} RTSP/1.0\r\nCSeq: {cseq}\r\n", METHODS[method], URLS[url]);
                if METHODS[method] == "SETUP" {
                    text += &format!("Transport: {}\r\n", TRANSPORTS[transport]);
                }
                if let Some(name) = self.names.iter().rev().nth(session) {
                    text += &format!("Session: {name}\r\n");
                }
                text += &format!("{}\r\n", RANGES[range]);
                let connection = self.connections[client];
                asker = connection;
                if let Some(queue) = self.unanswered.get_mut(&connection) {
                    queue.push_back(cseq);
                }
                self.world.receive(connection, text.as_bytes())
            }
            Op::Bytes { client, bytes } => self.world.receive(self.connections[client], &bytes),
            Op::Reconnect { client } => {
                let connection = self.connections[client];
                self.unanswered.remove(&connection);
                let done = self.world.disconnect(connection);
                self.connect(client);
                done
            }
            Op::Answer { which, how } if !self.world.open.is_empty() => {
                let (id, question) = self.world.open.remove(which % self.world.open.len());
                asker = self.askers[&id];
                let answer = match how % 8 {
                    0 => Err(Status::UnsupportedTransport),
                    1 => presentation("film.mp4").map(Answer::Described),
                    _ => answer(&question),
                };
                if let (Question::SetUp { session, track, .. }, Ok(Answer::SetUp { .. })) =
                    (&question, &answer)
                    && !self.ended.contains(&session.0)
                {
                    self.set_up.entry(session.0).or_default().insert(*track);
                }
                self.world.answer_with(id, answer)
            }
            Op::Answer { .. } => vec![],
            Op::Elapse { seconds } => self.world.elapse(seconds),
            Op::HasPlayed { session } => {
                if self.started.remove(&session) {
                    self.world.server.has_played(forebay_rtsp::server::SessionId(session), self.world.now_ns);
                }
                vec![]
            }
            Op::End { session } => {
                let actions = self.world.server.end(forebay_rtsp::server::SessionId(session));
                assert!(actions.len() <= 1);
                if !actions.is_empty() { vec![Done::Ended(session)] } else { vec![] }
            }
        };
        for one in done {
            self.check(one);
        }
        for (id, question) in &self.world.open {
            let asker = *self.askers.entry(*id).or_insert(asker);
            // No client waits for the answer where the connection is gone.
            let is_waited_for = self.unanswered.contains_key(&asker);
            if let Question::Play { session, .. } = question
                && is_waited_for
            {
                assert!(!self.started.contains(&session.0), "it plays while it is asked from where to play");
            }
        }
    }

    fn check(&mut self, done: Done) {
        match done {
            Done::Refused(_) | Done::Forbidden(_) => {}
            Done::Said(connection, response) => {
                let queue = self.unanswered.get_mut(&connection).expect("a connection that is open");
                let expected = queue.pop_front().expect("a request to answer").to_string();
                assert_eq!(support::field(&response, "CSeq"), Some(expected), "responses out of order");
                if let Some(session) = support::field(&response, "Session") {
                    let name = session.split(';').next().unwrap_or_default().to_owned();
                    self.names.retain(|known| *known != name);
                    self.names.push(name);
                }
            }
            Done::Closed(connection) => {
                _ = self.unanswered.remove(&connection).expect("a connection that is open")
            }
            Done::Started(session) => {
                assert!(
                    self.set_up.get(&session).is_some_and(|tracks| !tracks.is_empty()),
                    "nothing to start"
                );
                assert!(self.started.insert(session), "started twice");
            }
            Done::Stopped(session) => assert!(self.started.remove(&session), "it did not play"),
            Done::Released(session, track) => {
                assert!(!self.ended.contains(&session));
                self.set_up.entry(session).or_default().remove(&track);
            }
            Done::Ended(session) => {
                assert!(self.ended.insert(session), "ended twice");
                self.started.remove(&session);
                self.set_up.remove(&session);
            }
            Done::Reported(session, track, _) => {
                assert!(self.set_up.get(&session).is_some_and(|tracks| tracks.contains(&track)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_once_and_in_order_and_nothing_plays_that_was_not_set_up(
        ops in prop::collection::vec(op(), 0..80),
    ) {
        let mut caller = Caller::new();
        for op in ops {
            caller.take(op);
        }
        while !caller.world.open.is_empty() {
            caller.take(Op::Answer { which: 0, how: 7 });
        }
        prop_assert!(caller.unanswered.values().all(VecDeque::is_empty), "{:?}", caller.unanswered);
        for client in 0..3 {
            caller.take(Op::Reconnect { client });
        }
        caller.take(Op::Elapse { seconds: 61 });
        caller.take(Op::Elapse { seconds: 61 });
        prop_assert_eq!(caller.started, BTreeSet::new());
        prop_assert_eq!(caller.set_up, BTreeMap::new());
        prop_assert_eq!(caller.world.server.next_deadline_ns(), None, "something is left");
    }
}
