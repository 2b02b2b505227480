//! Sends what cameras have to send by now: packets to each viewer, reports, and the end of dropped connections.

use std::cmp::Reverse;
use std::ops::Range;

use forebay_cameras::{Departure, What};
use forebay_rtsp::packetise::Packet;
use forebay_rtsp::rtcp::Sent;
use forebay_rtsp::server::{ConnectionId, SessionId};
use forebay_streaming::lateness::Lateness;
use forebay_streaming::stream::Burst;

use super::{Cameras, Viewer};
use crate::batch::{Batch, Spare, Tally};
use crate::connections::Connections;
use crate::datagrams::Datagrams;
use crate::event_loop::Serving;
use crate::transport::TrackTransport;

/// The least time from one turn of sending to the next: what falls due meanwhile goes in few system calls.
const GATHER_NS: u64 = 500_000;
/// A camera that is later than this does not catch up: it goes on from where it is to be by now.
const CATCH_UP_NS_MAX: u64 = 2_000_000_000;

/// What is to be sent now.
#[derive(Default)]
pub(super) struct Outgoing {
    packets: Vec<Packet>,
    sends: Vec<Send>,
    reports: Vec<(usize, usize, Sent)>,
    dropped: Vec<usize>,
    /// When something was last due.
    sent_ns: u64,
    spare: Spare,
}

/// Packets to one viewer.
struct Send {
    session: SessionId,
    /// Its place among the viewer's tracks.
    track: usize,
    packets: Range<usize>,
}

impl Viewer {
    /// Whether packets go to a track of this viewer.
    fn takes(&mut self, track: usize, departure: &Departure, needs_sync: bool, has_room: bool) -> bool {
        let viewed = &mut self.tracks[track];
        if departure.begins {
            let was_on = viewed.is_on;
            viewed.is_on = has_room && (was_on || departure.is_sync || !needs_sync);
            if was_on && !viewed.is_on {
                self.counts.dropped += 1;
            }
        }
        viewed.is_on
    }
}

impl Cameras {
    /// When there is something to send next, on the server's clock.
    pub fn next_ns(&self) -> Option<u64> {
        let Reverse((due_ns, _)) = self.due.peek()?;
        let due_ns = due_ns.saturating_add_signed(self.since_epoch_ns.saturating_neg());
        Some(due_ns.max(self.outgoing.sent_ns + GATHER_NS))
    }

    /// Finds out what is to be sent by now.
    fn gather(&mut self, now_ns: u64, memory_bytes: u64, connections: &Connections, lateness: &mut Lateness) {
        let at_ns = self.at(now_ns);
        while let Some(&Reverse((due_ns, place))) = self.due.peek()
            && due_ns <= at_ns
        {
            self.due.pop();
            self.outgoing.sent_ns = now_ns;
            let live = &mut self.live[place];
            let is_watched =
                |session: &SessionId| self.viewers.get(session).is_some_and(|one| one.is_playing);
            live.is_due = live.sessions.iter().any(is_watched);
            let Some(timeline) = live.timeline.as_mut().filter(|_| live.is_due) else { continue };
            if at_ns - due_ns > CATCH_UP_NS_MAX {
                timeline.skip_to(at_ns);
            }
            while let Some(event) = timeline.next(at_ns) {
                match event.what {
                    What::Drop => self.outgoing.dropped.push(place),
                    What::Report { track, sent } => self.outgoing.reports.push((place, track, sent)),
                    What::Packets(departure) => {
                        lateness.note(at_ns - event.at_ns);
                        let start = self.outgoing.packets.len();
                        timeline.packets(&departure, &mut self.outgoing.packets);
                        let packets = start..self.outgoing.packets.len();
                        let needs_sync = timeline.needs_sync(departure.track);
                        for session in &live.sessions {
                            let Some(viewer) = self.viewers.get_mut(session).filter(|one| one.is_playing)
                            else {
                                continue;
                            };
                            let track = viewer.tracks.iter().position(|one| one.number == departure.track);
                            let Some(track) = track else { continue };
                            let has_room = match &viewer.tracks[track].transport {
                                TrackTransport::Udp { .. } => true,
                                TrackTransport::Tcp { connection, .. } => {
                                    connections.room(*connection, memory_bytes) > 0
                                }
                            };
                            if viewer.takes(track, &departure, needs_sync, has_room) {
                                let sent = &self.outgoing.packets[packets.clone()];
                                viewer.counts.packets += sent.len() as u64;
                                viewer.counts.bytes += sent.iter().map(|one| one.bytes() as u64).sum::<u64>();
                                let packets = packets.clone();
                                self.outgoing.sends.push(Send { session: *session, track, packets });
                            }
                        }
                    }
                }
            }
            self.due.push(Reverse((timeline.due_ns(), place)));
        }
    }

