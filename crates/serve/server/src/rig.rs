//! A server that a test turns, and clients of it in the same thread.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::clock;
use crate::event_loop::Serving;
use crate::settings::Settings;

/// A frame of AAC with its header (ADTS): 44.1 kHz, one channel, 1024 bytes.
pub(crate) const FRAME: [u8; 1024] = {
    let mut frame = [0x21; 1024];
    let header = [0xFF, 0xF1, 0x50, 0x40, 0x80, 0x1F, 0xFC];
    frame.split_at_mut(header.len()).0.copy_from_slice(&header);
    frame
};

/// For what takes a moment when nothing is wrong, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(60);

/// A server that a test turns, with a second and a bit of sound.
pub(crate) struct Rig {
    pub serving: Serving,
    pub events: Vec<epoll::Event>,
    _folder: tempfile::TempDir,
}

impl Rig {
    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.aac"), FRAME.repeat(100)).expect("a file");
        let listen = vec!["127.0.0.1:0".parse().expect("an address")];
        let mut settings = Settings { listen, ..Settings::new(folder.path().to_owned()) };
        change(&mut settings);
        let serving = Serving::new(settings).expect("a server");
        Self { serving, events: Vec::with_capacity(64), _folder: folder }
    }

    /// Turns the server until something is so, and fails after [`LIMIT`].
    pub fn turn_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Serving) -> bool) {
        let begun = Instant::now();
        while !is_so(&mut self.serving) {
            assert!(begun.elapsed() < LIMIT, "still not so: {what}");
            self.turn_within(100_000_000);
        }
    }

    /// One turn, which waits for so long if there is nothing to do.
    pub fn turn_within(&mut self, ns: u64) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: ns as i64 };
        self.serving.turn(&mut self.events, Some(&timeout)).expect("a turn");
    }

    /// A client that is let in, as from another address if there is one.
    pub fn connect(&mut self, from: Option<&str>) -> TcpStream {
        let stream = TcpStream::connect(self.serving.addresses()[0]).expect("a connection");
        stream.set_nonblocking(true).expect("a socket");
        let before = self.serving.connections.len();
        self.turn_until("a client is connected", |serving| serving.connections.len() > before);
        if let Some(from) = from.map(|from| from.parse().expect("an address")) {
            self.serving.connections.newest().expect("a connection").client = from;
            let admission = &mut self.serving.connections.admission;
            assert!(admission.admit(from.ip(), usize::MAX, 1e9, clock::now_ns()));
        }
        stream
    }

    /// What comes next on a connection after a request.
    pub fn ask(&mut self, stream: &mut TcpStream, request: &str) -> String {
        stream.write_all(request.replace('\n', "\r\n").as_bytes()).expect("a request");
        let (mut response, mut count) = ([0; 2000], None);
        self.turn_until("a response comes", |_| {
            count = stream.read(&mut response).ok();
            count.is_some()
        });
        String::from_utf8_lossy(&response[..count.unwrap_or_default()]).into_owned()
    }
}

/// What a SETUP has as its transport to ask for UDP.
pub(crate) const UDP: &str = "RTP/AVP;unicast;client_port=5000-5001";

pub(crate) const SETUP: &str =
    "SETUP rtsp://h/a.aac RTSP/1.0\nCSeq: 1\nTransport: RTP/AVP/TCP;interleaved=0-1\n\n";

/// What a response calls its session.
pub(crate) fn session(response: &str) -> &str {
    response.split("Session: ").nth(1).and_then(|rest| rest.split([';', '\r']).next()).expect("one")
}
