//! What must hold for any input, for property tests and for fuzzing.
#![allow(dead_code, reason = "each fuzz target uses a part of it")]

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

use crate::support::World;

pub const FILM: &str = "rtsp://h/film.mp4";

/// Bytes at the beginning of an input that decide what is done with the rest.
const CHOICE_BYTES: usize = 16;

/// What is done with an input, as some bytes decide; the same bytes decide again when all are used.
struct Choices<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl<'a> Choices<'a> {
    fn split(data: &'a [u8]) -> (Self, &'a [u8]) {
        let (bytes, input) = data.split_at(data.len().min(CHOICE_BYTES));
        (Self { bytes, used: 0 }, input)
    }

    fn below(&mut self, end: usize) -> usize {
        let byte = |at: usize| self.bytes.get(at % self.bytes.len().max(1)).copied().unwrap_or_default();
        let number = u16::from_le_bytes([byte(self.used), byte(self.used + 1)]);
        self.used += 2;
        usize::from(number) % end
    }

    fn pieces<'b>(&mut self, mut rest: &'b [u8]) -> Vec<&'b [u8]> {
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

/// The reader finds the same messages wherever the bytes are cut, and holds no more than its limits.
pub fn messages(data: &[u8]) {
    let (mut choices, input) = Choices::split(data);
    let limits = Limits { body_bytes_max: 200, frame_bytes_max: 100, ..Limits::default() };
    let mut whole = Reader::new(limits);
    whole.push(input);
    let expected: Vec<_> = (&mut whole).collect();
    let mut cut = Reader::new(limits);
    let mut messages = vec![];
    for piece in choices.pieces(input) {
        cut.push(piece);
        messages.extend(&mut cut);
        assert!(cut.pending_bytes() <= limits.head_bytes_max + limits.line_bytes_max);
    }
    assert_eq!(messages, expected);
}

/// URLs, transports and ranges are read or refused, and a range that was read can be written and read again.
pub fn fields(input: &[u8]) {
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

fn guard() -> Guard {
    Guard { realm: "films".to_owned(), is_basic_allowed: true, nonce_ns: SECOND_NS, key: Key([1; 32]) }
}

/// No credentials are accepted but the password in Basic: no nonce of an input was made by the guard.
pub fn authentication(data: &[u8]) {
    let (mut choices, input) = Choices::split(data);
    let guard = guard();
    let line = Line { connection: 1, is_encrypted: choices.below(2) == 0 };
    for text in String::from_utf8_lossy(input).lines() {
        let value = text.split_once(':').map_or(text, |(_, value)| value).trim();
        let mut headers = Headers::default();
        headers.push("Authorization", value);
        let request = Request { method: Method::Play, url: FILM.to_owned(), headers, body: vec![] };
        let now_ns = choices.below(1 << 16) as u64 * SECOND_NS / 100;
        if let Ok(user) = guard.check(&Ada, &request, line, now_ns) {
            let (_, pair) = value.split_once(' ').expect("a scheme and what it wants");
            assert_eq!(user, "ada");
            assert_eq!(BASE64_STANDARD.decode(pair.trim()).expect("in base 64"), b"ada:secret");
        }
    }
}

/// Another project's parser reads every response, and no session is left when connections and their time are over.
pub fn server(data: &[u8]) {
    let (mut choices, input) = Choices::split(data);
    let users: Option<(Guard, Box<dyn Users + Send>)> =
        choices.below(8).eq(&0).then(|| (guard(), Box::new(Ada) as Box<dyn Users + Send>));
    let mut world = World::with(Server::new(Config::new(Key([3; 32])), users));
    world.connect(2, [192, 0, 2, 1]);
    world.is_slow = choices.below(2) == 0;
    for piece in choices.pieces(input) {
        let connection = 1 + choices.below(8) as u64 / 7;
        world.receive(connection, piece);
        if !world.open.is_empty() && choices.below(2) == 0 {
            world.answer();
        }
        world.elapse(choices.below(64) as u64 / 63 * 61);
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

/// RTCP packets of clients are read or refused.
pub fn reports(input: &[u8]) {
    let _ = Received::parse(input);
}

/// Samples become packets that lie within them, or are refused.
pub fn samples(data: &[u8]) {
    let (mut choices, input) = Choices::split(data);
    let framing = [Framing::Lengths(1), Framing::Lengths(2), Framing::Lengths(4), Framing::StartCodes]
        [choices.below(4)];
    let formats = [
        Format::H264(framing),
        Format::H265(framing),
        Format::Aac,
        Format::Opus,
        Format::MpegAudio,
        Format::Ac3,
        Format::Eac3,
        Format::Av1,
        Format::Jpeg,
        Format::Klv,
        Format::Mpeg4,
        Format::Pcm { frame_bytes: 6 },
        Format::T140 { generations: 0 },
        Format::T140 { generations: 2 },
        Format::Vorbis { ident: 1 },
        Format::Vp8,
        Format::Vp9,
    ];
    let packet_bytes_max = 200 + choices.below(200);
    let format = formats[choices.below(formats.len())];
    let mut packetiser = Packetiser::new(format, 96, 1, 0, packet_bytes_max);
    let start = choices.below(input.len() + 1);
    let samples = [Sample { at: 0..start, timestamp: 0 }, Sample { at: start..input.len(), timestamp: 9 }];
    let mut packets = vec![];
    let _ = packetiser.packetise(input, &samples, &mut packets);
    let mut bytes = vec![];
    packets.iter().for_each(|packet| packet.copy_to(input, &mut bytes));
}
