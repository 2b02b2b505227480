//! What the server answers, and what it asks its caller to do.

mod support;

use forebay_rtsp::authentication::{Guard, Secret, Users};
use forebay_rtsp::key::Key;
use forebay_rtsp::message::Status;
use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::server::{Config, Question, Server, SessionId};
use rtsp_types::headers::{RtpInfos, Session, Transports};
use support::{Done, World, field, of_session, setup};

const FILM: &str = "rtsp://h/film.mp4";
const UDP: &str = "RTP/AVP;unicast;client_port=5000-5001";
const TCP: &str = "RTP/AVP/TCP;unicast;interleaved=0-1";

/// Sets one track up, and returns what the session is called.
fn session(world: &mut World, connection: u64, transport: &str) -> String {
    let (response, _) = world.request(connection, &setup(1, &format!("{FILM}/trackID=0"), transport, None));
    let session: Session = response.typed_header().expect("a Session field").expect("a session");
    session.0
}

fn ids(done: &[Done]) -> Vec<(&str, u64)> {
    let id = |one: &Done| match one {
        Done::Said(connection, _) => ("said", *connection),
        Done::Closed(connection) => ("closed", *connection),
        Done::Started(session) => ("started", *session),
        Done::Stopped(session) => ("stopped", *session),
        Done::Released(session, _) => ("released", *session),
        Done::Ended(session) => ("ended", *session),
        Done::Reported(session, ..) => ("reported", *session),
        Done::Refused(count) => ("refused", u64::from(*count)),
        Done::Forbidden(path) => ("forbidden", path.len() as u64),
    };
    done.iter().map(id).collect()
}

#[test]
fn a_film_is_watched_from_its_description_to_its_end() {
    let mut world = World::new();
    let (options, _) = world.request(1, "OPTIONS * RTSP/1.0\nCSeq: 1\nTimestamp: 7.5\n\n");
    assert!(field(&options, "Public").is_some_and(|public| public.contains("GET_PARAMETER")));
    assert_eq!(field(&options, "Timestamp").as_deref(), Some("7.5"));

    let (described, _) =
        world.request(1, &format!("DESCRIBE {FILM}?x=1 RTSP/1.0\nCSeq: 2\nAccept: application/sdp\n\n"));
    assert_eq!(field(&described, "Content-Base").as_deref(), Some("rtsp://h/film.mp4/?x=1"));
    assert_eq!(field(&described, "Content-Type").as_deref(), Some("application/sdp"));
    assert!(String::from_utf8_lossy(described.body()).contains("a=control:rtsp://h/film.mp4/trackID=1?x=1"));

    let (first, _) = world.request(1, &setup(3, &format!("{FILM}/trackID=0"), UDP, None));
    let transports: Transports = first.typed_header().expect("a Transport field").expect("a transport");
    let [rtsp_types::headers::Transport::Rtp(transport)] = &transports[..] else { panic!("{transports:?}") };
    assert_eq!(transport.params.client_port, Some((5000, Some(5001))));
    assert_eq!(transport.params.server_port, Some((6000, Some(6001))));
    assert_eq!(transport.params.ssrc, [0xA0]);
    let session: Session = first.typed_header().expect("a Session field").expect("a session");
    assert_eq!(session.1, Some(60));
    let name = session.0;
    let second = setup(4, &format!("{FILM}/trackID=1"), "RTP/AVP;unicast;client_port=5002-5003", Some(&name));
    assert_eq!(world.status(1, &second), 200);

    let done = world
        .receive(1, of_session("PLAY", FILM, &name, "Range: npt=10-\n").replace('\n', "\r\n").as_bytes());
    assert_eq!(ids(&done), [("said", 1), ("started", 1)], "the response comes before the packets");
    let Done::Said(_, played) = &done[0] else { panic!() };
    assert_eq!(field(played, "Range").as_deref(), Some("npt=10.000000-"));
    let info = field(played, "RTP-Info").expect("what the first packets are");
    assert_eq!(
        info,
        format!("url={FILM}/trackID=0;seq=10;rtptime=1000,url={FILM}/trackID=1;seq=20;rtptime=2000")
    );
    let info: RtpInfos = played.typed_header().expect("an RTP-Info field").expect("readable");
    assert!(matches!(info, RtpInfos::V1(infos) if infos.len() == 2));

    let (paused, done) = world.request(1, &of_session("PAUSE", FILM, &name, ""));
    assert_eq!((field(&paused, "Session"), ids(&done)), (Some(name.clone()), vec![("stopped", 1)]));
    let (_, done) = world.request(1, &of_session("PLAY", &format!("{FILM}/"), &name, ""));
    assert_eq!(ids(&done), [("started", 1)]);
    let (sought, done) = world.request(1, &of_session("PLAY", FILM, &name, "Range: npt=20-30\nScale: 2\n"));
    assert_eq!(ids(&done), [("stopped", 1), ("started", 1)]);
    assert_eq!(field(&sought, "Range").as_deref(), Some("npt=20.000000-30.000000"));
    assert_eq!(field(&sought, "Scale").as_deref(), Some("2.0"));
    world.server.has_played(SessionId(1), world.now_ns);
    let (_, done) = world.request(1, &of_session("PLAY", FILM, &name, "Range: npt=0-\n"));
    assert_eq!(ids(&done), [("started", 1)], "it had stopped by itself");

    assert_eq!(world.status(1, &of_session("GET_PARAMETER", FILM, &name, "")), 200);
    let (_, done) = world.request(1, &of_session("TEARDOWN", FILM, &name, ""));
    assert_eq!(ids(&done), [("ended", 1)]);
    assert_eq!(world.status(1, &of_session("PLAY", FILM, &name, "")), 454);
}

