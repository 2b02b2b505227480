//! Sockets of players: pairs of ports, and bytes with the time at which the kernel had them.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::sockopt::{RcvBuf, ReceiveTimestampns, RxqOvfl, TcpMaxSeg, UdpGroSegment};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::Error;
use crate::clock::stamp_ns;

/// Ports of players are taken from here; those that somebody has are passed over.
const PORTS: std::ops::Range<u16> = 10_000..60_000;
/// What a socket holds while the players are at others: memory is taken only as packets wait.
const SOCKET_BYTES: usize = 1 << 20;
/// What is received at once: the most that is put together of datagrams.
const TOGETHER_BYTES: usize = 64 << 10;
/// Less a connection does not wait with.
const WINDOW_BYTES_MIN: usize = 16 << 10;
/// What an Ethernet frame carries of a connection.
const SEGMENT_BYTES: u32 = 1_460;
/// Room for the kernel's time and the length of datagrams that were put together.
const CONTROL_BYTES: usize = 128;

/// Gives pairs of ports, each once until all were.
#[derive(Debug)]
pub(crate) struct Ports {
    next: u16,
}

/// An even port for packets and the next one for reports (RFC 3550, section 11).
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) media: UdpSocket,
    pub(crate) reports: UdpSocket,
    pub(crate) port: u16,
}

impl Ports {
    pub(crate) fn new(seed: u64) -> Self {
        // So that two that play at the same time seldom try the same.
        let pairs = u64::from(PORTS.end - PORTS.start) / 2;
        Self { next: PORTS.start + 2 * (seed % pairs) as u16 }
    }

