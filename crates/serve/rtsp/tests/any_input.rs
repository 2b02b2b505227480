//! No message, report or sample of a client makes the parsers or the server panic: messages with mistakes are read or
//! refused. The fuzz targets in `fuzz/` run the same bodies.
#![forbid(unsafe_code)]

mod input_bodies;
mod support;

use input_bodies::FILM;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use support::World;

/// Inputs for each body.
const CASES: u32 = 1000;

/// What may be wrong at a place of an input.
#[derive(Clone, Debug)]
enum Mistake {
    /// So many bytes are missing.
    Missing(usize),
    /// One bit is another one.
    Bit(u8),
    /// So many bytes come twice.
    Twice(usize),
    /// Bytes are there that should not be.
    Inserted(Vec<u8>),
    /// So many bytes are replaced by the end of another message.
    Replaced(usize, Vec<u8>),
}

fn mistake(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Mistake> {
    let words: [&[u8]; 8] =
        [b"\r\n", b"\n", b"\r\n\r\n", b"\"", b";", b"99999999999999999999", b"-", b"$\x00\xFF\xFF"];
    let end =
        (select(corpus), any::<Index>()).prop_map(|(other, cut)| other[cut.index(other.len())..].to_vec());
    prop_oneof![
        (1..17_usize).prop_map(Mistake::Missing),
        any::<u8>().prop_map(|byte| Mistake::Inserted(vec![byte])),
        (0..8_u8).prop_map(Mistake::Bit),
        (1..17_usize).prop_map(Mistake::Twice),
        select(words.map(<[u8]>::to_vec).to_vec()).prop_map(Mistake::Inserted),
        (1..17_usize, end).prop_map(|(count, end)| Mistake::Replaced(count, end)),
    ]
}

fn make(input: &mut Vec<u8>, at: usize, mistake: Mistake) {
    let end = |count: usize| input.len().min(at + count);
    match mistake {
        Mistake::Missing(count) => drop(input.drain(at..end(count))),
        Mistake::Bit(bit) => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        Mistake::Twice(count) => drop(input.splice(at..at, input[at..end(count)].to_vec())),
        Mistake::Inserted(bytes) => drop(input.splice(at..at, bytes)),
        Mistake::Replaced(count, bytes) => drop(input.splice(at..end(count), bytes)),
    }
}

/// Choices, and some messages after each other with some mistakes.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let corpus = corpus();
    let mistakes = vec((any::<Index>(), mistake(corpus.clone())), 0..6);
    (vec(any::<u8>(), 16), vec(select(corpus), 1..7), mistakes).prop_map(|(choices, messages, mistakes)| {
        let mut input = messages.concat();
        for (place, mistake) in mistakes {
            let at = place.index(input.len() + 1);
            make(&mut input, at, mistake);
        }
        [choices, input].concat()
    })
}