#[test]
fn each_mistake_has_its_status() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    assert_eq!(world.status(1, &setup(2, &format!("{FILM}/trackID=1"), UDP, Some(&name))), 200);
    let of_film = |method: &str, more: &str| of_session(method, FILM, &name, more);
    for (request, status) in [
        ("OPTIONS * RTSP/1.0\n\n".to_owned(), 400),
        ("OPTIONS * RTSP/1.0\nCSeq: one\n\n".to_owned(), 400),
        ("OPTIONS rtsp://h/%00 RTSP/1.0\nCSeq: 1\n\n".to_owned(), 400),
        ("OPTIONS * RTSP/2.0\nCSeq: 1\n\n".to_owned(), 505),
        ("RECORD * RTSP/1.0\nCSeq: 1\n\n".to_owned(), 405),
        ("BREW * RTSP/1.0\nCSeq: 1\n\n".to_owned(), 501),
        ("OPTIONS * RTSP/1.0\nCSeq: 1\nRequire: time-travel\n\n".to_owned(), 551),
        (format!("DESCRIBE {FILM} RTSP/1.0\nCSeq: 1\nAccept: text/html\n\n"), 406),
        ("DESCRIBE rtsp://h/none.mp4 RTSP/1.0\nCSeq: 1\n\n".to_owned(), 404),
        ("DESCRIBE rtsp://h/broken.mp4 RTSP/1.0\nCSeq: 1\n\n".to_owned(), 415),
        (setup(1, FILM, UDP, None), 459),
        (setup(1, &format!("{FILM}/trackID=2"), UDP, None), 404),
        (setup(1, &format!("{FILM}/trackID=0"), "RTP/SAVP;unicast;client_port=5000-5001", None), 461),
        (setup(1, &format!("{FILM}/trackID=0"), "RTP/AVP;multicast", None), 461),
        (setup(1, &format!("{FILM}/trackID=0"), UDP, Some("nobody")), 454),
        (setup(1, "rtsp://h/loop.ts/trackID=0", UDP, Some(&name)), 404),
        (format!("PLAY {FILM} RTSP/1.0\nCSeq: 1\n\n"), 454),
        (of_film("PLAY", "Range: npt=x-\n"), 457),
        (of_film("PAUSE", "Range: npt=x-\n"), 457),
        (of_film("PAUSE", "Range: npt=15\n"), 457),
        (of_film("PLAY", "Scale: 0\n"), 400),
        (of_film("PLAY", "Scale: NaN\n"), 400),
        (of_film("PLAY", "Speed: -1\n"), 400),
        (of_film("PLAY", "Range: npt=101-\n"), 457),
        (of_film("PLAY", "Range: npt=20-10\n"), 457),
        (of_film("PLAY", "Range: npt=10-20\nScale: -1\n"), 457),
        (of_film("PLAY", "Range: npt=20-10\nScale: -1\n"), 200),
        (of_film("PAUSE", "Range: npt=15-\n"), 501),
        (of_film("PAUSE", "Range: npt=now-\n"), 200),
        (of_film("PLAY", ""), 200),
        (of_film("SETUP", "Transport: RTP/AVP;unicast;client_port=5000-5001\n"), 455),
        (of_session("PLAY", &format!("{FILM}/trackID=0"), &name, ""), 460),
        (of_session("PAUSE", &format!("{FILM}/trackID=0"), &name, ""), 460),
        (of_film("SET_PARAMETER", "Content-Length: 3\n\nx: "), 451),
        (of_film("GET_PARAMETER", ""), 200),
    ] {
        assert_eq!(world.status(1, &request), status, "{request}");
    }
    let live = setup(1, "rtsp://h/loop.ts", UDP, None);
    let (response, _) = world.request(1, &live);
    let live: Session = response.typed_header().expect("a Session field").expect("a session");
    let of_live = |more: &str| of_session("PLAY", "rtsp://h/loop.ts/trackID=0", &live.0, more);
    assert_eq!(world.status(1, &of_live("Range: npt=5-\n")), 456, "it cannot be sought in");
    assert_eq!(
        world.status(1, &of_live("Range: clock=20010909T014641Z-\n")),
        456,
        "the time of the recording is unknown"
    );
    assert_eq!(world.status(1, &of_live("Range: npt=0-\n")), 200);
}

