//! Feeds mutated messages to the parsers and to the server for some seconds, and says how many.
//!
//! ```sh
//! cargo run --release -p forebay-rtsp --example fuzz -- SECONDS [SEED]
//! ```
//!
//! An input that makes something panic is shown and ends the run; the seed that is printed makes it again.
#![forbid(unsafe_code)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use forebay_rtsp::authentication::{Guard, Line, Secret, Users};
use forebay_rtsp::key::Key;
use forebay_rtsp::message::{Headers, Method, Request};
use forebay_rtsp::packetise::{Format, Framing, Packetiser, Sample};
use forebay_rtsp::range::{Range, SECOND_NS};
use forebay_rtsp::reader::{Limits, Reader};
use forebay_rtsp::rtcp::Received;
use forebay_rtsp::server::{Config, Server};
use forebay_rtsp::target::Target;
use forebay_rtsp::transport::Offer;
use support::World;

const FILM: &str = "rtsp://h/film.mp4";

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let Some(Ok(seconds)) = arguments.next() else {
        eprintln!("usage: fuzz SECONDS [SEED]");
        std::process::exit(2);
    };
    let by_clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    let seed = arguments.next().and_then(Result::ok).unwrap_or_else(by_clock);
    println!("seed {seed}");

    let mut chance = Chance(seed | 1);
    let corpus = corpus();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut counts = [0u64; TARGETS.len()];
    while Instant::now() < end {
        for (count, (name, run)) in counts.iter_mut().zip(TARGETS) {
            let input = chance.input(&corpus);
            let mut choices = Chance(chance.next());
            if catch_unwind(AssertUnwindSafe(|| run(&input, &mut choices))).is_err() {
                println!("{name} does not stand: {}", input.escape_ascii());
                std::process::exit(1);
            }
            *count += 1;
        }
    }
    for ((name, _), count) in TARGETS.iter().zip(counts) {
        println!("{name}: {count} inputs");
    }
}

type Run = fn(&[u8], &mut Chance);

const TARGETS: [(&str, Run); 6] = [
    ("messages", messages),
    ("fields", fields),
    ("server", server),
    ("authentication", authentication),
    ("reports", |input, _| _ = Received::parse(input)),
    ("samples", samples),
];

/// Wherever the bytes are cut, the same messages come.
fn messages(input: &[u8], chance: &mut Chance) {
    let limits = Limits { body_bytes_max: 200, frame_bytes_max: 100, ..Limits::default() };
    let mut whole = Reader::new(limits);
    whole.push(input);
    let expected: Vec<_> = (&mut whole).collect();
    let mut cut = Reader::new(limits);
    let mut messages = vec![];
    for piece in chance.pieces(input) {
        cut.push(piece);
        messages.extend(&mut cut);
        assert!(cut.pending_bytes() <= limits.head_bytes_max + limits.line_bytes_max);
    }
    assert_eq!(messages, expected);
}

fn fields(input: &[u8], _: &mut Chance) {
    for text in String::from_utf8_lossy(input).lines() {
        let value = text.split_once(':').map_or(text, |(_, value)| value.trim());
        let _ = Target::parse(text.split_whitespace().nth(1).unwrap_or(value));
        let _ = Offer::parse_all(value);
        if let Ok(range) = Range::parse(value) {
            let _ = Range::parse(&range.to_string()).expect("what was written is read");
        }
    }
}

struct Ada;

impl Users for Ada {
    fn secret(&self, user: &str) -> Option<Secret> {
        (user == "ada").then(|| Secret::Password("secret".to_owned()))
    }
}

/// Nobody comes in but by the password: the nonces of the corpus are of nobody's making.
fn authentication(input: &[u8], chance: &mut Chance) {
    let guard =
        Guard { realm: "films".to_owned(), is_basic_allowed: true, nonce_ns: SECOND_NS, key: Key([1; 32]) };
    let line = Line { connection: 1, is_encrypted: chance.below(2) == 0 };
    for text in String::from_utf8_lossy(input).lines() {
        let value = text.split_once(':').map_or(text, |(_, value)| value).trim();
        let mut headers = Headers::default();
        headers.push("Authorization", value);
        let request = Request { method: Method::Play, url: FILM.to_owned(), headers, body: vec![] };
        if let Ok(user) = guard.check(&Ada, &request, line, chance.next()) {
            let (_, pair) = value.split_once(' ').expect("a scheme and what it wants");
            assert_eq!(user, "ada");
            assert_eq!(BASE64_STANDARD.decode(pair.trim()).expect("in base 64"), b"ada:secret");
        }
    }
}

