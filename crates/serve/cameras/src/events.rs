//! What happens on a camera's timeline.

use core::cmp::Ordering;

use forebay_rtsp::rtcp::Sent;

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds from the epoch.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The camera drops all connections of its viewers.
    Drop,
    /// The camera reports what it has sent of a track.
    Report {
        /// Which track.
        track: usize,
        /// The report; the camera's clock tells its time.
        sent: Sent,
    },
    /// Packets leave.
    Packets(Departure),
}

/// Packets of one sample that leave together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The track.
    pub track: usize,
    /// The number of the sample's first packet on its track, from the first round of the film on.
    pub first: u64,
    /// Their RTP timestamp.
    pub timestamp: u32,
    /// Whether the sample begins with them, those that are lost included.
    pub begins: bool,
    /// Whether decoding can begin at the sample.
    pub is_sync: bool,
    /// The packets, without those that are lost.
    pub packets: Vec<Numbered>,
}

/// A packet of a film as a camera sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Which packet of the film.
    pub packet: u32,
    /// Its sequence number.
    pub sequence: u16,
}

impl What {
    /// What comes first of what happens at one time.
    fn rank(&self) -> (u8, usize, u64, u16) {
        match self {
            Self::Drop => (0, 0, 0, 0),
            Self::Report { track, .. } => (1, *track, 0, 0),
            Self::Packets(departure) => {
                let first = departure.packets.first().map_or(0, |packet| packet.sequence);
                (2 + u8::from(!departure.begins), departure.track, departure.first, first)
            }
        }
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ns, self.what.rank()).cmp(&(other.at_ns, other.what.rank()))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
