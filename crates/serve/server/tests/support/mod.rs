//! A server of files that ffmpeg makes, and clients of it.
#![allow(dead_code, unused_imports, reason = "each test takes what it needs")]

pub mod recording;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_server::{Serving, Settings, Stopper};

pub use forebay_testkit::films::{Folder, H264, H265, ffmpeg};

/// For what takes a moment when nothing is wrong, on a machine that does much else.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Waits until something is so, and fails after [`LIMIT`].
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Plays and checks, at most three times: on a busy machine a player leaves out what it takes up late.
pub fn in_some_play(attempt: impl Fn()) {
    const ATTEMPTS_MAX: u32 = 3;
    for _ in 1..ATTEMPTS_MAX {
        if catch_unwind(AssertUnwindSafe(&attempt)).is_ok() {
            return;
        }
    }
    attempt();
}

/// Receives and checks; again if the check fails while the kernel drops datagrams because the buffer of a receiver is full. That is no
/// loss of the server.
pub fn undropped(attempt: impl Fn()) {
    const ATTEMPTS_MAX: u32 = 4;
    for _ in 1..ATTEMPTS_MAX {
        let before = dropped_datagrams();
        match catch_unwind(AssertUnwindSafe(&attempt)) {
            Ok(()) => return,
            Err(cause) if dropped_datagrams() == before => resume_unwind(cause),
            Err(_) => {}
        }
    }
    attempt();
}

/// Of all receivers of the machine, since it started.
fn dropped_datagrams() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/snmp").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "RcvbufErrors")?.1.parse().ok()
}

