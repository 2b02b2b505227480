//! What of a packet's head matters to a player (RFC 3550, section 5.1).

/// The head of an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the packet, which wraps.
    pub sequence: u16,
    /// When it is to be played, in ticks of the track's clock; wraps too.
    pub timestamp: u32,
    /// Who sends it.
    pub ssrc: u32,
    /// Whether it is the last of its frame.
    pub is_marked: bool,
}

impl Head {
    /// Length of the part that every packet has.
    pub const BYTES: usize = 12;

    /// `None` where `bytes` are the beginning of no RTP packet.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        const VERSION: u8 = 2;
        const MARKER: u8 = 0x80;
        let head = bytes.first_chunk::<{ Self::BYTES }>().filter(|head| head[0] >> 6 == VERSION)?;
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (sequence, is_marked) = (u16::from_be_bytes([head[2], head[3]]), head[1] & MARKER != 0);
        Some(Self { sequence, timestamp: word(4), ssrc: word(8), is_marked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_another_version_are_none() {
        let packet = [0x80, 96, 1, 2, 0, 0, 1, 0, 0, 0, 0, 7, 99];
        assert_eq!(
            Head::parse(&packet),
            Some(Head { sequence: 258, timestamp: 256, ssrc: 7, is_marked: false })
        );
        assert!(Head::parse(&[0x80, 96 | 0x80, 1, 2, 0, 0, 1, 0, 0, 0, 0, 7]).unwrap().is_marked);
        assert_eq!(Head::parse(&[0; 12]), None);
        assert_eq!(Head::parse(&packet[..11]), None);
    }
}
