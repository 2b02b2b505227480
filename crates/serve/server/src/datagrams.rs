//! The UDP sockets that all sessions share: a pair, for RTP and RTCP, on each local address that clients connect to.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;

use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use rustix::net::sockopt;

/// What the kernel may keep of packets on their way out, and of reports on their way in.
pub const KERNEL_BYTES: usize = 4 << 20;

/// All pairs.
#[derive(Debug)]
pub(crate) struct Datagrams {
    ports: RangeInclusive<u16>,
    pairs: Vec<Pair>,
}

/// Two sockets with ports that follow each other.
#[derive(Debug)]
pub(crate) struct Pair {
    host: SocketAddr,
    pub rtp: UdpSocket,
    pub rtcp: UdpSocket,
    pub ports: (u16, u16),
    /// What the kernel divides larger datagrams into, in bytes; 0 where it sends them as they are.
    segment: Cell<u16>,
    can_segment: bool,
}

impl Datagrams {
    pub fn new(ports: RangeInclusive<u16>) -> Self {
        Self { ports, pairs: Vec::new() }
    }

    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    pub fn pair(&self, number: usize) -> &Pair {
        &self.pairs[number]
    }

    /// The number of the pair on an address.
    pub fn pair_on(&mut self, host: SocketAddr) -> io::Result<usize> {
        let is_there = |pair: &Pair| pair.host.ip() == host.ip();
        if let Some(number) = self.pairs.iter().position(is_there) {
            return Ok(number);
        }
        let even = self.ports.clone().filter(|port| port % 2 == 0 && *port < *self.ports.end());
        let mut refused = io::Error::other("there is no pair of ports in the range");
        for port in even {
            match Pair::bind(host, port) {
                Ok(pair) => {
                    self.pairs.push(pair);
                    return Ok(self.pairs.len() - 1);
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

/// Whether the kernel divides datagrams (udp(7), UDP_SEGMENT). Without that each packet takes its own way through it.
pub fn divides_datagrams() -> bool {
    UdpSocket::bind(("127.0.0.1", 0)).is_ok_and(|socket| setsockopt(&socket, UdpGsoSegment, &0).is_ok())
}

impl Pair {
    fn bind(host: SocketAddr, port: u16) -> io::Result<Self> {
        let bind = |port| {
            let mut address = host;
            address.set_port(port);
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            // As much as the system allows.
            let _ = sockopt::set_socket_send_buffer_size(&socket, KERNEL_BYTES);
            io::Result::Ok(socket)
        };
        let (rtp, rtcp) = (bind(port)?, bind(port + 1)?);
        // Clients send datagrams to this port to open firewalls; the server does not read them.
        let _ = sockopt::set_socket_recv_buffer_size(&rtp, 0);
        let _ = sockopt::set_socket_recv_buffer_size(&rtcp, KERNEL_BYTES);
        let can_segment = setsockopt(&rtp, UdpGsoSegment, &0).is_ok();
        Ok(Self { host, rtp, rtcp, ports: (port, port + 1), segment: Cell::new(0), can_segment })
    }

    /// Has what is sent to groups leave by this address, and pass so many routers.
    pub fn allow_groups(&self, ttl: u8) -> io::Result<()> {
        let IpAddr::V4(host) = self.host.ip() else { return Err(io::ErrorKind::Unsupported.into()) };
        for socket in [&self.rtp, &self.rtcp] {
            sockopt::set_ip_multicast_if(socket, &host)?;
            sockopt::set_ip_multicast_ttl(socket, ttl.into())?;
        }
        Ok(())
    }

    /// Whether the kernel divides datagrams.
    pub fn can_segment(&self) -> bool {
        self.can_segment
    }

    /// What it divides them into now.
    pub fn segment(&self) -> u16 {
        self.segment.get()
    }

    /// Has the kernel divide larger datagrams into parts of so many bytes; not at all for 0.
    pub fn set_segment(&self, bytes: u16) {
        if setsockopt(&self.rtp, UdpGsoSegment, &i32::from(bytes)).is_ok() {
            self.segment.set(bytes);
        }
    }
}
