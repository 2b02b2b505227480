//! Clients as they come: some that behave, and some that do not.

mod player;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::net::sockopt;

pub use player::{Arrival, Player};

use crate::process::{LIMIT, Process};
use crate::support::{Client, Response};

/// Films that do not change, with what they last in seconds. The last one has many bytes.
pub const STEADY: [(&str, f64); 4] =
    [("film.mp4", 2.0), ("film.ts", 2.0), ("film.mkv", 2.0), ("large.mp4", 2.0)];
/// Films that change.
pub const FICKLE: [&str; 4] = ["fickle.mp4", "fickle.ts", "fickle.mkv", "fickle.m3u"];

/// The server of the clients, and what they have counted.
pub struct Stage<'a> {
    pub server: &'a Process,
    pub session_timeout: Duration,
    pub is_over: AtomicBool,
    pub counts: Counts,
}

#[derive(Debug, Default)]
pub struct Counts {
    pub clients: AtomicU64,
    pub packets: AtomicU64,
    /// Sessions over UDP that were left without a word, which only time can end.
    pub abandoned: AtomicU64,
    /// Sessions that a client found to have ended.
    pub expired: AtomicU64,
    /// Clients that asked for what was spoilt, or not there.
    pub refused: AtomicU64,
    /// Connections without a request that the server has closed in the end.
    pub closed: AtomicU64,
}

type Visit = fn(&Stage, &mut Rng) -> io::Result<()>;

/// Those that come, and how often of a hundred.
const KINDS: [(u32, &str, Visit); 10] = [
    (26, "one that plays over TCP", plays_over_tcp),
    (22, "one that plays over UDP", plays_over_udp),
    (12, "one that plays what changes", plays_what_changes),
    (4, "one that stops reading", stops_reading),
    (3, "one that says nothing for long", says_nothing),
    (12, "one that talks rubbish", talks_rubbish),
    (8, "one that asks for what is not there", asks_for_what_is_not_there),
    (5, "one that does not finish", does_not_finish),
    (4, "a request to the status page", visits),
    (4, "ffmpeg, killed", ffmpeg),
];

/// Prints which client failed.
struct Name<'a>(&'a str);

impl Drop for Name<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("it was {}", self.0);
        }
    }
}

impl Stage<'_> {
    /// One client after the other until it is over. What a client does depends on its number and the seed only.
    pub fn come_and_go(&self, seed: u64, thread: u64) {
        for number in 0u64.. {
            if self.is_over.load(Relaxed) {
                return;
            }
            let mut rng = rng(seed, thread, number);
            let mut left = rng.u32(0..100);
            let (_, name, client) = KINDS
                .iter()
                .find(|(share, ..)| left.checked_sub(*share).map(|rest| left = rest).is_none())
                .expect("shares are of a hundred");
            let said = format!("{name}: client {number} of thread {thread}, seed {seed}");
            let _name = Name(&said);
            client(self, &mut rng).expect("a client that is served");
            self.counts.clients.fetch_add(1, Relaxed);
        }
    }

    fn connect(&self) -> io::Result<Client> {
        Client::to(self.server.rtsp)
    }

    /// Lets time pass, unless it is over.
    fn dawdle(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.is_over.load(Relaxed) {
            thread::sleep(Duration::from_millis(20).min(time));
        }
    }
}

/// Random numbers that can be repeated.
pub fn rng(seed: u64, thread: u64, number: u64) -> Rng {
    let mixed = [seed, thread, number].into_iter().fold(0, |all, one| Rng::with_seed(all ^ one).u64(..));
    Rng::with_seed(mixed)
}

/// What a client may add to a path and to a PLAY. Positions are in the film.
fn wishes(rng: &mut Rng, seconds: f64) -> (&'static str, String) {
    let query = ["", "", "", "?loop", "?start=0.7"][rng.usize(0..5)];
    let mut headers = String::new();
    if rng.bool() {
        let from = rng.f64() * seconds * 0.6;
        let until = if rng.u8(0..4) == 0 { format!("{:.3}", from + 0.3) } else { String::new() };
        headers += &format!("Range: npt={from:.3}-{until}\r\n");
    }
    match rng.u8(0..8) {
        0 => headers += "Scale: 2\r\n",
        1 => headers += "Scale: 0.5\r\n",
        2 => headers += "Speed: 4\r\n",
        // What is played backwards ends before it begins.
        3 if !headers.contains("Range") => headers += "Scale: -1\r\n",
        _ => {}
    }
    (query, headers)
}