#[test]
fn what_has_no_end_is_played_from_where_a_client_can_have_come_to_and_not_from_beyond() {
    let mut world = World::new();
    let url = "rtsp://h/endless.mp4";
    let (response, _) = world.request(1, &setup(1, &format!("{url}/trackID=0"), UDP, None));
    let session: Session = response.typed_header().expect("a Session field").expect("a session");
    for (range, status) in [
        ("npt=100000-", 200),
        ("npt=100-9300000000", 200),
        ("npt=9300000000-", 457),
        ("npt=18446744073.709551614-", 457),
    ] {
        let request = of_session("PLAY", url, &session.0, &format!("Range: {range}\n"));
        assert_eq!(world.status(1, &request), status, "{range}");
    }
}

#[test]
fn a_range_is_answered_in_the_unit_of_the_question() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    let (response, _) = world
        .request(1, &of_session("PLAY", FILM, &name, "Range: clock=20010909T014645Z-20010909T014650Z\n"));
    let expected = "clock=20010909T014645.000000Z-20010909T014650.000000Z";
    assert_eq!(field(&response, "Range").as_deref(), Some(expected));
}

#[test]
fn packets_go_nowhere_but_to_the_client() {
    let mut world = World::new();
    let at = |destination: &str| format!("RTP/AVP;unicast;destination={destination};client_port=5000-5001");
    for (destination, status) in [
        ("192.0.2.1", 200),
        ("::ffff:192.0.2.1", 200),
        ("192.0.2.2", 403),
        ("victim.example.org", 403),
        ("[::1]", 403),
    ] {
        let request = setup(1, &format!("{FILM}/trackID=0"), &at(destination), None);
        assert_eq!(world.status(1, &request), status, "{destination}");
    }
    for (group, status) in [("239.1.2.3", 461), ("192.0.2.2", 403), ("192.0.2.1", 403), ("here", 403)] {
        let offer = format!("RTP/AVP;multicast;destination={group};port=5000-5001");
        let request = setup(1, &format!("{FILM}/trackID=0"), &offer, None);
        assert_eq!(world.status(1, &request), status, "{group}");
    }
}

