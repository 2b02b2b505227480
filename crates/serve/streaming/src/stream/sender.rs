//! One track of a stream: its packets, which of them have gone, and when the others go.

use forebay_rtsp::packetise::{Format, Packet, Packetiser};
use forebay_rtsp::replay::Mark;

use crate::buffer::Held;
use crate::program::Edges;
use crate::schedule::{Pacing, pacing};

/// How one track is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Its number in the presentation.
    pub track: usize,
    /// How samples become payloads.
    pub format: Format,
    /// The number in its packets.
    pub payload_type: u8,
    /// Timestamps per second.
    pub clock_rate: u32,
    /// The synchronization source; random.
    pub ssrc: u32,
    /// The number of the first packet; random.
    pub sequence: u16,
    /// The timestamp at the beginning; random.
    pub timestamp: u32,
    /// The largest packet, in bytes.
    pub packet_bytes_max: usize,
    /// Whether its samples are pictures.
    pub is_video: bool,
    /// Whether some of its samples need others. After one of them is left out, so are all up to the next that needs none.
    pub needs_sync: bool,
    /// Whether large samples are sent in parts, over time.
    pub is_paced: bool,
    /// Whether short samples that follow each other closely share packets, sent when the first is due.
    pub is_bundled: bool,
}

/// A track that is sent.
#[derive(Debug)]
pub struct TrackSender {
    pub(super) setup: Setup,
    pub(super) packetiser: Packetiser,
    /// The timestamp at the position that is played from.
    pub(super) anchor: u32,
    /// Of samples in the part that is drained. Before `sent` they are gone, before `until` they are to go now.
    pub(super) packets: Vec<Packet>,
    pub(super) sent: usize,
    pub(super) until: usize,
    /// When the rest goes on, and how.
    pub(super) paced: Option<(u64, Pacing)>,
    /// When the first one that is to go now was due.
    pub(super) due_ns: u64,
    pub(super) interval_ns: u64,
    /// What needs others that were left out is left out too.
    pub(super) waits_for_sync: bool,
    /// The next sample does not follow the one that was sent before.
    pub(super) is_apart: bool,
    /// Samples of the part up to here have gone in packets of earlier ones.
    pub(super) bundled: usize,
    pub(super) is_released: bool,
    pub(super) packet_count: u32,
    pub(super) payload_bytes: u32,
}

/// What is played is a replay: packets say when their samples were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// When the beginning of the program was recorded, since 1970.
    pub epoch_ns: i64,
    /// The number that packets have of the request that they come of.
    pub cseq: u8,
    /// Whether samples have their times. Otherwise all are due at once, and go as fast as the client takes them.
    pub is_paced: bool,
    /// Pictures that no other needs are left out.
    pub is_predicted_only: bool,
}

impl TrackSender {
    pub(super) fn new(setup: Setup) -> Self {
        let Setup { format, payload_type, ssrc, sequence, packet_bytes_max, .. } = setup;
        Self {
            packetiser: Packetiser::new(format, payload_type, ssrc, sequence, packet_bytes_max),
            anchor: setup.timestamp,
            packets: Vec::new(),
            sent: 0,
            until: 0,
            paced: None,
            due_ns: 0,
            interval_ns: 0,
            waits_for_sync: false,
            is_apart: true,
            bundled: 0,
            is_released: false,
            packet_count: 0,
            payload_bytes: 0,
            setup,
        }
    }

    /// How it is sent.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Whether nothing more of it is sent.
    pub fn is_released(&self) -> bool {
        self.is_released
    }

    /// The number of its next packet.
    pub fn next_sequence(&self) -> u16 {
        self.packetiser.next_sequence()
    }

    /// The timestamp at the position that is played from.
    pub fn anchor(&self) -> u32 {
        self.anchor
    }

    /// Has the packets of a sample say when it was recorded. That it is the last one is said by its last packet, as GStreamer ends there.
    pub(super) fn mark(&mut self, before: usize, held: &Held, near_ns: i64, replay: Replay) {
        let recorded_ns =
            replay.epoch_ns.saturating_add(held.presentation_ns(near_ns, self.setup.clock_rate));
        let is_last = held.edges.has(Edges::LAST);
        let [first, rest @ ..] = &mut self.packets[before..] else { return };
        let mark = Mark {
            unix_ns: u64::try_from(recorded_ns).unwrap_or(0),
            is_clean: held.is_sync,
            ends_section: held.edges.has(Edges::END),
            is_apart: std::mem::take(&mut self.is_apart) || held.edges.has(Edges::APART),
            is_last: is_last && rest.is_empty(),
            cseq: replay.cseq,
        };
        first.extend(mark);
        if let Some(last) = rest.last_mut().filter(|_| is_last) {
            last.extend(Mark { is_last, is_apart: false, ..mark });
        }
    }

    pub(super) fn clear(&mut self) {
        self.packets.clear();
        (self.sent, self.until, self.paced) = (0, 0, None);
    }

    /// Has all that was made go now.
    pub(super) fn hurry(&mut self) {
        if self.until < self.packets.len() {
            if self.sent == self.until {
                self.due_ns = self.paced.map_or(self.due_ns, |(due_ns, _)| due_ns);
            }
            (self.until, self.paced) = (self.packets.len(), None);
        }
    }

    /// What to do with the packets of a new sample.
    pub(super) fn plan(&mut self, before: usize, now_ns: u64, due_ns: u64) {
        if self.sent == self.until {
            self.due_ns = due_ns;
        }
        self.until = self.packets.len();
        if !self.setup.is_paced || !self.setup.is_video {
            return;
        }
        let pacing = pacing(self.packets.len() - before, self.interval_ns);
        if before + pacing.packets < self.packets.len() {
            self.until = before + pacing.packets;
            self.paced = Some((due_ns + pacing.gap_ns, pacing));
            self.go_on(now_ns);
        }
    }

    /// Has those parts of a picture go whose time has come.
    pub(super) fn go_on(&mut self, now_ns: u64) {
        while let Some((due_ns, pacing)) = self.paced
            && due_ns <= now_ns
        {
            if self.sent == self.until {
                self.due_ns = due_ns;
            }
            self.until = self.packets.len().min(self.until + pacing.packets);
            let is_more = self.until < self.packets.len();
            self.paced = is_more.then_some((due_ns + pacing.gap_ns, pacing));
        }
    }
}
