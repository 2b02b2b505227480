//! The connections of a network namespace, with what the kernel counts of each (sock_diag(7)).
//!
//! The answers hold addresses, queues, the socket's inode and the start of `struct tcp_info`. No rights are needed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, socket_with};

/// A connection, or a socket that listens for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Which of its states it is in.
    pub state: State,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The number that `/proc/PID/fd` shows; 0 before a program has accepted the connection.
    pub inode: u32,
    /// Bytes that arrived and were not read; of a listening socket the connections that were not accepted.
    pub unread: u32,
    /// Of a listening socket so many connections may wait to be accepted; `None` of others.
    pub backlog: Option<u32>,
    /// What TCP itself knows; `None` for a listening socket.
    pub traffic: Option<Traffic>,
}

/// The states that a caller tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Both ends may send.
    Established,
    /// The other end has not accepted yet.
    Connecting,
    /// The other end has asked for it, and it is not among those that wait to be accepted.
    Arriving,
    /// It takes connections.
    Listening,
    /// It begins or ends otherwise.
    Other,
}

/// Counters of one connection. Ages are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Segments that were sent and not acknowledged.
    pub unacknowledged: u32,
    /// Bytes that were written and not sent.
    pub not_sent: u32,
    /// Since data was sent last.
    pub sent_ago: u32,
    /// Since data came last.
    pub received_ago: u32,
    /// Since an acknowledgement came last.
    pub acknowledged_ago: u32,
    /// Segments with data that came.
    pub segments_received: u32,
    /// Segments with data that were sent.
    pub segments_sent: u32,
    /// Bytes that came.
    pub received: u64,
    /// Bytes that were sent, each once; `None` where the kernel does not count them.
    pub sent: Option<u64>,
    /// Microseconds in which there was something to send.
    pub busy_us: u64,
    /// Microseconds of those in which the other end had no room.
    pub receiver_full_us: u64,
    /// The shortest time from a segment to its acknowledgement in the last minutes, in microseconds; `None` before the first.
    pub round_trip_us: Option<u32>,
}

/// What connections are carried by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Streams.
    Tcp = 6,
    /// Datagrams, as far as the socket has an other end.
    Udp = 17,
}

const MESSAGE_HEADER: usize = 16;
/// Of `struct inet_diag_msg` and `struct unix_diag_msg`.
const SOCKET_HEADER: usize = 72;
const UNIX_HEADER: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const REQUEST_AND_DUMP: u16 = 0x301;
/// The attribute with `struct tcp_info`.
const INFO: u16 = 2;
/// All states but the two that no program has a part in: TIME_WAIT (6) and CLOSE (7).
const STATES: u32 = 0xfff & !(1 << 6 | 1 << 7);
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];
/// Attributes of a Unix socket, and the bits that ask for them.
const UNIX_NAME: u16 = 0;
const UNIX_PEER: u16 = 2;
const SHOW_NAME_AND_PEER: u32 = 1 | 4;

/// All connections of the caller's network namespace.
///
/// # Errors
/// The kernel has no sock_diag, or refuses it.
pub fn connections(protocol: Protocol) -> io::Result<Vec<Connection>> {
    let mut found = Vec::new();
    for family in FAMILIES {
        let mut body = [0; 56];
        (body[0], body[1], body[2]) = (family, protocol as u8, 1 << (INFO - 1));
        body[4..8].copy_from_slice(&STATES.to_ne_bytes());
        dump(&body, |body| found.extend(Connection::parse(body)))?;
    }
    Ok(found)
}