#[test]
fn a_session_belongs_to_its_address_and_not_to_its_connection() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    world.connect(2, [192, 0, 2, 1]);
    world.connect(3, [192, 0, 2, 3]);
    assert_eq!(world.status(3, &of_session("PLAY", FILM, &name, "")), 454);
    assert_eq!(world.disconnect(1), []);
    let (_, done) = world.request(2, &of_session("PLAY", FILM, &name, ""));
    assert_eq!(ids(&done), [("started", 1)]);
}

#[test]
fn a_session_ends_with_the_connection_that_carries_it() {
    let mut world = World::new();
    session(&mut world, 1, TCP);
    assert_eq!(ids(&world.disconnect(1)), [("ended", 1)]);
}

#[test]
fn channels_are_shared_by_the_sessions_of_a_connection() {
    let mut world = World::new();
    for (asked, expected) in [
        ("RTP/AVP/TCP;interleaved=2-3", "interleaved=2-3;"),
        ("RTP/AVP/TCP;interleaved=2-3", "interleaved=0-1;"),
        ("RTP/AVP/TCP;interleaved=3-4", "interleaved=4-5;"),
        ("RTP/AVP/TCP", "interleaved=6-7;"),
    ] {
        let (response, _) = world.request(1, &setup(1, &format!("{FILM}/trackID=1"), asked, None));
        let transport = field(&response, "Transport").expect("a transport");
        assert!(transport.contains(expected), "{asked}: {transport}");
    }
    assert_eq!(world.receive(1, b"$\x01\x00\x02hi"), [Done::Reported(2, 1, b"hi".to_vec())]);
    assert_eq!(world.receive(1, b"$\x00\x00\x02hi$\x09\x00\x02hi"), []);
    let name = session(&mut world, 1, TCP);
    world.connect(2, [192, 0, 2, 1]);
    let elsewhere = setup(1, &format!("{FILM}/trackID=1"), TCP, Some(&name));
    assert_eq!(world.status(2, &elsewhere), 461, "it has no channels on this connection");
}

#[test]
fn a_track_can_be_set_up_again_and_torn_down_alone() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    let (_, done) = world.request(1, &setup(2, &format!("{FILM}/trackID=0"), TCP, Some(&name)));
    assert_eq!(done, [Done::Released(1, 0)]);
    assert_eq!(world.status(1, &setup(3, &format!("{FILM}/trackID=1"), UDP, Some(&name))), 200);
    let (_, done) = world.request(1, &of_session("TEARDOWN", &format!("{FILM}/trackID=1"), &name, ""));
    assert_eq!(done, [Done::Released(1, 1)]);
    let (_, done) = world.request(1, &of_session("TEARDOWN", &format!("{FILM}/trackID=0"), &name, ""));
    assert_eq!(done, [Done::Ended(1)]);
}

#[test]
fn a_session_without_a_sign_of_life_ends() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    assert_eq!(world.elapse(50), []);
    assert_eq!(world.status(1, &of_session("OPTIONS", "*", &name, "")), 200);
    assert_eq!(world.elapse(50), []);
    world.server.is_alive(SessionId(1), world.now_ns);
    assert_eq!(world.elapse(50), []);
    assert_eq!(ids(&world.elapse(10)), [("ended", 1)]);
    assert_eq!(ids(&world.elapse(60)), [("closed", 1)], "nothing is left on the connection");
}

#[test]
fn a_session_on_a_connection_lives_while_it_plays() {
    let mut world = World::new();
    let name = session(&mut world, 1, TCP);
    assert_eq!(world.status(1, &of_session("PLAY", FILM, &name, "")), 200);
    for _ in 0..10 {
        assert_eq!(world.elapse(61), []);
    }
    assert_eq!(world.status(1, &of_session("PAUSE", FILM, &name, "")), 200);
    assert_eq!(world.elapse(59), []);
    assert_eq!(ids(&world.elapse(61)), [("ended", 1)]);
}

#[test]
fn a_session_on_a_connection_can_be_played_again_for_a_while() {
    let mut world = World::new();
    let name = session(&mut world, 1, TCP);
    assert_eq!(world.status(1, &of_session("PLAY", FILM, &name, "")), 200);
    assert_eq!(world.elapse(100), []);
    world.server.has_played(SessionId(1), world.now_ns);
    assert_eq!(world.elapse(59), []);
    assert_eq!(world.status(1, &of_session("PLAY", FILM, &name, "")), 200);
    world.server.has_played(SessionId(1), world.now_ns);
    assert_eq!(ids(&world.elapse(120)), [("ended", 1)]);
}