/// Whatever comes, responses are readable by another's parser, and nothing is left when all is over.
fn server(input: &[u8], chance: &mut Chance) {
    let guard =
        Guard { realm: "films".to_owned(), is_basic_allowed: true, nonce_ns: SECOND_NS, key: Key([1; 32]) };
    let users: Option<(Guard, Box<dyn Users + Send>)> =
        chance.below(8).eq(&0).then(|| (guard, Box::new(Ada) as Box<dyn Users + Send>));
    let mut world = World::with(Server::new(Config::new(Key([3; 32])), users));
    world.connect(2, [192, 0, 2, 1]);
    world.is_slow = chance.below(2) == 0;
    for piece in chance.pieces(input) {
        let connection = 1 + chance.below(8) as u64 / 7;
        world.receive(connection, piece);
        if !world.open.is_empty() && chance.below(2) == 0 {
            world.answer();
        }
        world.elapse(chance.below(64) as u64 / 63 * 61);
    }
    while !world.open.is_empty() {
        world.answer();
    }
    world.disconnect(1);
    world.disconnect(2);
    world.elapse(61);
    world.elapse(61);
    assert_eq!(world.server.next_deadline_ns(), None);
}

fn samples(input: &[u8], chance: &mut Chance) {
    let framing =
        [Framing::Lengths(1), Framing::Lengths(2), Framing::Lengths(4), Framing::StartCodes][chance.below(4)];
    let formats =
        [Format::H264(framing), Format::H265(framing), Format::Aac, Format::Opus, Format::MpegAudio];
    let mut packetiser = Packetiser::new(formats[chance.below(5)], 96, 1, 0, 200 + chance.below(200));
    let start = chance.below(input.len() + 1);
    let samples = [Sample { at: 0..start, timestamp: 0 }, Sample { at: start..input.len(), timestamp: 9 }];
    let mut packets = vec![];
    let _ = packetiser.packetise(input, &samples, &mut packets);
    let mut bytes = vec![];
    packets.iter().for_each(|packet| packet.copy_to(input, &mut bytes));
}

/// Messages to begin with. Sessions are called as they will be.
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
    corpus.push(b"\x00\x00\x00\x03\x67\x64\x00\x00\x00\x00\x02\x68\x01\x00\x00\x01\x65\x88".to_vec());
    corpus
}

/// A generator of numbers that are as good as random here (Marsaglia's xorshift).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end
    }

    /// Some messages after each other, with some mistakes.
    fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input: Vec<u8> =
            (0..1 + self.below(6)).flat_map(|_| corpus[self.below(corpus.len())].clone()).collect();
        for _ in 0..self.below(6) {
            let at = self.below(input.len() + 1);
            let end = input.len().min(at + 1 + self.below(16));
            match self.below(6) {
                0 => drop(input.drain(at..end)),
                1 => input.insert(at, self.next() as u8),
                2 if at < input.len() => input[at] ^= 1 << self.below(8),
                3 => drop(input.splice(at..at, input[at..end].to_vec())),
                4 => {
                    let words: [&[u8]; 8] = [
                        b"\r\n",
                        b"\n",
                        b"\r\n\r\n",
                        b"\"",
                        b";",
                        b"99999999999999999999",
                        b"-",
                        b"$\x00\xFF\xFF",
                    ];
                    input.splice(at..at, words[self.below(words.len())].iter().copied());
                }
                _ => {
                    let other = &corpus[self.below(corpus.len())];
                    let cut = self.below(other.len());
                    input.splice(at..end, other[cut..].iter().copied());
                }
            }
        }
        input
    }

    fn pieces<'a>(&mut self, mut rest: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = vec![];
        while !rest.is_empty() {
            let length = if self.below(4) == 0 { 1 + self.below(20) } else { 1 + self.below(400) };
            let (piece, after) = rest.split_at(length.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}