fn plays_over_tcp(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let (film, seconds) = STEADY[rng.usize(0..STEADY.len())];
    let (query, _) = wishes(rng, seconds);
    let tracks = if film == "film.mp4" || film == "film.mkv" { rng.usize(1..3) } else { 1 };
    let mut player = Player::new(stage.connect()?, &format!("{film}{query}"));
    if rng.bool() {
        assert_eq!(player.ask("DESCRIBE", "")?.status, 200);
    }
    for track in 0..tracks {
        let extra = if rng.u8(0..4) == 0 { "Blocksize: 500\r\n" } else { "" };
        let response = player.set_up(track, extra)?;
        if response.status != 200 {
            return outlived(stage, &response);
        }
    }
    for _ in 0..rng.usize(1..5) {
        let (_, headers) = wishes(rng, seconds);
        let response = player.ask("PLAY", &headers)?;
        if response.status != 200 {
            return outlived(stage, &response);
        }
        let heard = player.packets(rng.usize(0..120))?;
        stage.counts.packets.fetch_add(heard, Relaxed);
        let method = ["PAUSE", "GET_PARAMETER", "OPTIONS", ""][rng.usize(0..4)];
        if !method.is_empty() {
            let response = player.ask(method, "")?;
            if response.status != 200 {
                return outlived(stage, &response);
            }
        }
    }
    leave(stage, player, rng);
    Ok(())
}

/// A client that took longer than a session lasts has lost it; nothing else is a reason.
fn outlived(stage: &Stage, response: &Response) -> io::Result<()> {
    assert_eq!(response.status, 454, "{response:?}");
    stage.counts.expired.fetch_add(1, Relaxed);
    Ok(())
}

/// The ways in which clients go.
fn leave(stage: &Stage, mut player: Player, rng: &mut Rng) {
    // What is said to a server that has gone away meanwhile is of no interest.
    match rng.u8(0..8) {
        0 | 1 => {
            if let Ok(response) = player.ask("TEARDOWN", "") {
                assert!([200, 454].contains(&response.status), "{response:?}");
            }
        }
        2 => drop(player.send("TEARDOWN", "")),
        // With a reset rather than an end.
        3 => drop(sockopt::set_socket_linger(player.stream(), Some(Duration::ZERO))),
        // It listens on.
        4 => {
            let _ = player.stream().shutdown(Shutdown::Write);
            while !matches!(player.receive(), Ok(Arrival::End) | Err(_)) {}
        }
        // In the midst of asking for something.
        5 => drop(player.stream().write_all(b"PLAY rtsp://127.0.0.1/film.mp4 RTSP/1.0\r\nCSe")),
        // With an answer on its way.
        6 => drop(player.send("PLAY", "Range: npt=0-\r\n")),
        _ => stage.dawdle(Duration::from_millis(rng.u64(1..600))),
    }
}

/// Two sockets with ports that follow each other.
fn ports() -> (UdpSocket, UdpSocket, u16) {
    let two = (0..1000).find_map(|_| {
        let rtp = UdpSocket::bind("127.0.0.1:0").ok()?;
        let port = rtp.local_addr().ok()?.port();
        Some((rtp, UdpSocket::bind(("127.0.0.1", port.checked_add(1)?)).ok()?, port))
    });
    let (rtp, rtcp, port) = two.expect("two ports");
    rtp.set_read_timeout(Some(LIMIT)).expect("a timeout");
    (rtp, rtcp, port)
}

/// The value of a part of a `Transport` header.
fn part<'a>(response: &'a Response, name: &str) -> &'a str {
    let mut parts = response.get("Transport").split(';');
    parts.find_map(|part| part.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {response:?}"))
}

fn plays_over_udp(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let (film, seconds) = STEADY[rng.usize(0..3)];
    let (query, headers) = wishes(rng, seconds);
    let mut player = Player::new(stage.connect()?, &format!("{film}{query}"));
    let (rtp, rtcp, port) = ports();
    let response = player.set_up_udp(port)?;
    if response.status != 200 {
        return outlived(stage, &response);
    }
    let source = u32::from_str_radix(part(&response, "ssrc="), 16).expect("a source");
    let reports: u16 =
        part(&response, "server_port=").split('-').nth(1).and_then(|port| port.parse().ok()).expect("ports");
    let response = player.ask("PLAY", &headers)?;
    if response.status != 200 {
        return outlived(stage, &response);
    }
    let mut packet = [0; 2000];
    // Packets for a client that had this port earlier may arrive, too.
    let is_ours = |packet: &[u8]| packet.len() > 12 && packet[8..12] == source.to_be_bytes();
    let mut wanted = rng.u64(1..40);
    loop {
        match rtp.recv(&mut packet) {
            Ok(count) if is_ours(&packet[..count]) => {
                wanted -= 1;
                stage.counts.packets.fetch_add(1, Relaxed);
                // Any packet on the port of reports is a sign of life.
                let _ = rtcp.send_to(&[0x80, 201, 0, 1, 0, 0, 0, 1], ("127.0.0.1", reports));
                // The film may be too short for more, so only the first is waited for.
                rtp.set_read_timeout(Some(Duration::from_millis(500)))?;
            }
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                assert_ne!(rtp.read_timeout()?, Some(LIMIT), "no packet comes");
                break;
            }
            Err(error) => return Err(error),
        }
        if wanted == 0 {
            break;
        }
    }
    if rng.bool() {
        leave(stage, player, rng);
    } else {
        stage.counts.abandoned.fetch_add(1, Relaxed);
        // The sockets first, or the connection.
        if rng.bool() {
            drop((rtp, rtcp));
            stage.dawdle(Duration::from_millis(rng.u64(1..300)));
        } else {
            drop(player);
            stage.dawdle(Duration::from_millis(rng.u64(1..300)));
        }
    }
    Ok(())
}