/// The names of the listening sockets that Unix sockets without a name of their own are connected to, by inode.
///
/// # Errors
/// The kernel has no sock_diag, or refuses it.
pub fn unix_peers() -> io::Result<HashMap<u32, PathBuf>> {
    let mut request = [0; 24];
    request[0] = libc::AF_UNIX as u8;
    request[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    request[12..16].copy_from_slice(&SHOW_NAME_AND_PEER.to_ne_bytes());
    let (mut names, mut peers) = (HashMap::new(), Vec::new());
    dump(&request, |body| {
        let Some(inode) = number(body, 4) else { return };
        match attribute(body, UNIX_HEADER, UNIX_NAME) {
            Some(name) => {
                names.insert(inode, unix_name(name));
            }
            None => {
                let peer = attribute(body, UNIX_HEADER, UNIX_PEER).and_then(|peer| number(peer, 0));
                peers.extend(peer.map(|peer| (inode, peer)));
            }
        }
    })?;
    Ok(peers.into_iter().filter_map(|(inode, peer)| Some((inode, names.get(&peer)?.clone()))).collect())
}

/// A name in the file system ends with a 0; one that begins with a 0 is in none, and is written with @ (unix(7)).
fn unix_name(bytes: &[u8]) -> PathBuf {
    let name = match bytes {
        [0, rest @ ..] => [b"@", rest].concat(),
        _ => bytes.strip_suffix(&[0]).unwrap_or(bytes).to_owned(),
    };
    PathBuf::from(OsStr::from_bytes(&name))
}

/// Asks for all sockets of a kind, and hands on what the kernel says of each.
fn dump(request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let mut header = [0; MESSAGE_HEADER];
    header[..4].copy_from_slice(&((MESSAGE_HEADER + request.len()) as u32).to_ne_bytes());
    header[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    header[6..8].copy_from_slice(&REQUEST_AND_DUMP.to_ne_bytes());
    rustix::net::send(&socket, &[&header[..], request].concat(), SendFlags::empty())?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (length, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some((kind, body, after)) = message(rest) {
            match kind {
                DONE => return Ok(()),
                ERROR => {
                    let code = number(body, 0).unwrap_or(0) as i32;
                    return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
                }
                SOCK_DIAG_BY_FAMILY => each(body),
                _ => {}
            }
            rest = after;
        }
        if length == 0 {
            return Ok(());
        }
    }
}

/// The first message of `bytes`: its kind, its body, and what follows it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = number(bytes, 0)? as usize;
    let body = bytes.get(MESSAGE_HEADER..length)?;
    Some((half(bytes, 4)?, body, bytes.get(aligned(length)..).unwrap_or_default()))
}

impl Connection {
    /// Whether it is a listening socket whose queue takes no more connections.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.backlog.is_some_and(|backlog| self.unread > backlog)
    }

    /// `None` of bytes that are no `struct inet_diag_msg` with its attributes.
    fn parse(body: &[u8]) -> Option<Self> {
        let head = body.get(..SOCKET_HEADER)?;
        let state = match head[1] {
            1 => State::Established,
            2 => State::Connecting,
            3 => State::Arriving,
            10 => State::Listening,
            _ => State::Other,
        };
        let family = head[0];
        let traffic = if state == State::Listening {
            None
        } else {
            attribute(body, SOCKET_HEADER, INFO).map(Traffic::parse)
        };
        Some(Self {
            state,
            local: address(family, head, 4, 8)?,
            remote: address(family, head, 6, 24)?,
            inode: number(head, 68)?,
            unread: number(head, 56)?,
            backlog: number(head, 60).filter(|_| state == State::Listening),
            traffic,
        })
    }
}

