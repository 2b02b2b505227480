//! A client's TCP connection: requests and, where the client wants that, packets.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use forebay_rtsp::message::frame_header;
use forebay_rtsp::packetise::Packet;
use rustix::event::epoll::EventFlags;
use rustix::net::sockopt;

use crate::backlog::{Backlog, Backlogs};
use crate::batch::{Spare, emptied};
use crate::encryption::Cipher;
use crate::http::web_socket;

/// What the kernel keeps for a client that reads slowly: a tenth of a second of 20 Mbit/s.
const KERNEL_BYTES: usize = 256 << 10;
/// A connection on which nothing arrives for so long is gone.
const DEAD_AFTER: Duration = Duration::from_secs(30);
/// What the kernel takes in one call.
const SLICES_MAX: usize = 1024;

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    backlog: Backlog,
    /// What the sum of backlogs has of it.
    noted_bytes: usize,
    cipher: Option<Cipher>,
    /// It ends when all has been sent.
    pub is_closing: bool,
    /// When the client was told that nothing more comes.
    pub ended_ns: Option<u64>,
    /// Nothing more can be sent or is to be received: it is to be removed.
    pub is_broken: bool,
    /// What epoll is to tell of it.
    pub interest: EventFlags,
    pub client: SocketAddr,
    pub host: SocketAddr,
    pub speaks: Protocol,
    /// What is sent is put into frames.
    pub is_web_socket: bool,
}

/// What a client speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Its first bytes do not tell yet.
    Unknown(Vec<u8>),
    Rtsp,
    Http,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes(usize),
    Nothing,
    End,
}

impl Connection {
    pub fn new(stream: TcpStream, cipher: Option<Cipher>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_send_buffer_size(&stream, KERNEL_BYTES)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, DEAD_AFTER / 2)?;
        sockopt::set_tcp_keepintvl(&stream, DEAD_AFTER / 6)?;
        sockopt::set_tcp_user_timeout(&stream, DEAD_AFTER.as_millis() as u32)?;
        let (client, host) = (canonical(stream.peer_addr()?), canonical(stream.local_addr()?));
        Ok(Self {
            stream,
            backlog: Backlog::default(),
            noted_bytes: 0,
            cipher,
            is_closing: false,
            ended_ns: None,
            is_broken: false,
            interest: EventFlags::IN,
            client,
            host,
            speaks: Protocol::Unknown(Vec::new()),
            is_web_socket: false,
        })
    }

    pub fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// What waits to be sent, in bytes.
    pub fn backlog_bytes(&self) -> usize {
        self.backlog.len()
    }

    /// Brings the sum of backlogs up to date.
    pub fn note_backlog(&mut self, all: &mut Backlogs) {
        let before = std::mem::replace(&mut self.noted_bytes, self.backlog.len());
        all.note(before, self.noted_bytes);
    }

    /// Its backlog goes with it.
    pub fn forget_backlog(self, all: &mut Backlogs) {
        all.note(self.noted_bytes, 0);
    }

    pub fn receive(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            let read = match &mut self.cipher {
                Some(cipher) => cipher.receive(&mut self.stream, &mut self.backlog, buffer),
                None => self.stream.read(buffer),
            };
            return match read {
                Ok(0) => Received::End,
                Ok(count) => Received::Bytes(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Received::Nothing,
                Err(_) => Received::End,
            };
        }
    }

    /// Whether bytes have left the socket that have not been received.
    pub fn holds_some(&mut self) -> bool {
        self.cipher.as_mut().is_some_and(Cipher::holds_some)
    }

    /// Sends bytes after all that were sent before; what the client does not take yet waits.
    pub fn send(&mut self, bytes: &[u8]) {
        self.send_slices(&mut [IoSlice::new(bytes)]);
    }

    /// The same of bytes that lie in several places.
    pub fn send_slices(&mut self, slices: &mut [IoSlice<'_>]) {
        if self.is_web_socket {
            return self.send_as_it_is(&web_socket::framed(slices));
        }
        self.send_slices_as_they_are(slices);
    }

    /// Sends bytes without putting them into a frame.
    pub fn send_as_it_is(&mut self, bytes: &[u8]) {
        self.send_slices_as_they_are(&mut [IoSlice::new(bytes)]);
    }

    fn send_slices_as_they_are(&mut self, mut slices: &mut [IoSlice<'_>]) {
        if self.cipher.is_some() {
            self.flush();
        }
        if let Some(cipher) = &mut self.cipher {
            self.is_broken |= cipher.send(slices, &mut self.stream, &mut self.backlog).is_err();
            return;
        }
        while !slices.is_empty() && self.backlog.is_empty() && !self.is_broken {
            let some = slices.len().min(SLICES_MAX);
            match self.stream.write_vectored(&slices[..some]) {
                Ok(count) => IoSlice::advance_slices(&mut slices, count),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => break,
                    _ => self.is_broken = true,
                },
            }
        }
        if !self.is_broken {
            slices.iter().for_each(|slice| self.backlog.push(slice));
        }
    }

    /// Sends what waits, as far as the client takes it.
    pub fn flush(&mut self) {
        while !self.backlog.is_empty() && !self.is_broken {
            match self.stream.write(self.backlog.pending()) {
                Ok(count) => self.backlog.take(count),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => break,
                    _ => self.is_broken = true,
                },
            }
        }
    }

    /// Sends packets, which are made of a buffer, on a channel of the connection. Returns whether it needs tending.
    pub fn send_packets(
        &mut self,
        channel: u8,
        packets: &[Packet],
        buffer: &[u8],
        backlogs: &mut Backlogs,
        spare: &mut Spare,
    ) -> bool {
        spare.heads.clear();
        spare.heads.extend(packets.iter().map(|packet| frame_header(channel, packet.bytes() as u16)));
        let mut slices = emptied(std::mem::take(&mut spare.slices));
        for (packet, head) in packets.iter().zip(&spare.heads) {
            slices.extend([IoSlice::new(head), IoSlice::new(packet.head())]);
            slices.extend(packet.own().map(IoSlice::new));
            slices.extend(packet.pieces().map(|piece| IoSlice::new(&buffer[piece])));
        }
        self.send_slices(&mut slices);
        spare.slices = emptied(slices);
        self.note_backlog(backlogs);
        self.needs_tending()
    }

    /// The same of one packet that lies in one place.
    pub fn send_packet(&mut self, channel: u8, packet: &[u8], backlogs: &mut Backlogs) -> bool {
        let head = frame_header(channel, packet.len() as u16);
        self.send_slices(&mut [IoSlice::new(&head), IoSlice::new(packet)]);
        self.note_backlog(backlogs);
        self.needs_tending()
    }

    /// Whether it has a backlog that epoll does not know of.
    pub fn needs_tending(&self) -> bool {
        !self.backlog.is_empty() && !self.interest.contains(EventFlags::OUT)
    }

    /// Tells the client that nothing more comes, once all has been sent. The client is to close first: a socket that is
    /// closed before the client's last bytes arrive resets the connection, and the client may lose the end of a response.
    pub fn end(&mut self, now_ns: u64) {
        if self.is_broken || self.ended_ns.is_some() {
            return;
        }
        if let Some(cipher) = &mut self.cipher {
            cipher.close(&mut self.backlog);
            self.flush();
        }
        if self.backlog.is_empty() {
            self.is_broken |= self.stream.shutdown(Shutdown::Write).is_err();
            self.ended_ns = Some(now_ns);
        }
    }
}

/// An IPv4 address that came in IPv6 is one of IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}
