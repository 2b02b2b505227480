//! What clients tell of what they receive (RFC 3550, section 6.4.2).

use forebay_rtsp::rtcp::{Received, Reception};
use forebay_rtsp::server::SessionId;

use crate::clock;
use crate::event_loop::Serving;
use crate::session::Session;

/// How a track is received, by its client's last report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Heard {
    ssrc: u32,
    /// Packets that were lost since the report before, as a share.
    pub lost: f64,
    pub jitter_s: f64,
    /// `None` until the client has had a report of ours.
    pub round_trip_s: Option<f64>,
}

impl Serving {
    /// An RTCP packet of a session's client. It is a sign of life unless it is a goodbye, or cannot be read.
    pub(crate) fn hear(&mut self, id: SessionId, packet: &[u8]) {
        let Ok(received) = Received::parse(packet) else { return };
        let Some(place) = self.places.get(&id) else { return };
        if received.goodbyes.is_empty() {
            self.server.is_alive(id, clock::now_ns());
        }
        let session = &mut self.sessions[*place];
        session.reports.has_seen(packet.len());
        for reception in &received.receptions {
            self.heard += u64::from(session.note_reception(reception, clock::unix_ns()));
        }
    }
}

impl Session {
    /// `false` if it is about nothing that is sent here.
    fn note_reception(&mut self, reception: &Reception, unix_ns: u64) -> bool {
        let mut setups = self.stream.senders().iter().map(|sender| sender.setup());
        let Some(setup) = setups.find(|setup| setup.ssrc == reception.ssrc) else { return false };
        let heard = Heard {
            ssrc: reception.ssrc,
            lost: f64::from(reception.fraction_lost) / 256.0,
            jitter_s: f64::from(reception.jitter) / f64::from(setup.clock_rate.max(1)),
            round_trip_s: reception.round_trip_ns(unix_ns).map(|ns| ns as f64 / 1e9),
        };
        self.heard.retain(|known| known.ssrc != heard.ssrc);
        self.heard.push(heard);
        true
    }
}
