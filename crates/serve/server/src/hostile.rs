//! Property tests: no client request, status request, settings file or playlist can make the server panic, or send more than its
//! pacing allows.

use proptest::prelude::*;

use crate::catalog::Catalog;
use crate::clock;
use crate::config::any_text;
use crate::http::request::HEAD_BYTES_MAX;
use crate::rig::{FRAME, Rig, SETUP, session};
use crate::status;

/// Numbers as clients write them, and as they do not.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        (0.0..100.0).prop_map(|number: f64| format!("{number}")),
        Just("9300000000".to_owned()),
        Just("18446744073.709551615".to_owned()),
        Just("now".to_owned()),
        Just("99:59:59".to_owned()),
        Just(String::new()),
        "[-0-9.:eTZ]{0,20}",
    ]
}

fn range() -> impl Strategy<Value = String> {
    let unit = prop_oneof![Just("npt="), Just("npt="), Just("clock="), Just("smpte="), Just("")];
    (unit, number(), prop_oneof![Just("-"), Just("")], number())
        .prop_map(|(unit, from, dash, until)| format!("Range: {unit}{from}{dash}{until}\n"))
}

/// What may stand in a PLAY.
fn wish() -> impl Strategy<Value = String> {
    let field = |name: &'static str| number().prop_map(move |number| format!("{name}: {number}\n"));
    let some = |one| prop::option::of(one).prop_map(Option::unwrap_or_default);
    (some(range().boxed()), some(field("Scale").boxed()), some(field("Speed").boxed()))
        .prop_map(|(range, scale, speed)| range + &scale + &speed)
}

/// A text with some of its characters changed.
fn mistaken(text: &'static str) -> impl Strategy<Value = String> {
    prop::collection::vec((0..text.len(), ".{0,3}"), 0..4).prop_map(|mistakes| {
        let mut text: Vec<String> = text.chars().map(String::from).collect();
        for (at, mistake) in mistakes {
            let at = at % text.len();
            text[at] = mistake;
        }
        text.concat()
    })
}

const SETTINGS: &str = r#"
folder = "films"
listen = [8554, "127.0.0.1:9000"]
udp-ports = "7000-7009"
multicast = "239.255.42.0"
buffers = 3
memory = "64M"
[tls]
listen = [8322]
certificate = "cert.pem"
key = "key.pem"
[limits]
sessions-per-address = 7
[[users]]
name = "ada"
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
paths = ["old"]
"#;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Sixteen times a second of sound is the most that there is in one.
    #[test]
    fn no_play_gets_more_than_its_pace(is_endless: bool, wishes in prop::collection::vec(wish(), 1..6)) {
        const PACKETS_PER_SECOND_MAX: f64 = 2.0 * 16.0 * 43.1;
        let mut rig = Rig::with(|_| {});
        let mut client = rig.connect(None);
        let film = if is_endless { "a.aac?loop" } else { "a.aac" };
        let response = rig.ask(&mut client, &SETUP.replace("a.aac", film));
        let session = session(&response);
        let begun_ns = clock::now_ns();
        for wish in &wishes {
            let play = format!("PLAY rtsp://h/{film} RTSP/1.0\nCSeq: 2\nSession: {session}\n{wish}\n");
            let _ = rig.ask(&mut client, &play);
            let until_ns = clock::now_ns() + 2_000_000;
            while clock::now_ns() < until_ns {
                rig.turn_within(1_000_000);
            }
        }
        let packets: u64 = rig.serving.sessions.counts().packets;
        let seconds = (clock::now_ns() - begun_ns) as f64 / 1e9;
        // Each PLAY has its first packet at once, and what is due within one turn.
        let most = PACKETS_PER_SECOND_MAX * (seconds + 0.01 * wishes.len() as f64);
        prop_assert!((packets as f64) < most + 2.0, "{packets} packets in {seconds} s");
    }

    #[test]
    fn any_list_of_files_is_opened_or_refused(
        lines in prop::collection::vec(
            prop_oneof![
                Just("a.aac".to_owned()), Just("../b.m3u".to_owned()), Just("b.m3u".to_owned()),
                Just("/etc/passwd".to_owned()), Just("./a.aac".to_owned()), ".{0,40}",
            ],
            0..6,
        ),
        end in "\\PC{0,20}",
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.aac"), FRAME.repeat(10)).expect("a file");
        std::fs::write(folder.path().join("b.m3u"), lines.join("\n") + &end).expect("a file");
        let catalog = Catalog::of(folder.path(), 10);
        match catalog.open("b.m3u", &end) {
            Ok(opened) => prop_assert!(opened.files.iter().all(|file| file.name.ends_with("a.aac"))),
            Err(failure) => prop_assert!(!failure.sentence.is_empty()),
        }
    }
}

proptest! {
    #[test]
    fn any_settings_are_read_or_refused_with_a_line(text in mistaken(SETTINGS)) {
        any_text::settings(text.as_bytes());
    }
}

#[test]
fn any_status_request_is_answered_or_waited_for() {
    let rig = Rig::with(|_| {});
    let mut runner = proptest::test_runner::TestRunner::default();
    let request = prop_oneof![
        mistaken("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").prop_map(String::into_bytes),
        mistaken("GET / HTTP/1.0\n\n").prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..HEAD_BYTES_MAX + 2),
    ];
    let answered = |request: Vec<u8>| {
        let is_over = request.len() > HEAD_BYTES_MAX;
        match status::respond(&request, &rig.serving) {
            Some(response) => prop_assert!(response.starts_with(b"HTTP/1.1 ")),
            None => prop_assert!(!is_over, "it would be waited for without end"),
        }
        Ok(())
    };
    runner.run(&request, answered).expect("every request");
}

#[test]
fn the_status_port_speaks_http() {
    let rig = Rig::with(|_| {});
    let answer = |line: &str, field: &str| {
        let request = format!("{line}\r\nHost: h\r\n{field}\r\n");
        let response = status::respond(request.as_bytes(), &rig.serving).expect("a response");
        let text = String::from_utf8(response).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    };
    let (whole, metrics) = answer("GET /metrics HTTP/1.1", "");
    assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && metrics.starts_with("# HELP forebay_"), "{whole}");
    assert_eq!(answer("HEAD /metrics?name=x HTTP/1.0", ""), (whole, String::new()));
    let (part, body) = answer("GET /metrics HTTP/1.1", "Range: bytes=2-5\r\n");
    assert!(part.starts_with("HTTP/1.1 206 ") && body == metrics[2..6], "{part}: {body}");
    for (line, status, has_allow) in [
        ("GET /x HTTP/1.1", 404, false),
        ("POST /metrics HTTP/1.1", 405, true),
        ("BREW / HTTP/1.1", 501, true),
        ("GET / HTTP/2.0", 505, false),
        ("hello", 400, false),
    ] {
        let (head, body) = answer(line, "");
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")) && !body.is_empty(), "{line}: {head}");
        assert_eq!(head.contains("\r\nAllow: GET, HEAD, OPTIONS"), has_allow, "{line}: {head}");
    }
}