#[test]
fn responses_keep_their_order_while_answers_take_their_time() {
    let mut world = World::new();
    world.is_slow = true;
    let requests = format!(
        "DESCRIBE {FILM} RTSP/1.0\r\nCSeq: 1\r\n\r\nOPTIONS * RTSP/1.0\r\nCSeq: 2\r\n\r\nDESCRIBE {FILM} RTSP/1.0\r\nCSeq: 3\r\n\r\n"
    );
    assert_eq!(world.receive(1, requests.as_bytes()), []);
    assert_eq!(ids(&world.answer()), [("said", 1), ("said", 1)]);
    assert_eq!(ids(&world.answer()), [("said", 1)]);
    assert!(world.open.is_empty());
}

#[test]
fn an_answer_that_comes_too_late_changes_nothing() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    world.connect(2, [192, 0, 2, 1]);
    world.is_slow = true;
    assert_eq!(world.receive(1, of_session("PLAY", FILM, &name, "").as_bytes()), []);
    assert_eq!(world.status(2, &of_session("PAUSE", FILM, &name, "")), 455, "it is being played");
    let (_, done) = world.request(2, &of_session("TEARDOWN", FILM, &name, ""));
    assert_eq!(ids(&done), [("ended", 1)]);
    let done = world.answer();
    assert!(
        matches!(&done[..], [Done::Said(1, response)] if u16::from(response.status()) == 454),
        "{done:?}"
    );

    assert_eq!(world.receive(1, setup(5, &format!("{FILM}/trackID=0"), UDP, None).as_bytes()), []);
    world.answer();
    assert!(matches!(&world.open[..], [(_, Question::SetUp { .. })]));
    assert_eq!(ids(&world.disconnect(1)), [("ended", 2)]);
    assert_eq!(world.answer(), []);
}

#[test]
fn a_play_that_asks_for_nothing_else_is_a_sign_of_life_only() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    let first = of_session("PLAY", FILM, &name, "Range: npt=10-30\nScale: 2\n");
    assert_eq!(world.status(1, &first), 200);
    assert_eq!(world.elapse(50), []);
    let (response, done) = world.request(1, &of_session("PLAY", FILM, &name, ""));
    assert_eq!((u16::from(response.status()), done), (200, vec![]));
    assert_eq!(field(&response, "Session"), Some(name.clone()));
    assert_eq!(field(&response, "Range").as_deref(), Some("npt=now-30.000000"));
    assert_eq!((field(&response, "Scale").as_deref(), field(&response, "Speed")), (Some("2.0"), None));
    assert_eq!(world.elapse(50), [], "it has given a sign of life");
    let (_, done) = world.request(1, &of_session("PLAY", FILM, &name, "Scale: 1\n"));
    assert_eq!(ids(&done), [("stopped", 1), ("started", 1)]);
}

#[test]
fn a_refused_play_leaves_the_session_as_it_was() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    assert_eq!(world.status(1, &of_session("PLAY", FILM, &name, "")), 200);
    world.is_slow = true;
    let elsewhere = of_session("PLAY", FILM, &name, "Range: npt=9-\n");
    assert_eq!(ids(&world.receive(1, elsewhere.as_bytes())), [("stopped", 1)]);
    let (id, _) = world.open.remove(0);
    assert_eq!(ids(&world.answer_with(id, Err(Status::InternalServerError))), [("started", 1), ("said", 1)]);
}

