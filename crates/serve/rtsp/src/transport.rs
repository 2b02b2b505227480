//! The `Transport` header (RFC 2326, section 12.39): how a client wants packets, and how it gets them.

use core::net::IpAddr;
use std::fmt::{self, Display};

/// A port for RTP and one for RTCP.
pub type Ports = (u16, u16);
/// A channel of the control connection for RTP and one for RTCP.
pub type Channels = (u8, u8);

/// One of the ways in which a client is ready to receive a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Datagrams to itself.
    Udp {
        /// Where it listens.
        client: Ports,
        /// Where it wants them sent, as it was written, if it says so.
        destination: Option<String>,
    },
    /// Datagrams to a group.
    Multicast {
        /// Which, as it was written, if it says so.
        group: Option<String>,
        /// To which ports, if it says so.
        ports: Option<Ports>,
        /// How many routers far, if it says so.
        ttl: Option<u8>,
    },
    /// Frames on the control connection.
    Interleaved {
        /// On which channels, if it says so.
        channels: Option<Channels>,
    },
}

/// How a track is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams to the client.
    Udp {
        /// Where it listens.
        client: Ports,
        /// Where they come from.
        server: Ports,
    },
    /// Datagrams to a group.
    Multicast {
        /// Which.
        group: IpAddr,
        /// To which ports.
        ports: Ports,
        /// How many routers far.
        ttl: u8,
    },
    /// Frames on the control connection.
    Interleaved {
        /// On which channels.
        channels: Channels,
    },
}

impl Display for Transport {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp { client, server } => {
                write!(to, "RTP/AVP;unicast;client_port={}-{}", client.0, client.1)?;
                write!(to, ";server_port={}-{}", server.0, server.1)
            }
            Self::Multicast { group, ports, ttl } => {
                write!(to, "RTP/AVP;multicast;destination={group};port={}-{};ttl={ttl}", ports.0, ports.1)
            }
            Self::Interleaved { channels } => {
                write!(to, "RTP/AVP/TCP;unicast;interleaved={}-{}", channels.0, channels.1)
            }
        }
    }
}

impl Offer {
    /// Those of a header that are known here, best liked first.
    pub fn parse_all(header: &str) -> Vec<Self> {
        split_unquoted(header, ',').filter_map(Self::parse).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = split_unquoted(text, ';').map(str::trim);
        let protocol = parts.next()?.to_ascii_uppercase();
        let mut wish = Wish::default();
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            wish.note(name.trim(), value.trim().trim_matches('"'))?;
        }
        match protocol.as_str() {
            "RTP/AVP/TCP" => Some(Self::Interleaved { channels: wish.channels }),
            // Multicast is what the RFC has for those that say neither; a client that names its own ports wants unicast.
            "RTP/AVP" | "RTP/AVP/UDP" if wish.is_multicast || (!wish.is_unicast && wish.client.is_none()) => {
                Some(Self::Multicast { group: wish.destination, ports: wish.ports, ttl: wish.ttl })
            }
            "RTP/AVP" | "RTP/AVP/UDP" => {
                Some(Self::Udp { client: wish.client.or(wish.ports)?, destination: wish.destination })
            }
            _ => None,
        }
    }
}

/// The parameters of an offer.
#[derive(Default)]
struct Wish {
    is_unicast: bool,
    is_multicast: bool,
    client: Option<Ports>,
    ports: Option<Ports>,
    channels: Option<Channels>,
    destination: Option<String>,
    ttl: Option<u8>,
}

impl Wish {
    /// `None` if it makes the offer unusable.
    fn note(&mut self, name: &str, value: &str) -> Option<()> {
        match name.to_ascii_lowercase().as_str() {
            "unicast" => self.is_unicast = true,
            "multicast" => self.is_multicast = true,
            "client_port" => self.client = Some(ports(value)?),
            "port" => self.ports = Some(ports(value)?),
            "interleaved" => self.channels = Some(pair(value, |channel: u8| channel.checked_add(1))?),
            "destination" if !value.is_empty() => self.destination = Some(value.to_owned()),
            "ttl" => self.ttl = Some(value.parse().ok()?),
            "mode" if !value.split(',').any(|mode| mode.trim().eq_ignore_ascii_case("play")) => return None,
            _ => {}
        }
        Some(())
    }
}

fn ports(text: &str) -> Option<Ports> {
    pair(text, |port: u16| port.checked_add(1)).filter(|(rtp, rtcp)| *rtp != 0 && *rtcp != 0)
}

/// `a-b`, or `a` alone, whose second is the next.
fn pair<T: std::str::FromStr + Copy + PartialEq>(
    text: &str,
    next: impl Fn(T) -> Option<T>,
) -> Option<(T, T)> {
    let (first, second) = text.split_once('-').unwrap_or((text, ""));
    let first = first.trim().parse().ok()?;
    let second = match second.trim() {
        "" => next(first)?,
        second => second.parse().ok()?,
    };
    (first != second).then_some((first, second))
}

fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |sign| {
        is_quoted ^= sign == '"';
        sign == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(client: Ports, destination: Option<&str>) -> Offer {
        Offer::Udp { client, destination: destination.map(str::to_owned) }
    }

    #[test]
    fn offers_are_read_in_their_order() {
        for (text, expected) in [
            ("RTP/AVP;unicast;client_port=5000-5001", vec![udp((5000, 5001), None)]),
            ("rtp/avp/udp; unicast; client_port = 5000", vec![udp((5000, 5001), None)]),
            ("RTP/AVP;client_port=5000-5001", vec![udp((5000, 5001), None)]),
            ("RTP/AVP;unicast;destination=1.2.3.4;client_port=6-7", vec![udp((6, 7), Some("1.2.3.4"))]),
            ("RTP/AVP;unicast;client_port=6-7;mode=\"RECORD,PLAY\"", vec![udp((6, 7), None)]),
            (
                "RTP/AVP/TCP;unicast;interleaved=2-3,RTP/AVP;unicast;client_port=6-7;mode=play",
                vec![Offer::Interleaved { channels: Some((2, 3)) }, udp((6, 7), None)],
            ),
            ("RTP/AVP/TCP", vec![Offer::Interleaved { channels: None }]),
            (
                "RTP/AVP;multicast;destination=224.2.0.1;ttl=3;port=8000-8001",
                vec![Offer::Multicast {
                    group: Some("224.2.0.1".to_owned()),
                    ports: Some((8000, 8001)),
                    ttl: Some(3),
                }],
            ),
            ("RTP/AVP", vec![Offer::Multicast { group: None, ports: None, ttl: None }]),
        ] {
            assert_eq!(Offer::parse_all(text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_no_offer() {
        for text in [
            "",
            "RTP/SAVP;unicast;client_port=5000-5001",
            "RTP/AVP;unicast",
            "RTP/AVP;unicast;client_port=0-1",
            "RTP/AVP;unicast;client_port=65535",
            "RTP/AVP;unicast;client_port=65536-65537",
            "RTP/AVP;unicast;client_port=5000-5000",
            "RTP/AVP/TCP;unicast;interleaved=255",
            "RTP/AVP/TCP;unicast;interleaved=256-257",
            "RTP/AVP;unicast;client_port=5000-5001;mode=record",
            "RTP/AVP;unicast;client_port=5000-5001;mode=\"",
        ] {
            assert_eq!(Offer::parse_all(text), [], "{text}");
        }
    }
}
