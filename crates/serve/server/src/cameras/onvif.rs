//! ONVIF over HTTP, and WS-Discovery over UDP: a thread for each, beside the one that sends packets. Requests that wait are kept
//! by a third one.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_cameras::Plan;
use forebay_cameras::onvif::{
    self, Answer, Asker, Place, PullPoints, REQUEST_BYTES_MAX, Response, WrongPassword, discovery,
};
use forebay_rtsp::address::neighbourhood;
use forebay_rtsp::server::Guesses;
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};

use super::waiting::Waiting;
use crate::clock;
use crate::error::{Result, to};
use crate::readers::{Done, Mailbox};

/// Connections at the same time, and those of one address: no address can take all.
const CONNECTIONS_MAX: usize = 512;
const CONNECTIONS_PER_ADDRESS: usize = 64;
/// How long a client may take for its request, and for the response.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// The longest probe.
const PROBE_BYTES_MAX: usize = 8 << 10;
/// Between answers to one probe: a client has to read those of all cameras.
const ANSWER_PAUSE: Duration = Duration::from_micros(500);
/// Between two probes that are answered, so that a flood of probes makes no flood of answers.
const PROBE_PAUSE: Duration = Duration::from_millis(250);

/// What all threads know.
#[derive(Clone)]
pub(super) struct Face {
    pub plan: Arc<Plan>,
    /// What is added to the server's time for the time from the epoch.
    pub since_epoch_ns: i64,
    pub rtsp_port: u16,
    pub http_port: u16,
    /// Wrong passwords, by address.
    pub guesses: Arc<Mutex<Guesses>>,
    /// What clients want to be told of.
    pub pull_points: Arc<Mutex<PullPoints>>,
    /// Requests for that.
    pub waiting: Arc<Waiting>,
    /// The way to the log.
    pub mailbox: Mailbox,
}

/// A wrong password, and what was asked for with it.
#[derive(Debug)]
pub(crate) struct Guess {
    pub client: IpAddr,
    pub path: String,
    /// What was answered.
    pub status: u16,
    pub wrong_password: WrongPassword,
}

/// Connections that are open, by address.
type Busy = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// One connection; there is room for another one when it is dropped.
struct Visit {
    busy: Busy,
    from: IpAddr,
}

impl Visit {
    /// `None` if there are too many.
    fn begin(busy: &Busy, from: IpAddr) -> Option<Self> {
        let from = neighbourhood(from);
        let mut all = busy.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.get(&from).copied().unwrap_or(0);
        if own >= CONNECTIONS_PER_ADDRESS || all.values().sum::<usize>() >= CONNECTIONS_MAX {
            return None;
        }
        all.insert(from, own + 1);
        Some(Self { busy: busy.clone(), from })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut all = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get_mut(&self.from) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.from);
            }
        }
    }
}

impl Face {
    /// Answers requests on a listener until the process ends.
    pub fn serve(self, listener: TcpListener) -> Result<()> {
        listener.set_nonblocking(false).map_err(to("a socket"))?;
        Waiting::keep(self.clone())?;
        let busy = Busy::default();
        let accept = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Without descriptors the next one would fail at once, too.
                    thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let Ok(client) = stream.peer_addr() else { continue };
                let Some(visit) = Visit::begin(&busy, client.ip()) else { continue };
                let face = self.clone();
                let answer = move || {
                    // A client that goes away needs no answer.
                    let _ = face.answer(stream, client.ip().to_canonical());
                    drop(visit);
                };
                // A connection for which there is no thread is closed.
                let _ = thread::Builder::new().name("onvif".to_owned()).spawn(answer);
            }
        };
        thread::Builder::new().name("onvif".to_owned()).spawn(accept).map_err(to("a thread"))?;
        Ok(())
    }

    /// The time from the epoch.
    pub fn at_ns(&self) -> u64 {
        clock::now_ns().saturating_add_signed(self.since_epoch_ns)
    }

    fn answer(&self, mut stream: TcpStream, client: IpAddr) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let (path, body) = receive(&stream, Instant::now() + PATIENCE)?;
        let host = stream.local_addr()?.ip().to_canonical();
        let place = Place {
            http: SocketAddr::new(host, self.http_port).to_string(),
            rtsp: SocketAddr::new(host, self.rtsp_port).to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let asker = Asker {
            client,
            guesses: &self.guesses,
            pull_points: &self.pull_points,
            now_ns: clock::now_ns(),
            at_ns: self.at_ns(),
            unix_ns: clock::unix_ns(),
        };
        let response = match onvif::answer(&self.plan, &place, &path, &body, &asker) {
            Answer::Ready(response) => response,
            Answer::Later(pull) => {
                self.waiting.add(self, pull, stream);
                return Ok(());
            }
        };
        let bytes = written(&response);
        let status = response.status;
        if let Some(wrong_password) = response.wrong_password {
            self.mailbox.post(Done::Guessed(Guess { client, path, status, wrong_password }));
        }
        if let Some(point) = response.stirs {
            self.waiting.stir(self, point);
        }
        stream.write_all(&bytes)
    }

    /// Answers probes until the process ends.
    pub fn discover(self, socket: UdpSocket) -> io::Result<()> {
        let answer = move || {
            let mut buffer = [0; PROBE_BYTES_MAX];
            loop {
                let Ok((count, from)) = socket.recv_from(&mut buffer) else {
                    thread::sleep(PROBE_PAUSE);
                    continue;
                };
                let Ok(probe) = std::str::from_utf8(&buffer[..count]) else { continue };
                let Some(host) = host_towards(from).filter(|_| is_near(from.ip())) else { continue };
                let http = SocketAddr::new(host, self.http_port).to_string();
                for answer in discovery::answers(&self.plan, probe, &http) {
                    let _ = socket.send_to(answer.as_bytes(), from);
                    thread::sleep(ANSWER_PAUSE);
                }
                thread::sleep(PROBE_PAUSE);
            }
        };
        thread::Builder::new().name("discovery".to_owned()).spawn(answer)?;
        Ok(())
    }
}

