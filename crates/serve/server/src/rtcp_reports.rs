//! Reports of clients on how they receive their tracks (RFC 3550, section 6.4.2).

use std::collections::HashMap;
use std::net::SocketAddr;

use forebay_rtsp::rtcp::{Received, Reception};
use forebay_rtsp::server::SessionId;

use crate::clock;
use crate::event_loop::Serving;
use crate::sessions::Session;
use crate::transport::TrackTransport;

/// How often the sockets are read, and how many reports at a time from one socket. Ten thousand clients send fewer; of a flood
/// it is what half a millisecond suffices for.
const READ_NS: u64 = 50_000_000;
const REPORTS_MAX: usize = 1024;
/// The longest report.
const REPORT_BYTES: usize = 1500;

/// How a track is received, by its client's last report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrackReception {
    ssrc: u32,
    /// Packets that were lost since the previous report, as a share.
    pub lost: f64,
    pub jitter_s: f64,
    /// `None` until the client has received a report of the server.
    pub round_trip_s: Option<f64>,
}

/// Which session's reports come from which address, and when the sockets were last read.
#[derive(Default)]
pub(crate) struct Reports {
    sources: HashMap<SocketAddr, SessionId>,
    read_ns: u64,
    /// How many reports of tracks have been received.
    count: u64,
}

impl Reports {
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Reports from where the packets of `transport` go are of this session.
    pub fn expect(&mut self, transport: &TrackTransport, session: SessionId) {
        if let TrackTransport::Udp { rtcp, .. } = transport {
            self.sources.insert(*rtcp, session);
        }
    }

    /// They are no longer, unless that address is another session's by now.
    pub fn forget(&mut self, transport: &TrackTransport, session: SessionId) {
        if let TrackTransport::Udp { rtcp, .. } = transport
            && self.sources.get(rtcp) == Some(&session)
        {
            self.sources.remove(rtcp);
        }
    }

    /// When the sockets are to be read; `None` while no report is expected.
    pub fn due_ns(&self) -> Option<u64> {
        (!self.sources.is_empty()).then_some(self.read_ns + READ_NS)
    }
}

impl Serving {
    /// Reads the reports that wait in the sockets. No event reports them, so a flood of datagrams does not wake this thread.
    pub(crate) fn read_reports(&mut self, now_ns: u64) {
        self.reports.read_ns = now_ns;
        let mut buffer = [0; REPORT_BYTES];
        for number in 0..self.transmitter.datagrams.pairs().len() {
            for _ in 0..REPORTS_MAX {
                let socket = &self.transmitter.datagrams.pair(number).rtcp;
                let Ok((count, from)) = socket.recv_from(&mut buffer) else { break };
                if let Some(session) = self.reports.sources.get(&from).copied() {
                    self.take_report(session, &buffer[..count]);
                }
            }
        }
    }

    /// An RTCP packet of a session's client. It is a sign of life unless it is a goodbye, or cannot be read.
    pub(crate) fn take_report(&mut self, id: SessionId, packet: &[u8]) {
        let Ok(received) = Received::parse(packet) else { return };
        if received.goodbyes.is_empty() {
            self.server.is_alive(id, clock::now_ns());
        }
        let Some(place) = self.sessions.place(id) else { return };
        let session = &mut self.sessions[place];
        session.reports.has_seen(packet.len());
        for reception in &received.receptions {
            self.reports.count += u64::from(session.note_reception(reception, clock::unix_ns()));
        }
    }
}

impl Session {
    /// `false` if the report is about no track of this session.
    fn note_reception(&mut self, reception: &Reception, unix_ns: u64) -> bool {
        let mut setups = self.stream.senders().iter().map(|sender| sender.setup());
        let Some(setup) = setups.find(|setup| setup.ssrc == reception.ssrc) else { return false };
        let track = TrackReception {
            ssrc: reception.ssrc,
            lost: f64::from(reception.fraction_lost) / 256.0,
            jitter_s: f64::from(reception.jitter) / f64::from(setup.clock_rate.max(1)),
            round_trip_s: reception.round_trip_ns(unix_ns).map(|ns| ns as f64 / 1e9),
        };
        self.receptions.retain(|known| known.ssrc != track.ssrc);
        self.receptions.push(track);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, SETUP, UDP, session};

    #[test]
    fn the_reports_of_a_new_session_on_old_ports_are_read() {
        let mut rig = Rig::with(|settings| settings.udp_ports = 30_000..=39_999);
        let mut client = rig.connect(None);
        let udp = SETUP.replace("RTP/AVP/TCP;interleaved=0-1", UDP);
        let [old, new] = [(); 2].map(|()| rig.ask(&mut client, &udp));
        let end = |response: &str| {
            let session = session(response);
            format!("TEARDOWN rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\n\n")
        };
        rig.ask(&mut client, &end(&old));
        assert_eq!(rig.serving.reports.sources.values().copied().collect::<Vec<_>>(), [SessionId(2)]);
        rig.ask(&mut client, &end(&new));
        assert!(rig.serving.reports.sources.is_empty());
    }
}
