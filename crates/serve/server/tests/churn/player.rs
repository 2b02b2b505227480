//! A player over one connection, which notices when what it gets is not what comes next.

use std::io;
use std::net::TcpStream;

use crate::support::{Client, Incoming, Response};

pub struct Player {
    client: Client,
    path: String,
    session: String,
    /// The number of the next packet of each track.
    next: [Option<u16>; 2],
}

/// What comes on its connection.
#[derive(Debug)]
pub enum Arrival {
    Packet(usize, Vec<u8>),
    Report { is_goodbye: bool },
    Response(Response),
    End,
}

impl Player {
    pub fn new(client: Client, path: &str) -> Self {
        Self { client, path: path.to_owned(), session: String::new(), next: [None; 2] }
    }

    pub fn stream(&self) -> &TcpStream {
        self.client.stream()
    }

    pub fn send(&mut self, method: &str, headers: &str) -> io::Result<()> {
        let path = self.path.clone();
        self.send_to(&path, method, headers)
    }

    fn send_to(&mut self, path: &str, method: &str, headers: &str) -> io::Result<()> {
        let session = match &*self.session {
            "" => String::new(),
            session => format!("Session: {session}\r\n"),
        };
        self.client.try_send(method, path, &format!("{session}{headers}"))
    }

    /// The response; packets that come before it are looked at, too.
    pub fn ask(&mut self, method: &str, headers: &str) -> io::Result<Response> {
        self.send(method, headers)?;
        self.response()
    }

    fn response(&mut self) -> io::Result<Response> {
        loop {
            match self.receive()? {
                Arrival::Response(response) => return Ok(response),
                Arrival::End => return Err(io::ErrorKind::UnexpectedEof.into()),
                Arrival::Packet(..) | Arrival::Report { .. } => {}
            }
        }
    }

    /// Packets are to come on this connection.
    pub fn set_up(&mut self, track: usize, headers: &str) -> io::Result<Response> {
        let (rtp, rtcp) = (2 * track, 2 * track + 1);
        self.set_up_as(track, &format!("RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp}\r\n{headers}"))
    }

    /// The server is to send the first track's packets to this port.
    pub fn set_up_udp(&mut self, port: u16) -> io::Result<Response> {
        self.set_up_as(0, &format!("RTP/AVP;unicast;client_port={port}-{}\r\n", port + 1))
    }

    fn set_up_as(&mut self, track: usize, transport: &str) -> io::Result<Response> {
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let mut path = format!("{path}/trackID={track}");
        if !query.is_empty() {
            path += &format!("?{query}");
        }
        self.send_to(&path, "SETUP", &format!("Transport: {transport}"))?;
        let response = self.response()?;
        if response.status == 200 && self.session.is_empty() {
            self.session = response.get("Session").split(';').next().unwrap_or_default().to_owned();
        }
        Ok(response)
    }

    pub fn receive(&mut self) -> io::Result<Arrival> {
        let (channel, packet) = match self.client.try_receive()? {
            None => return Ok(Arrival::End),
            Some(Incoming::Response(response)) => return Ok(Arrival::Response(response)),
            Some(Incoming::Frame(channel, packet)) => (channel, packet),
        };
        let track = usize::from(channel / 2);
        assert!(track < 2, "channel {channel}, which was not set up");
        if channel % 2 == 1 {
            // A goodbye ends a compound packet; its type is 203.
            return Ok(Arrival::Report { is_goodbye: packet[packet.len() - 7] == 203 });
        }
        assert!(
            packet.len() > 12 && packet[0] == 0x80,
            "no packet of RTP: {:?}",
            &packet[..packet.len().min(12)]
        );
        let number = u16::from_be_bytes([packet[2], packet[3]]);
        let next = self.next[track].replace(number.wrapping_add(1)).unwrap_or(number);
        assert_eq!(number, next, "packets are missing or out of order, track {track} of {}", self.path);
        Ok(Arrival::Packet(track, packet))
    }

    /// Takes so many packets, or those to the end; how many it were.
    pub fn packets(&mut self, wanted: usize) -> io::Result<u64> {
        let mut heard = 0;
        while heard < wanted {
            match self.receive()? {
                Arrival::Packet(..) => heard += 1,
                Arrival::Report { is_goodbye: false } => {}
                Arrival::Report { is_goodbye: true } => break,
                Arrival::Response(response) => panic!("a response without a request: {response:?}"),
                Arrival::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(heard as u64)
    }
}