    /// Sends the packets that go as datagrams.
    fn send_datagrams(&self, datagrams: &Datagrams, spare: &mut Spare) -> Tally {
        let mut batch = Batch::new(datagrams, spare);
        for send in &self.outgoing.sends {
            let Some(viewer) = self.viewers.get(&send.session) else { continue };
            if let TrackTransport::Udp { pair, rtp, .. } = &viewer.tracks[send.track].transport {
                let packets = &self.outgoing.packets[send.packets.clone()];
                let buffer = self.plan.cameras()[viewer.camera].film.buffer();
                batch.push(*pair, rtp, Burst { sender: 0, packets, buffer });
            }
        }
        batch.finish(spare)
    }

    /// Sends the packets that go on connections. Returns those connections that need tending then.
    fn send_frames(&self, connections: &mut Connections, spare: &mut Spare) -> Vec<ConnectionId> {
        let mut touched = Vec::new();
        for send in &self.outgoing.sends {
            let Some(viewer) = self.viewers.get(&send.session) else { continue };
            let TrackTransport::Tcp { connection, channels } = &viewer.tracks[send.track].transport else {
                continue;
            };
            let Some((one, backlogs)) = connections.get_to_send(*connection) else { continue };
            let packets = &self.outgoing.packets[send.packets.clone()];
            let buffer = self.plan.cameras()[viewer.camera].film.buffer();
            if one.send_packets(channels.0, packets, buffer, backlogs, spare) {
                touched.push(*connection);
            }
        }
        touched
    }

    /// Sends the reports to all viewers of their cameras. Adds those connections that need tending then.
    fn send_reports(
        &mut self,
        datagrams: &Datagrams,
        connections: &mut Connections,
        touched: &mut Vec<ConnectionId>,
    ) {
        for (place, track, sent) in self.outgoing.reports.drain(..) {
            let packet = sent.report(&self.plan.cameras()[place].name);
            let viewers = self.live[place].sessions.iter().filter_map(|session| self.viewers.get(session));
            let tracks = viewers.filter(|viewer| viewer.is_playing).flat_map(|viewer| &viewer.tracks);
            for viewed in tracks.filter(|viewed| viewed.number == track) {
                match &viewed.transport {
                    // The next report makes up for one that is lost.
                    TrackTransport::Udp { pair, rtcp, .. } => {
                        _ = datagrams.pair(*pair).rtcp.send_to(&packet, rtcp);
                    }
                    TrackTransport::Tcp { connection, channels } => {
                        if let Some((one, backlogs)) = connections.get_to_send(*connection)
                            && one.send_packet(channels.1, &packet, backlogs)
                        {
                            touched.push(*connection);
                        }
                    }
                }
            }
        }
    }

    /// The sessions of cameras that drop their connections now.
    fn take_dropped(&mut self) -> Vec<(SessionId, ConnectionId)> {
        let mut all = Vec::new();
        for place in self.outgoing.dropped.drain(..) {
            let sessions = self.live[place].sessions.iter();
            all.extend(sessions.filter_map(|one| Some((*one, self.viewers.get(one)?.connection))));
        }
        all
    }
}

impl Serving {
    /// Sends all that cameras have to send by now.
    pub(crate) fn send_of_cameras(&mut self, now_ns: u64) {
        let Some(cameras) = &mut self.cameras else { return };
        let memory_bytes = self.settings.memory_bytes;
        cameras.gather(now_ns, memory_bytes, &self.connections, &mut self.transmitter.lateness);
        let datagrams = &self.transmitter.datagrams;
        let mut spare = std::mem::take(&mut cameras.outgoing.spare);
        let tally = cameras.send_datagrams(datagrams, &mut spare);
        self.transmitter.tally.add(tally);
        let mut touched = cameras.send_frames(&mut self.connections, &mut spare);
        cameras.outgoing.spare = spare;
        cameras.send_reports(datagrams, &mut self.connections, &mut touched);
        cameras.outgoing.sends.clear();
        cameras.outgoing.packets.clear();
        let dropped = cameras.take_dropped();
        for connection in touched {
            self.tend(connection);
        }
        for (session, connection) in dropped {
            let actions = self.server.end(session);
            self.act(actions, connection);
            if let Some(one) = self.connections.get_mut(connection) {
                one.is_broken = true;
                self.tend(connection);
            }
        }
    }
}
