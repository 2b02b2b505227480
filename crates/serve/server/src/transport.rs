//! Where the packets of a track go: on the client's connection, to its ports, or to a multicast group.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use forebay_rtsp::message::Status;
use forebay_rtsp::server::{ConnectionId, SessionId};
use forebay_rtsp::transport::{Channels, Offer, Transport};
use rustix::net::addr::SocketAddrArg;

use crate::batch::Destination;
use crate::clock;
use crate::event_loop::Serving;

/// Where a track's packets go.
#[derive(Debug)]
pub(crate) enum TrackTransport {
    Udp { pair: usize, rtp: Destination, rtcp: SocketAddr },
    Tcp { connection: ConnectionId, channels: Channels },
}

/// The two ends of the connection that a request came on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub connection: ConnectionId,
    pub client: SocketAddr,
    pub host: SocketAddr,
}

/// The first port of groups, for RTP.
const GROUP_PORT: u16 = 5004;
/// Tracks and rounds of 256 sessions have ports of their own.
const GROUP_TRACKS: u64 = 32;
const GROUP_ROUNDS: u64 = 128;

impl Serving {
    /// The first of a client's offers that the server can meet, and how the response describes it.
    pub(crate) fn choose_transport(
        &mut self,
        ends: Ends,
        session: SessionId,
        track: usize,
        offers: &[Offer],
    ) -> Result<(TrackTransport, Transport), Status> {
        let at = |mut address: SocketAddr, port| {
            address.set_port(port);
            address
        };
        let Ends { connection, client, host } = ends;
        for offer in offers {
            match offer {
                Offer::Interleaved { channels: Some(channels) } => {
                    let transport = TrackTransport::Tcp { connection, channels: *channels };
                    return Ok((transport, Transport::Interleaved { channels: *channels }));
                }
                Offer::Udp { client: ports, .. } => {
                    let pair = self.pair_on(host)?;
                    let server = self.transmitter.datagrams.pair(pair).ports;
                    let rtp = Destination::new(at(client, ports.0).as_any());
                    let transport = TrackTransport::Udp { pair, rtp, rtcp: at(client, ports.1) };
                    return Ok((transport, Transport::Udp { client: *ports, server }));
                }
                Offer::Multicast { .. } => {
                    let Some(first) = self.settings.multicast else { continue };
                    let pair = self.pair_on(host)?;
                    let ttl = self.settings.multicast_ttl;
                    if self.transmitter.datagrams.pair(pair).allow_groups(ttl).is_err() {
                        continue;
                    }
                    let (group, ports) = group(first, session, track);
                    let to = SocketAddr::new(group, 0);
                    let rtp = Destination::new(at(to, ports.0).as_any());
                    let transport = TrackTransport::Udp { pair, rtp, rtcp: at(to, ports.1) };
                    return Ok((transport, Transport::Multicast { group, ports, ttl }));
                }
                Offer::Interleaved { channels: None } => {}
            }
        }
        Err(Status::UnsupportedTransport)
    }

    /// The sockets on an address.
    fn pair_on(&mut self, host: SocketAddr) -> Result<usize, Status> {
        self.transmitter.datagrams.pair_on(host).map_err(|error| {
            let (ports, ip) = (&self.settings.udp_ports, host.ip());
            let (first, last) = (ports.start(), ports.end());
            let sentence = format!(
                "no packets can be sent from {ip}, ports {first} to {last}: {error}; choose others with --udp-ports"
            );
            self.log.say(clock::now_ns(), &sentence);
            Status::UnsupportedTransport
        })
    }
}

/// The group and ports of a session's track: no other session's for as long as possible.
fn group(first: Ipv4Addr, session: SessionId, track: usize) -> (IpAddr, (u16, u16)) {
    let [a, b, c, _] = first.octets();
    let round = session.0 / 256 % GROUP_ROUNDS;
    let port = GROUP_PORT + 2 * (round * GROUP_TRACKS + track as u64 % GROUP_TRACKS) as u16;
    (Ipv4Addr::new(a, b, c, session.0 as u8).into(), (port, port + 1))
}