fn holds(body: fn(&[u8])) {
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let result = runner.run(&input(), |input| {
        body(&input);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn messages_are_the_same_wherever_the_bytes_are_cut() {
    holds(input_bodies::messages);
}

#[test]
fn fields_are_read_or_refused() {
    holds(input_bodies::fields);
}

#[test]
fn only_the_password_is_accepted() {
    holds(input_bodies::authentication);
}

#[test]
fn responses_are_readable_and_no_session_is_left() {
    holds(input_bodies::server);
}

#[test]
fn reports_are_read_or_refused() {
    // Behind the choices, which are of other bodies.
    holds(|data| input_bodies::reports(&data[16..]));
}

#[test]
fn samples_become_packets_or_are_refused() {
    holds(input_bodies::samples);
}

/// Messages to begin with. Sessions have the names that the server will give them.
fn corpus() -> Vec<Vec<u8>> {
    let mut world = World::new();
    let mut texts = vec![
        "OPTIONS * RTSP/1.0\nCSeq: 1\nTimestamp: 1\n\n".to_owned(),
        format!("DESCRIBE {FILM}?x=%20 RTSP/1.0\nCSeq: 2\nAccept: application/sdp\n\n"),
        format!("DESCRIBE {FILM} RTSP/1.0\nCSeq: 2\nAuthorization: Basic YWRhOnNlY3JldA==\n\n"),
        format!(
            "PLAY {FILM} RTSP/1.0\nCSeq: 2\nAuthorization: Digest username=\"ada\", realm=\"films\", nonce=\"0\", \
             uri=\"{FILM}\", response=\"0\", algorithm=SHA-256, qop=auth, nc=1, cnonce=\"a\"\n\n"
        ),
        support::setup(3, "rtsp://h/loop.ts", "RTP/AVP/TCP;interleaved=4-5", None),
        "SET_PARAMETER * RTSP/1.0\nCSeq: 4\nContent-Length: 4\n\nbody".to_owned(),
    ];
    let endless = support::setup(3, "rtsp://h/endless.mp4/trackID=0", "RTP/AVP/TCP", None);
    let (response, _) = world.request(1, &endless);
    let session = support::field(&response, "Session").expect("a session");
    let name = session.split(';').next().unwrap_or_default();
    texts.push(endless);
    texts.push(support::of_session("PLAY", "rtsp://h/endless.mp4", name, "Range: npt=9300000000-\n"));
    for transport in ["RTP/AVP;unicast;client_port=5000-5001", "RTP/AVP/TCP;unicast;interleaved=0-1"] {
        let setup = support::setup(3, &format!("{FILM}/trackID=0"), transport, None);
        let (response, _) = world.request(1, &setup);
        let session = support::field(&response, "Session").expect("a session");
        let name = session.split(';').next().unwrap_or_default();
        texts.push(setup);
        texts.push(support::setup(4, &format!("{FILM}/trackID=1"), transport, Some(name)));
        for (method, more) in [
            ("PLAY", "Range: npt=0.000-\n"),
            ("PLAY", "Range: clock=20010909T014645Z-\nScale: 2.0\nSpeed: 1.5\n"),
            ("PLAY", "Range: smpte=0:00:10:05.50-;time=19970123T143720Z\n"),
            ("PLAY", "Range: npt=18446744073.709551614-\nScale: 64\nSpeed: 16\n"),
            ("PAUSE", ""),
            ("PAUSE", "Range: npt=15-\n"),
            ("GET_PARAMETER", ""),
            ("TEARDOWN", ""),
        ] {
            texts.push(support::of_session(method, FILM, name, more));
        }
    }
    let mut corpus: Vec<Vec<u8>> =
        texts.into_iter().map(|text| text.replace('\n', "\r\n").into_bytes()).collect();
    corpus.push(b"$\x01\x00\x08\x80\xC9\x00\x01\x00\x00\x00\x05".to_vec());
    corpus.push(b"\x81\xC9\x00\x07\x00\x00\x00\x05\x00\x00\x00\x06\x40\xFF\xFF\xFE\x00\x01\x00\x02\x00\x00\x00\x4D\x00\x00\x00\x01\x00\x00\x00\x01".to_vec());
    corpus.push(
        b"\x81\xCA\x00\x03\x01\x02\x03\x04\x01\x04fore\x00\x00\x81\xCB\x00\x01\x01\x02\x03\x04".to_vec(),
    );
    // A temporal unit of AV1, and the beginning of a JPEG picture.
    corpus.push(b"\x12\x00\x0A\x02\x07\x08\x36\x48\x01\x09\x32\x03\x05\x06\x07".to_vec());
    corpus.push(
        b"\xFF\xD8\xFF\xC0\x00\x11\x08\x00\x78\x00\xA0\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01".to_vec(),
    );
    corpus.push(b"\x00\x00\x00\x03\x67\x64\x00\x00\x00\x00\x02\x68\x01\x00\x00\x01\x65\x88".to_vec());
    corpus
}