/// What the pictures of a file or URL decode to, as a hash of each.
pub fn frames(input: &str) -> Vec<String> {
    let output = ffmpeg(&format!("{input} -map 0:v -f framemd5 -"));
    assert!(output.status.success(), "{input}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let hash = |line: &str| line.rsplit(',').next().expect("a hash").trim().to_owned();
    text.lines().filter(|line| !line.starts_with('#')).map(hash).collect()
}

/// A stream of a file or URL, as its payload without parameter sets, which a description has too.
pub fn payload(input: &str, stream: &str) -> Vec<u8> {
    let filter = match stream {
        "0:v" => "-bsf:v h264_mp4toannexb,filter_units=remove_types=7-9",
        _ => "",
    };
    let output = ffmpeg(&format!("{input} -map {stream} -c copy {filter} -f data -"));
    assert!(output.status.success(), "{input}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The NAL units of H.264 pictures, without what a description has too.
pub fn units(stream: &[u8]) -> Vec<&[u8]> {
    split(stream).filter(|unit| !(7..=9).contains(&(unit[0] & 0x1F))).collect()
}

/// The same of H.265, and without an encoder's remarks.
pub fn units_h265(stream: &[u8]) -> Vec<&[u8]> {
    split(stream).filter(|unit| !matches!(unit[0] >> 1 & 0x3F, 32..=35 | 39)).collect()
}

/// What is behind start codes.
fn split(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts: Vec<usize> =
        (0..stream.len().saturating_sub(2)).filter(|at| stream[*at..].starts_with(&[0, 0, 1])).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([stream.len()]).collect();
    let units = starts.into_iter().zip(ends).map(|(start, end)| &stream[start + 3..end]);
    // The fourth byte of a start code is at the end of what is before it.
    units.map(|unit| unit.strip_suffix(&[0]).unwrap_or(unit))
}

/// A server that ends with it.
pub struct Server {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    /// For RTSP, and the others after it.
    pub addresses: Vec<SocketAddr>,
    pub address: SocketAddr,
}

impl Server {
    pub fn start(folder: &Path) -> Self {
        Self::with(Settings::new(folder.to_owned()))
    }

    /// On a free port of the loopback.
    pub fn with(settings: Settings) -> Self {
        let free: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        Self::of(Settings { listen: vec![free], status: Some(free), udp_ports: 20_000..=29_999, ..settings })
    }

    pub fn of(settings: Settings) -> Self {
        let mut serving = Serving::new(settings).expect("a server");
        let (addresses, stopper) = (serving.addresses(), serving.stopper());
        let thread = std::thread::spawn(move || serving.run().expect("it serves"));
        Self { stopper, thread: Some(thread), address: addresses[0], addresses }
    }

    pub fn url(&self, path: &str) -> String {
        format!("rtsp://{}/{path}", self.address)
    }

    /// What the status page's port answers.
    pub fn http(&self, path: &str) -> String {
        let address = self.addresses.last().expect("a status page");
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("the server reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("text");
        response
    }

    pub fn metrics(&self) -> String {
        self.http("/metrics")
    }

    /// A number of the status page.
    pub fn metric(&self, name: &str) -> u64 {
        let metrics = self.metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
    }

    pub fn connect(&self) -> Client {
        Client::to(self.address).expect("the server listens")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper.stop();
        if !std::thread::panicking() {
            until("the server ends", || self.thread.as_ref().is_none_or(JoinHandle::is_finished));
        }
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            assert!(std::thread::panicking(), "the server has panicked");
        }
    }
}

/// A client that speaks RTSP as a test tells it to.
pub struct Client<S = TcpStream> {
    reader: BufReader<S>,
    cseq: u32,
    url: String,
}

/// What a server answers.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// What comes on a connection.
#[derive(Debug)]
pub enum Incoming {
    Response(Response),
    Frame(u8, Vec<u8>),
}

impl Response {
    pub fn get(&self, name: &str) -> &str {
        let header = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        header.map_or("", |(_, value)| value)
    }
}

impl Client {
    pub fn to(address: SocketAddr) -> io::Result<Self> {
        Self::on(TcpStream::connect(address)?, address)
    }

    /// On a connection to a server at `address`.
    pub fn on(stream: TcpStream, address: SocketAddr) -> io::Result<Self> {
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self::over(stream, address))
    }

    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }
}

impl<S: Read + Write> Client<S> {
    /// On whatever carries bytes to a server at `address` and back.
    pub fn over(stream: S, address: SocketAddr) -> Self {
        Self { reader: BufReader::new(stream), cseq: 0, url: format!("rtsp://{address}/") }
    }

    pub fn carrier(&self) -> &S {
        self.reader.get_ref()
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &str) {
        self.try_send(method, path, headers).expect("the server reads");
    }

    /// The same of a server that may have closed the connection.
    pub fn try_send(&mut self, method: &str, path: &str, headers: &str) -> io::Result<()> {
        self.cseq += 1;
        let (url, cseq) = (&self.url, self.cseq);
        let request = format!("{method} {url}{path} RTSP/1.0\r\nCSeq: {cseq}\r\n{headers}\r\n");
        self.reader.get_mut().write_all(request.as_bytes())
    }

    /// `None` at the end.
    pub fn receive(&mut self) -> Option<Incoming> {
        self.try_receive().expect("something comes in time")
    }

    /// The same of a server that may have closed the connection. What is no response and no frame is a failure all the same.
    pub fn try_receive(&mut self) -> io::Result<Option<Incoming>> {
        let mut first = [0];
        if self.reader.read(&mut first)? == 0 {
            return Ok(None);
        }
        if first[0] == b'$' {
            let mut head = [0; 3];
            self.reader.read_exact(&mut head)?;
            let mut packet = vec![0; u16::from_be_bytes([head[1], head[2]]).into()];
            self.reader.read_exact(&mut packet)?;
            return Ok(Some(Incoming::Frame(head[0], packet)));
        }
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {lines:?}"));
        let header =
            |line: &String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        let headers = lines[1..].iter().filter_map(header).collect();
        let mut response = Response { status, headers, body: String::new() };
        let mut body = vec![0; response.get("Content-Length").parse().unwrap_or(0)];
        self.reader.read_exact(&mut body)?;
        response.body = String::from_utf8(body).expect("text");
        Ok(Some(Incoming::Response(response)))
    }

    /// The next response; frames before it are passed over.
    pub fn response(&mut self) -> Response {
        loop {
            match self.receive() {
                Some(Incoming::Response(response)) => return response,
                Some(Incoming::Frame(..)) => {}
                None => panic!("the connection has ended"),
            }
        }
    }

    pub fn ask(&mut self, method: &str, path: &str, headers: &str) -> Response {
        self.send(method, path, headers);
        self.response()
    }

    /// Sets up a track on this connection; the session's name.
    pub fn set_up(&mut self, path: &str, track: usize, session: &str) -> String {
        let channels = format!("interleaved={}-{}", 2 * track, 2 * track + 1);
        let session = if session.is_empty() { String::new() } else { format!("Session: {session}\r\n") };
        let headers = format!("Transport: RTP/AVP/TCP;unicast;{channels}\r\n{session}");
        let response = self.ask("SETUP", &format!("{path}/trackID={track}"), &headers);
        assert_eq!(response.status, 200, "{response:?}");
        response.get("Session").split(';').next().expect("a session").to_owned()
    }

    /// So many packets of media, of any track.
    pub fn packets(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while packets.len() < count && self.next_packet(&mut packets) {}
        packets
    }

    /// All packets of media up to the goodbye.
    pub fn packets_to_the_end(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while self.next_packet(&mut packets) {}
        packets
    }

    fn next_packet(&mut self, packets: &mut Vec<Vec<u8>>) -> bool {
        match self.receive() {
            Some(Incoming::Frame(channel, packet)) if channel % 2 == 0 => packets.push(packet),
            // A goodbye ends a compound packet; its type is 203.
            Some(Incoming::Frame(_, report)) => return report[report.len() - 7] != 203,
            Some(Incoming::Response(response)) => assert_eq!(response.status, 200, "{response:?}"),
            None => panic!("the connection has ended"),
        }
        true
    }
}

/// A certificate of `localhost` by itself with its key, in files, and what it says to clients.
pub fn identity(keys: &Folder) -> (forebay_server::Tls, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    std::fs::write(keys.path("cert.pem"), made.cert.pem()).expect("a file");
    std::fs::write(keys.path("key.pem"), made.signing_key.serialize_pem()).expect("a file");
    let tls = forebay_server::Tls {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        certificate: keys.path("cert.pem"),
        key: keys.path("key.pem"),
    };
    (tls, made.cert.der().to_vec())
}