fn plays_what_changes(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let film = FICKLE[rng.usize(0..FICKLE.len())];
    let (query, _) = wishes(rng, 2.0);
    let player = Player::new(stage.connect()?, &format!("{film}{query}"));
    // Anything may be refused, and the session may end; but something comes of everything, and it is whole.
    let told = tells_of_change(player, stage, rng);
    if let Err(error) = &told {
        let is_hung = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        assert!(!is_hung, "no packet comes");
    }
    Ok(())
}

fn tells_of_change(mut player: Player, stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    const REFUSED: [u16; 4] = [404, 415, 454, 500];
    for track in 0..rng.usize(1..3) {
        let response = player.set_up(track, "")?;
        if response.status != 200 {
            stage.counts.refused.fetch_add(1, Relaxed);
            assert!(REFUSED.contains(&response.status), "{response:?}");
            if track == 0 {
                return Ok(());
            }
        }
    }
    for _ in 0..rng.usize(1..4) {
        let (_, headers) = wishes(rng, 1.0);
        let response = player.ask("PLAY", &headers)?;
        // It may have become shorter.
        if response.status != 200 {
            stage.counts.refused.fetch_add(1, Relaxed);
            assert!(REFUSED.contains(&response.status) || response.status == 457, "{response:?}");
            return Ok(());
        }
        player.packets(rng.usize(0..120))?;
    }
    leave(stage, player, rng);
    Ok(())
}

fn stops_reading(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let mut player = Player::new(stage.connect()?, "large.mp4?loop");
    player.set_up(0, "")?;
    let response = player.ask("PLAY", "Speed: 16\r\n")?;
    if response.status != 200 {
        return outlived(stage, &response);
    }
    player.packets(10)?;
    stage.dawdle(Duration::from_millis(rng.u64(100..2500)));
    if rng.bool() {
        let heard = player.packets(rng.usize(1..2000))?;
        stage.counts.packets.fetch_add(heard, Relaxed);
    }
    leave(stage, player, rng);
    Ok(())
}

fn says_nothing(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let mut player = Player::new(stage.connect()?, "film.mp4");
    let (_rtp, _rtcp, port) = ports();
    let is_udp = rng.bool();
    let response = if is_udp { player.set_up_udp(port)? } else { player.set_up(0, "")? };
    assert_eq!(response.status, 200, "{response:?}");
    if is_udp && rng.bool() {
        let response = player.ask("PLAY", "")?;
        if response.status != 200 {
            return outlived(stage, &response);
        }
    }
    stage.dawdle(stage.session_timeout + Duration::from_secs(1));
    let response = player.ask("PLAY", "")?;
    // It is not too late where the server is late itself, or where this was cut short.
    if response.status != 200 { outlived(stage, &response) } else { Ok(()) }
}

/// A connection to any port, that says what it wants in pieces.
fn say(rng: &mut Rng, to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("the server listens");
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rng.usize(1..=rest.len()));
        // It may be closed while this is written.
        if stream.write_all(now).is_err() {
            break;
        }
        rest = later;
    }
    stream
}