impl Traffic {
    /// The fields of `struct tcp_info`; those that an older kernel does not have are 0.
    fn parse(info: &[u8]) -> Self {
        let word = |offset| number(info, offset).unwrap_or(0);
        let long = |offset: usize| {
            let bytes = info.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        Self {
            unacknowledged: word(24),
            sent_ago: word(44),
            received_ago: word(52),
            acknowledged_ago: word(56),
            not_sent: word(144),
            segments_received: word(152),
            segments_sent: word(156),
            received: long(128),
            sent: (info.len() >= 216).then(|| long(200).saturating_sub(long(208))),
            busy_us: long(168),
            receiver_full_us: long(176),
            round_trip_us: Some(word(148)).filter(|time| ![0, u32::MAX].contains(time)),
        }
    }
}

/// An IPv4 address in IPv6's form is the IPv4 address: both ends then have one name.
fn address(family: u8, head: &[u8], port: usize, address: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(head.get(port..port + 2)?.try_into().ok()?);
    let bytes: [u8; 16] = head.get(address..address + 16)?.try_into().ok()?;
    let ip = if i32::from(family) == libc::AF_INET {
        IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
    } else {
        IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
    };
    Some(SocketAddr::new(ip, port))
}

fn attribute(body: &[u8], header: usize, wanted: u16) -> Option<&[u8]> {
    let mut rest = body.get(header..)?;
    loop {
        let length = usize::from(half(rest, 0)?);
        let value = rest.get(4..length)?;
        if half(rest, 2)? == wanted {
            return Some(value);
        }
        rest = rest.get(aligned(length)..)?;
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn number(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

    fn inode(stream: &impl AsRawFd) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        let name = link.to_str().unwrap();
        name.trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn both_ends_of_a_connection_are_listed_with_what_was_not_read() {
        for name in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(name) else { continue };
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let waiting = connections(Protocol::Tcp).unwrap();
            let listening = waiting.iter().find(|one| one.inode == inode(&listener)).unwrap();
            assert_eq!((listening.state, listening.unread), (State::Listening, 1));
            assert!(listening.backlog.is_some_and(|backlog| backlog >= 1) && !listening.is_full());
            let (server, _) = listener.accept().unwrap();
            client.write_all(b"question").unwrap();
            let listed = connections(Protocol::Tcp).unwrap();
            let of = |inode| *listed.iter().find(|one| one.inode == inode).unwrap();
            let (asking, answering) = (of(inode(&client)), of(inode(&server)));
            assert_eq!((asking.local, asking.remote), (answering.remote, answering.local));
            assert_eq!((asking.state, answering.unread, asking.unread), (State::Established, 8, 0));
            assert_eq!(asking.traffic.unwrap().segments_sent, 1);
            let received = answering.traffic.unwrap();
            assert_eq!((received.segments_received, received.received), (1, 8));
            assert_eq!((answering.backlog, received.round_trip_us.is_some()), (None, true));
        }
    }

    #[test]
    fn a_full_queue_and_what_it_has_no_room_for_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Another listen(2) sets the backlog of a socket that listens.
        rustix::net::listen(&listener, 1).unwrap();
        let address = listener.local_addr().unwrap();
        let _waiting = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let refused = std::thread::spawn(move || TcpStream::connect_timeout(&address, PATIENCE));
        let begun = std::time::Instant::now();
        loop {
            let listed = connections(Protocol::Tcp).unwrap();
            let full = listed.iter().find(|one| one.inode == inode(&listener)).unwrap();
            assert_eq!((full.backlog, full.unread, full.is_full()), (Some(1), 2, true));
            if listed.iter().any(|one| one.state == State::Connecting && one.remote == address) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{listed:?}");
            std::thread::yield_now();
        }
        // With room again, it comes.
        listener.accept().unwrap();
        refused.join().unwrap().unwrap();
    }

    #[test]
    fn a_connected_unix_socket_has_the_name_of_what_it_is_connected_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        let peers = unix_peers().unwrap();
        assert_eq!(peers.get(&inode(&client)), Some(&path));
        assert_eq!(peers.get(&inode(&server)), None);
    }

    #[test]
    fn a_datagram_socket_has_another_end_when_it_is_connected() {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        let listed = connections(Protocol::Udp).unwrap();
        let of = |socket: &UdpSocket| listed.iter().find(|listed| listed.inode == inode(socket));
        assert_eq!(of(&one).unwrap().remote, other.local_addr().unwrap());
        assert!(of(&other).is_none());
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let mut bytes: Vec<u8> = (0..200u8).collect();
        for length in 0..bytes.len() {
            let _ = (message(&bytes[..length]), Connection::parse(&bytes[..length]));
        }
        bytes.fill(0);
        assert!(message(&bytes).is_none() && attribute(&bytes, SOCKET_HEADER, INFO).is_none());
    }
}