/// A response as it is sent.
pub(super) fn written(response: &Response) -> Vec<u8> {
    let Response { status, body, .. } = response;
    let reason = match status {
        200 => "OK",
        429 => "Too Many Requests",
        _ => "Bad Request",
    };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: application/soap+xml; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// The path and the body of a request.
fn receive(mut stream: &TcpStream, until: Instant) -> io::Result<(String, String)> {
    let mut bytes = Vec::new();
    let mut has_continued = false;
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(&bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        if let httparse::Status::Complete(head_bytes) = parsed {
            let header = |name: &str| {
                let header = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
                header.and_then(|header| std::str::from_utf8(header.value).ok())
            };
            let length = header("Content-Length").and_then(|length| length.trim().parse::<usize>().ok());
            let end = head_bytes + length.unwrap_or(0).min(REQUEST_BYTES_MAX);
            if bytes.len() >= end {
                let body = String::from_utf8_lossy(&bytes[head_bytes..end]).into_owned();
                return Ok((request.path.unwrap_or_default().to_owned(), body));
            }
            if header("Expect").is_some() && !std::mem::replace(&mut has_continued, true) {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
        } else if bytes.len() > HEAD_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let left = until.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            _ if left.is_zero() => return Err(ErrorKind::TimedOut.into()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// A socket that hears probes: those to the group, where `port` is the one of WS-Discovery.
pub(super) fn discovery_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let descriptor = socket(family, SocketType::DGRAM, None)?;
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
    // Other programs of this machine may listen there, too.
    sockopt::set_socket_reuseaddr(&descriptor, true)?;
    bind(&descriptor, &address)?;
    let socket = UdpSocket::from(descriptor);
    if address.port() == discovery::PORT {
        socket.join_multicast_v4(&Ipv4Addr::from(discovery::GROUP), &Ipv4Addr::UNSPECIFIED)?;
    }
    Ok(socket)
}

/// The address of this machine that a client reaches it by.
fn host_towards(client: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if client.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { return None };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(client).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Whether an address is of a local network: answers are larger than probes, whose senders may be forged.
fn is_near(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_of_connections_and_those_that_end_make_room() {
        let busy = Busy::default();
        let begin = |host: u32| Visit::begin(&busy, Ipv4Addr::from_bits(0x0A00_0000 + host).into());
        let all_of = |host| std::iter::from_fn(|| begin(host)).collect::<Vec<_>>();
        let mut own = all_of(1);
        assert!(own.len() == CONNECTIONS_PER_ADDRESS && begin(2).is_some());
        let others: Vec<_> = (2..100).flat_map(all_of).collect();
        assert!(own.len() + others.len() == CONNECTIONS_MAX && begin(200).is_none());
        own.pop();
        assert!(begin(200).is_some());
        drop((own, others));
        assert!(busy.lock().expect("no panic").is_empty());
    }
}