fn talks_rubbish(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let film = STEADY[0].0;
    let at = format!("rtsp://127.0.0.1/{film}");
    let session = format!("{:032x}", rng.u128(..));
    let sense = format!(
        "DESCRIBE {at} RTSP/1.0\r\nCSeq: 1\r\n\r\n\
         SETUP {at}/trackID=0 RTSP/1.0\r\nCSeq: 2\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n\r\n\
         SETUP {at}/trackID=1 RTSP/1.0\r\nCSeq: 3\r\nTransport: RTP/AVP;unicast;client_port=9-10\r\n\r\n\
         PLAY {at} RTSP/1.0\r\nCSeq: 4\r\nSession: {session}\r\nRange: npt=1-\r\n\r\n$\0\0\x04abcd\
         TEARDOWN {at} RTSP/1.0\r\nCSeq: 5\r\n\r\n"
    );
    let bytes = match rng.u8(0..7) {
        0 => (0..rng.usize(1..20_000)).map(|_| rng.u8(..)).collect(),
        1 => b"GET / HTTP/1.1\r\n\r\n".repeat(rng.usize(1..50)),
        2 => vec![b'$'; rng.usize(1..70_000)],
        3 => format!("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nX: {}", "x".repeat(rng.usize(1..30_000))).into(),
        4 => "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".repeat(rng.usize(1..3000)).into(),
        5 => {
            let length = rng.u64(..) >> rng.u32(0..64);
            format!("SET_PARAMETER {at} RTSP/1.0\r\nCSeq: 1\r\nContent-Length: {length}\r\n\r\nabc").into()
        }
        _ => {
            let mut bytes = sense.into_bytes();
            for _ in 0..rng.usize(0..6) {
                let at = rng.usize(0..bytes.len());
                match rng.u8(0..3) {
                    0 => bytes[at] ^= 1 << rng.u8(0..8),
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, rng.u8(..)),
                }
            }
            bytes
        }
    };
    let to = [stage.server.rtsp, stage.server.rtsp, stage.server.encrypted, stage.server.status];
    let to = to[rng.usize(0..4)];
    let mut stream = say(rng, to, &bytes);
    if rng.bool() {
        stream.set_read_timeout(Some(Duration::from_millis(rng.u64(1..300))))?;
        let _ = stream.read(&mut [0; 4096]);
    }
    Ok(())
}

fn asks_for_what_is_not_there(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let mut client = stage.connect()?;
    for _ in 0..rng.usize(1..6) {
        let number = rng.u32(..);
        let (path, status) = match rng.u8(0..6) {
            0 => (format!("{number}.mp4"), 404),
            1 => (format!("../{number}"), 404),
            2 => (".settings".to_owned(), 404),
            3 => ("passwd.mp4".to_owned(), 403),
            4 => ("text.mp4".to_owned(), 415),
            _ => (format!("film.mp4?start=x{number}"), 400),
        };
        let method = if rng.bool() { "DESCRIBE" } else { "SETUP" };
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
        client.try_send(method, &path, transport)?;
        assert_eq!(client.response().status, status, "{method} {path}");
        stage.counts.refused.fetch_add(1, Relaxed);
    }
    let response = client.ask("PLAY", "film.mp4", "Session: 0123456789abcdef0123456789abcdef\r\n");
    assert_eq!(response.status, 454, "{response:?}");
    Ok(())
}

/// Connections that never send a whole request.
fn does_not_finish(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let server = stage.server;
    let begun: [(SocketAddr, &[u8]); 5] = [
        (server.rtsp, b""),
        (server.rtsp, b"DESCRIBE rtsp://127.0.0.1/film.mp4 RTSP/1.0\r\nCS"),
        (server.encrypted, b""),
        (server.encrypted, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        (server.status, b"GET /metr"),
    ];
    let connections: Vec<TcpStream> = (0..rng.usize(1..8))
        .map(|_| {
            let (to, bytes) = begun[rng.usize(0..begun.len())];
            say(rng, to, bytes)
        })
        .collect();
    if rng.u8(0..6) != 0 {
        stage.dawdle(Duration::from_millis(rng.u64(1..2000)));
        return Ok(());
    }
    // Some wait until the server has had enough of them.
    let begun = Instant::now();
    for mut connection in connections {
        connection.set_read_timeout(Some(Duration::from_millis(200)))?;
        while !stage.is_over.load(Relaxed) {
            match connection.read(&mut [0; 100]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(begun.elapsed() < 4 * LIMIT, "a connection without a request stays open");
                }
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    stage.counts.closed.fetch_add(1, Relaxed);
                    break;
                }
            }
        }
    }
    Ok(())
}

fn visits(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let (path, status) = [("/", "200"), ("/metrics", "200"), ("/x", "404")][rng.usize(0..3)];
    let response = stage.server.http(path);
    assert_eq!(response.split(' ').nth(1), Some(status), "{response}");
    Ok(())
}

/// It is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ffmpeg(stage: &Stage, rng: &mut Rng) -> io::Result<()> {
    let (film, _) = STEADY[rng.usize(0..3)];
    let (scheme, address) = [("rtsp", stage.server.rtsp), ("rtsps", stage.server.encrypted)][rng.usize(0..2)];
    let transport = if scheme == "rtsp" && rng.bool() { "udp" } else { "tcp" };
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "quiet", "-threads", "1", "-timeout", "5000000"]);
    command.args(["-rtsp_transport", transport, "-i", &format!("{scheme}://{address}/{film}?loop")]);
    command.args(["-c", "copy", "-f", "null", "-"]);
    let player = Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    stage.dawdle(Duration::from_millis(rng.u64(50..1500)));
    drop(player);
    Ok(())
}
