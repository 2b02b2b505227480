//! What the texts of frames say:
//!
//! ```text
//!   0      1                                9
//!   kind   bytes of all contents            a host or a message, then the first part of the contents
//!   kind   the next part of the contents
//! ```

use forebay_coherence::{HostId, MESSAGE_BYTES, Message};

use crate::transport::said::Said;

/// As much of contents goes into one frame.
pub const CONTENTS_BYTES_MAX: usize = 64 << 10;
/// What comes before contents takes no more.
pub const PACKET_BYTES_MAX: usize = 1 + size_of::<u64>() + MESSAGE_BYTES;

const HERE: u8 = 0;
const LOST: u8 = 1;
const MESSAGE: u8 = 2;
const MORE: u8 = 3;

/// What a text begins with. The rest of it is a part of the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Something new, with so many bytes of contents.
    First(Said, usize),
    /// More contents of the message that came before.
    More,
}

impl Packet {
    pub fn write(self, text: &mut Vec<u8>) {
        let Self::First(said, bytes) = self else { return text.push(MORE) };
        text.push(match said {
            Said::Here => HERE,
            Said::Lost(_) => LOST,
            Said::Message(_) => MESSAGE,
        });
        text.extend((bytes as u64).to_le_bytes());
        match said {
            Said::Here => {}
            Said::Lost(host) => text.extend(host.0.to_le_bytes()),
            Said::Message(message) => text.extend(message.to_bytes()),
        }
    }

    /// What a text says in a job of so many hosts, and the rest of it; `None` where that makes no sense.
    pub fn read(text: &[u8], hosts: usize) -> Option<(Self, &[u8])> {
        let (kind, rest) = text.split_first()?;
        if *kind == MORE {
            return Some((Self::More, rest));
        }
        let (bytes, rest) = rest.split_first_chunk()?;
        let bytes = usize::try_from(u64::from_le_bytes(*bytes)).ok()?;
        let (said, rest) = match *kind {
            HERE => (Said::Here, rest),
            LOST => {
                let (host, rest) = rest.split_first_chunk()?;
                (Said::Lost(HostId(u16::from_le_bytes(*host))), rest)
            }
            MESSAGE => {
                let (message, rest) = rest.split_first_chunk::<MESSAGE_BYTES>()?;
                (Said::Message(Message::from_bytes(message)?), rest)
            }
            _ => return None,
        };
        let named = match said {
            Said::Lost(host) | Said::Message(Message::Forward { requester: host, .. }) => host.index(),
            _ => 0,
        };
        (named < hosts).then_some((Self::First(said, bytes), rest))
    }
}

#[cfg(test)]
mod tests {
    use forebay_coherence::{Minipage, Want};

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let forward =
            Message::Forward { minipage: Minipage(9), want: Want::Write, requester: HostId(2), more: 3 };
        let firsts =
            [Said::Here, Said::Lost(HostId(1)), Said::Message(Message::Leaving), Said::Message(forward)];
        let packets = firsts.map(|said| Packet::First(said, 70_000)).into_iter().chain([Packet::More]);
        for packet in packets {
            let mut text = vec![];
            packet.write(&mut text);
            assert!(text.len() <= PACKET_BYTES_MAX);
            text.extend(b"contents");
            assert_eq!(Packet::read(&text, 3), Some((packet, &b"contents"[..])));
            let is_about_a_host =
                matches!(packet, Packet::First(said, _) if said == firsts[1] || said == firsts[3]);
            assert_eq!(Packet::read(&text, 1).is_none(), is_about_a_host, "{packet:?}");
        }
    }

    #[test]
    fn no_bytes_are_too_much_for_it() {
        for text in [&[][..], &[9; 40], &[MESSAGE; 12], &[LOST, 0, 0], &[MESSAGE, 0, 0, 0, 0, 0, 0, 0, 0, 1]]
        {
            assert_eq!(Packet::read(text, 2), None, "{text:?}");
        }
    }
}