    pub(crate) fn pair(&mut self, server: IpAddr) -> Result<Pair, Error> {
        let here: IpAddr = match server {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        for _ in 0..PORTS.len() / 2 {
            let port = self.next;
            self.next = if port + 2 < PORTS.end { port + 2 } else { PORTS.start };
            let sockets = UdpSocket::bind((here, port))
                .and_then(|media| UdpSocket::bind((here, port + 1)).map(|reports| (media, reports)));
            match sockets {
                Ok((media, reports)) => {
                    media.set_nonblocking(true).map_err(Error::system("use a socket"))?;
                    reports.set_nonblocking(true).map_err(Error::system("use a socket"))?;
                    // What the kernel does not know is done without.
                    let _ = setsockopt(&media, RcvBuf, &SOCKET_BYTES);
                    let _ = setsockopt(&media, UdpGroSegment, &true);
                    let _ = setsockopt(&media, ReceiveTimestampns, &true);
                    let _ = setsockopt(&media, RxqOvfl, &1);
                    return Ok(Pair { media, reports, port });
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(Error::system("have a socket for packets")(error)),
            }
        }
        Err(Error::Order("no pair of ports is left for another player; let fewer play over UDP"))
    }
}

/// Begins a connection, which may not be there yet. Where a `window` is given, no more bytes wait here than that, in packets as
/// long as those of Ethernet.
pub(crate) fn connect(address: SocketAddr, window: Option<usize>) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(window) = window {
        // What the kernel keeps besides the bytes counts too.
        setsockopt(&socket, RcvBuf, &window.max(WINDOW_BYTES_MIN))?;
        setsockopt(&socket, TcpMaxSeg, &SEGMENT_BYTES)?;
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    let _ = setsockopt(&stream, ReceiveTimestampns, &true);
    Ok(stream)
}

/// Where received bytes are put.
#[derive(Debug)]
pub(crate) struct Receiver {
    bytes: Vec<u8>,
    control: Vec<u8>,
}

/// What was received.
pub(crate) struct Received<'a> {
    pub(crate) bytes: &'a [u8],
    /// The length of each datagram but the last.
    pub(crate) datagram: usize,
    /// By the kernel's stamp.
    pub(crate) arrival_ns: i64,
    /// Datagrams that the kernel dropped before, because the socket was full, of all since there was one.
    pub(crate) dropped: u32,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; TOGETHER_BYTES], control: vec![0; CONTROL_BYTES] }
    }

    /// Takes `most` bytes of a connection where that is given. `None` where nothing is there; no bytes of a connection where it has ended.
    pub(crate) fn receive(
        &mut self,
        socket: &impl AsRawFd,
        most: Option<usize>,
    ) -> io::Result<Option<Received<'_>>> {
        let (length, segment, stamp, dropped) = {
            let room = most.unwrap_or(TOGETHER_BYTES).clamp(1, TOGETHER_BYTES);
            let mut slices = [IoSliceMut::new(&mut self.bytes[..room])];
            let message = match recvmsg::<SockaddrStorage>(
                socket.as_raw_fd(),
                &mut slices,
                Some(&mut self.control),
                MsgFlags::MSG_DONTWAIT,
            ) {
                Ok(message) => message,
                Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let (mut segment, mut stamp, mut dropped) = (None, None, 0);
            for control in message.cmsgs().into_iter().flatten() {
                match control {
                    ControlMessageOwned::UdpGroSegments(bytes) => segment = usize::try_from(bytes).ok(),
                    ControlMessageOwned::ScmTimestampns(time) => {
                        stamp = Some(time.tv_sec() * 1_000_000_000 + time.tv_nsec());
                    }
                    ControlMessageOwned::RxqOvfl(datagrams) => dropped = datagrams,
                    _ => {}
                }
            }
            (message.bytes, segment, stamp, dropped)
        };
        Ok(Some(Received {
            bytes: &self.bytes[..length],
            datagram: segment.filter(|bytes| *bytes > 0).unwrap_or(length).max(1),
            arrival_ns: stamp.unwrap_or_else(stamp_ns),
            dropped,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(receiver: &mut Receiver, socket: &impl AsRawFd) -> (Vec<u8>, usize, i64) {
        for _ in 0..2_000 {
            if let Some(received) = receiver.receive(socket, None).unwrap() {
                return (received.bytes.to_vec(), received.datagram, received.arrival_ns);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("nothing came");
    }

    #[test]
    fn pairs_are_even_and_each_is_had_once() {
        let mut ports = Ports::new(5);
        let pairs: Vec<Pair> = (0..3).map(|_| ports.pair(Ipv4Addr::LOCALHOST.into()).unwrap()).collect();
        for pair in &pairs {
            assert_eq!(pair.port % 2, 0);
            assert_eq!(pair.media.local_addr().unwrap().port(), pair.port);
            assert_eq!(pair.reports.local_addr().unwrap().port(), pair.port + 1);
        }
        // Those that are taken are passed over.
        let mut again = Ports::new(5);
        let other = again.pair(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert!(pairs.iter().all(|pair| pair.port != other.port));
    }

    #[test]
    fn datagrams_come_with_the_time_at_which_the_kernel_had_them() {
        let pair = Ports::new(77).pair(Ipv4Addr::LOCALHOST.into()).unwrap();
        let mut receiver = Receiver::new();
        assert!(receiver.receive(&pair.media, None).unwrap().is_none());
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // The kernel takes a moment to begin to stamp, after the first socket that wants it.
        let is_stamped = (0..50).any(|_| {
            let before = stamp_ns();
            sender.send_to(b"packet", (Ipv4Addr::LOCALHOST, pair.port)).unwrap();
            let sent = stamp_ns();
            std::thread::sleep(std::time::Duration::from_millis(20));
            let (bytes, datagram, arrival_ns) = wait(&mut receiver, &pair.media);
            assert_eq!((bytes.as_slice(), datagram), (&b"packet"[..], 6));
            assert!(arrival_ns >= before, "{before} {arrival_ns} {sent}");
            arrival_ns <= sent + 15_000_000
        });
        assert!(is_stamped, "packets have the time at which they were asked for");
    }

    #[test]
    fn a_socket_that_is_full_tells_what_it_dropped() {
        let pair = Ports::new(55).pair(Ipv4Addr::LOCALHOST.into()).unwrap();
        setsockopt(&pair.media, RcvBuf, &4_096).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let send = || sender.send_to(&[1; 1_000], (Ipv4Addr::LOCALHOST, pair.port)).unwrap();
        (0..100).for_each(|_| assert_eq!(send(), 1_000));
        let mut receiver = Receiver::new();
        let mut came = 0;
        while receiver.receive(&pair.media, None).unwrap().is_some() {
            came += 1;
        }
        send();
        let dropped = receiver.receive(&pair.media, None).unwrap().unwrap().dropped;
        assert_eq!((came + dropped, came < 100), (100, true));
    }

    #[test]
    fn datagrams_that_were_sent_as_one_are_told_apart() {
        let pair = Ports::new(99).pair(Ipv4Addr::LOCALHOST.into()).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        sender.connect((Ipv4Addr::LOCALHOST, pair.port)).unwrap();
        setsockopt(&sender, nix::sys::socket::sockopt::UdpGsoSegment, &1_000).unwrap();
        sender.send(&[7; 2_500]).unwrap();
        let mut receiver = Receiver::new();
        let (bytes, datagram, _) = wait(&mut receiver, &pair.media);
        assert_eq!((bytes.len(), datagram), (2_500, 1_000));
    }
}