#[test]
fn too_many_sessions_and_too_much_ahead_are_refused() {
    let config = Config { sessions_max: 1, ahead_bytes_max: 1000, ..Config::new(Key([3; 32])) };
    let mut world = World::with(Server::new(config, None));
    session(&mut world, 1, UDP);
    assert_eq!(world.status(1, &setup(1, &format!("{FILM}/trackID=0"), UDP, None)), 453);
    world.is_slow = true;
    let request = format!("DESCRIBE {FILM} RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    assert_eq!(world.receive(1, request.as_bytes()), []);
    assert_eq!(world.receive(1, &[b'x'; 1000]), []);
    assert_eq!(ids(&world.receive(1, b"x")), [("closed", 1)]);
    assert_eq!(ids(&world.answer()), []);
    assert_eq!(ids(&world.elapse(60)), [("ended", 1)], "it was not bound to the connection");
}

#[test]
fn a_client_can_ask_for_the_end_of_the_connection() {
    let mut world = World::new();
    let done = world
        .receive(1, b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nConnection: close\r\n\r\nOPTIONS * RTSP/1.0\r\n\r\n");
    assert_eq!(ids(&done), [("said", 1), ("closed", 1)]);
}

struct Ada;

impl Users for Ada {
    fn secret(&self, user: &str) -> Option<Secret> {
        (user == "ada").then(|| Secret::Password("secret".to_owned()))
    }

    fn may_watch(&self, user: Option<&str>, path: &str) -> bool {
        path == "open.mp4" || user.is_some() && path == "film.mp4"
    }
}

/// A world in which Ada has a password.
fn guarded() -> World {
    let guard =
        Guard { realm: "films".to_owned(), is_basic_allowed: true, nonce_ns: SECOND_NS, key: Key([1; 32]) };
    World::with(Server::new(Config::new(Key([3; 32])), Some((guard, Box::new(Ada)))))
}

#[test]
fn guesses_of_one_address_come_slower_and_slower_and_the_right_password_comes_through() {
    let mut world = guarded();
    let ask =
        |basic: &str| format!("DESCRIBE {FILM} RTSP/1.0\r\nCSeq: 1\r\nAuthorization: Basic {basic}\r\n\r\n");
    // "ada:guess" and "ada:secret"
    let (wrong, right) = (ask("YWRhOmd1ZXNz"), ask("YWRhOnNlY3JldA=="));
    for count in 1..=5 {
        assert_eq!(ids(&world.receive(1, wrong.as_bytes())), [("refused", count), ("said", 1)]);
    }
    // From here on each one waits, on whatever connection it comes.
    world.connect(2, [192, 0, 2, 1]);
    world.connect(3, [192, 0, 2, 9]);
    assert_eq!(ids(&world.receive(1, wrong.as_bytes())), []);
    assert_eq!(ids(&world.receive(2, right.as_bytes())), []);
    assert_eq!(ids(&world.receive(3, right.as_bytes())), [("said", 3)], "another address does not wait");
    let first = world.elapse(1);
    let done = ids(&first);
    assert!(done.contains(&("refused", 6)) && done.contains(&("said", 1)), "{done:?}");
    let second = world.elapse(8);
    let later = ids(&second);
    assert!(done.contains(&("said", 2)) || later.contains(&("said", 2)), "{later:?}");
    // The user is known on that connection now, and need not wait for others.
    assert_eq!(ids(&world.receive(2, right.as_bytes())), [("said", 2)]);
}

#[test]
fn any_request_on_the_connection_of_its_setup_is_a_sign_of_life_of_a_session() {
    let mut world = World::new();
    let name = session(&mut world, 1, UDP);
    assert_eq!(world.status(1, &of_session("PLAY", FILM, &name, "")), 200);
    for _ in 0..3 {
        assert_eq!(world.elapse(40), []);
        assert_eq!(world.status(1, "OPTIONS * RTSP/1.0\nCSeq: 2\n\n"), 200);
    }
    assert_eq!(world.elapse(40), []);
    world.connect(2, [192, 0, 2, 1]);
    assert_eq!(world.status(2, "OPTIONS * RTSP/1.0\nCSeq: 2\n\n"), 200);
    assert!(ids(&world.elapse(40)).contains(&("ended", 1)), "another connection is no sign");
}

#[test]
fn tracks_of_a_url_with_a_query_are_named_by_whole_urls() {
    let mut world = World::new();
    let (response, _) = world.request(1, &format!("DESCRIBE {FILM}?start=9 RTSP/1.0\nCSeq: 1\n\n"));
    let description = String::from_utf8_lossy(response.body());
    assert!(description.contains(&format!("a=control:{FILM}/trackID=1?start=9\r\n")), "{description}");
    let (plain, _) = world.request(1, &format!("DESCRIBE {FILM} RTSP/1.0\nCSeq: 1\n\n"));
    assert!(String::from_utf8_lossy(plain.body()).contains("a=control:trackID=1\r\n"));
    assert_eq!(world.status(1, &setup(2, &format!("{FILM}/trackID=1?start=9"), UDP, None)), 200);
}

#[test]
fn what_is_open_needs_no_password_and_opens_nothing_else() {
    let mut world = guarded();
    let open = "rtsp://h/open.mp4";
    assert_eq!(world.status(1, &format!("DESCRIBE {open} RTSP/1.0\nCSeq: 1\n\n")), 200);
    let (response, _) = world.request(1, &setup(2, &format!("{open}/trackID=0"), UDP, None));
    let session = field(&response, "Session").expect("a session");
    let session = session.split(';').next().unwrap_or_default();
    assert_eq!(world.status(1, &of_session("PLAY", open, session, "")), 200);
    // About the session, whatever URL is there.
    for url in [open, "*", "rtsp://h/"] {
        assert_eq!(world.status(1, &of_session("GET_PARAMETER", url, session, "")), 200, "{url}");
    }
    // A session opens no other path, and another address does not have it.
    for method in ["DESCRIBE", "SETUP", "PLAY"] {
        assert_eq!(world.status(1, &of_session(method, FILM, session, "")), 401, "{method}");
    }
    world.connect(2, [192, 0, 2, 9]);
    assert_eq!(world.status(2, &of_session("GET_PARAMETER", "*", session, "")), 401);
    let wrong = "Authorization: Basic YWRhOmd1ZXNz\n";
    assert_eq!(world.status(1, &format!("DESCRIBE {open} RTSP/1.0\nCSeq: 4\n{wrong}\n")), 401);
    // "ada:secret"
    let right = "Authorization: Basic YWRhOnNlY3JldA==\n";
    assert_eq!(world.status(1, &format!("DESCRIBE {open} RTSP/1.0\nCSeq: 5\n{right}\n")), 200);
    assert_eq!(world.status(1, &of_session("TEARDOWN", open, session, "")), 200);
}

#[test]
fn nothing_but_options_is_for_everybody() {
    let mut world = guarded();
    assert_eq!(world.status(1, "OPTIONS * RTSP/1.0\nCSeq: 1\n\n"), 200);
    let (refused, _) = world.request(1, &format!("DESCRIBE {FILM} RTSP/1.0\nCSeq: 2\n\n"));
    assert_eq!(u16::from(refused.status()), 401);
    assert!(
        field(&refused, "WWW-Authenticate")
            .is_some_and(|challenge| challenge.starts_with("Digest realm=\"films\""))
    );
    for method in ["SETUP", "PLAY", "PAUSE", "TEARDOWN", "GET_PARAMETER", "SET_PARAMETER"] {
        assert_eq!(world.status(1, &format!("{method} {FILM} RTSP/1.0\nCSeq: 3\n\n")), 401, "{method}");
    }
    // "ada:secret"
    let authorization = "Authorization: Basic YWRhOnNlY3JldA==\n";
    assert_eq!(world.status(1, &format!("DESCRIBE {FILM} RTSP/1.0\nCSeq: 4\n{authorization}\n")), 200);
    let other = format!("DESCRIBE rtsp://h/loop.ts RTSP/1.0\nCSeq: 5\n{authorization}\n");
    assert_eq!(world.status(1, &other), 403);

    world.server.configure(Config { name: "Films".to_owned(), ..Config::new(Key([3; 32])) }, None);
    world.server.set_date("Thu, 01 Jan 1970 00:00:00 GMT".to_owned());
    let (response, _) = world.request(1, &format!("DESCRIBE {FILM} RTSP/1.0\nCSeq: 6\n\n"));
    assert_eq!(u16::from(response.status()), 200);
    assert_eq!(field(&response, "Server").as_deref(), Some("Films"));
    assert_eq!(field(&response, "Date").as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
}
