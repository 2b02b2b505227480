//! What is due is sent: packets, reports, and that nothing more comes.

use std::io::IoSlice;

use forebay_rtsp::rtcp::Sent;
use forebay_rtsp::server::ConnectionId;
use forebay_streaming::stream::Next;

use crate::batch::{Batch, emptied};
use crate::clock;
use crate::event_loop::Serving;
use crate::session::TrackTransport;

/// The least time between complaints about samples of one session.
const COMPLAINT_NS: u64 = 5_000_000_000;
/// The longest time between reports.
const REPORT_NS_MAX: u64 = 5_000_000_000;
/// Time for the last packet to arrive and to be played: many players stop at once when they hear that nothing more comes.
/// GStreamer's, which holds packets for two seconds, does not end any more if it hears that of a film's only track before.
const LAST_WAY_NS: u64 = 2_500_000_000;

impl Serving {
    /// All that is due by now, of all sessions.
    pub(crate) fn send_due(&mut self, now_ns: u64) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.pop_due(now_ns, &mut due);
        if !due.is_empty() {
            self.sent_ns = now_ns;
        }
        for (due_ns, key) in due.drain(..) {
            let session = self.sessions.get_mut(key.place);
            if let Some(session) = session.filter(|one| one.key == key && one.timer_ns == Some(due_ns)) {
                session.timer_ns = None;
                self.prepare(key.place, now_ns);
            }
        }
        self.due = due;
        self.send_prepared();
    }

    /// Looks at one session, whose circumstances have changed.
    pub(crate) fn look_at(&mut self, place: usize, now_ns: u64) {
        // What others have prepared goes first: if this one is among them, it must not go twice.
        self.send_prepared();
        self.prepare(place, now_ns);
        self.send_prepared();
    }

    /// Makes a session's packets that are due. Those for TCP are sent, the others wait for those of other sessions, until
    /// [`Serving::send_prepared`], before which no session is prepared twice.
    pub(crate) fn prepare(&mut self, place: usize, now_ns: u64) {
        let session = &mut self.sessions[place];
        if session.bye_ns.is_some_and(|bye_ns| bye_ns <= now_ns) {
            let id = session.id;
            self.send_goodbyes(place);
            let session = &mut self.sessions[place];
            (session.bye_ns, session.report_ns, session.stopped_ns) = (None, None, None);
            session.stream.stop();
            session.next = Next::Buffer;
            self.server.has_played(id, now_ns);
            return;
        }
        let has_room = session.transports.iter().all(|(_, wire)| match wire {
            TrackTransport::Tcp { connection, .. } => self
                .connections
                .get(connection)
                .is_none_or(|one| self.backlogs.has_room(one.backlog_bytes(), self.settings.memory_bytes)),
            TrackTransport::Udp { .. } => true,
        });
        session.next = session.stream.advance(now_ns, has_room);
        if let Some(complaint) = session.stream.take_complaint()
            && session.uncomplaining_ns <= now_ns
        {
            session.uncomplaining_ns = now_ns + COMPLAINT_NS;
            self.log.say(now_ns, &format!("{}: {complaint}", session.opened.path));
        }
        self.send_frames(place);
        self.sending.push(place);
    }

    /// Packets that go on connections.
    fn send_frames(&mut self, place: usize) {
        let session = &self.sessions[place];
        let mut touched = None;
        for burst in session.stream.bursts() {
            let track = session.stream.senders()[burst.sender].setup().track;
            let Some(TrackTransport::Tcp { connection, channels }) = session.wire(track) else { continue };
            let Some(one) = self.connections.get_mut(connection) else { continue };
            self.frames.clear();
            // RFC 2326, section 10.12: a dollar sign, the channel, the length.
            self.frames.extend(burst.packets.iter().map(|packet| {
                let [high, low] = (packet.bytes() as u16).to_be_bytes();
                [b'$', channels.0, high, low]
            }));
            let mut slices = emptied(std::mem::take(&mut self.spare.slices));
            for (packet, frame) in burst.packets.iter().zip(&self.frames) {
                slices.extend([IoSlice::new(frame), IoSlice::new(packet.head())]);
                slices.extend(packet.pieces().map(|piece| IoSlice::new(&burst.buffer[piece])));
            }
            one.send_slices(&mut slices);
            one.note_backlog(&mut self.backlogs);
            self.spare.slices = emptied(slices);
            touched = Some(*connection);
        }
        // What cannot be sent is found out by epoll, which says so even unasked.
        if let Some(connection) = touched
            && self.connections.get(&connection).is_some_and(|one| one.needs_tending())
        {
            self.tend(connection);
        }
    }

    /// All packets that wait, and what comes after for their sessions.
    pub(crate) fn send_prepared(&mut self) {
        if self.sending.is_empty() {
            return;
        }
        let mut batch = Batch::new(&self.datagrams, &mut self.spare);
        for place in &self.sending {
            let Some(session) = self.sessions.get(*place) else { continue };
            for burst in session.stream.bursts() {
                let track = session.stream.senders()[burst.sender].setup().track;
                if let Some(TrackTransport::Udp { pair, rtp, .. }) = session.wire(track) {
                    batch.push(*pair, rtp, burst);
                }
            }
        }
        let tally = batch.finish(&mut self.spare);
        self.tally.add(tally);
        let now_ns = clock::now_ns();
        let mut sending = std::mem::take(&mut self.sending);
        for place in sending.drain(..) {
            if self.sessions.contains(place) {
                self.go_on(place, now_ns);
            }
        }
        self.sending = sending;
    }

    /// Notes what has been sent, has the next buffer filled, and sets the timer.
    fn go_on(&mut self, place: usize, now_ns: u64) {
        let session = &mut self.sessions[place];
        session.stream.has_sent(now_ns, &mut self.lateness);
        session.stream.take_over().for_each(|part| self.pool.give_back(part));
        if session.next == Next::End && session.bye_ns.is_none() && session.report_ns.is_some() {
            session.bye_ns = Some(now_ns + LAST_WAY_NS);
        }
        if session.report_ns.is_some_and(|report_ns| report_ns <= now_ns) {
            self.send_reports(place, now_ns);
        }
        self.want_buffer(place, now_ns);
        let session = &mut self.sessions[place];
        let due_ns = session.due_ns();
        if let Some(due_ns) = due_ns.filter(|due_ns| session.timer_ns != Some(*due_ns)) {
            self.wheel.set(due_ns, session.key);
        }
        session.timer_ns = due_ns;
    }

    fn send_reports(&mut self, place: usize, now_ns: u64) {
        let bytes = self.send_control(place, now_ns, Sent::report);
        let session = &mut self.sessions[place];
        session.reports.has_seen(bytes);
        let chance = self.chance.u32(..);
        session.report_ns = Some(now_ns + session.reports.interval_ns(chance).min(REPORT_NS_MAX));
    }

    /// That nothing more comes, if something was to come.
    pub(crate) fn send_goodbyes(&mut self, place: usize) {
        self.send_control(place, clock::now_ns(), Sent::goodbye);
    }

    /// To every session, when the server ends.
    pub(crate) fn say_goodbye(&mut self) {
        let all: Vec<_> = self.places.keys().copied().collect();
        for id in all {
            let actions = self.server.end(id);
            self.act(actions, ConnectionId(0));
        }
        let connections: Vec<_> = self.connections.keys().copied().collect();
        for id in connections {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.is_closing = true;
            }
        }
    }

    /// An RTCP packet for each track, and the mean of their sizes.
    fn send_control(&mut self, place: usize, now_ns: u64, write: fn(&Sent, &str) -> Vec<u8>) -> usize {
        let session = &self.sessions[place];
        let (mut bytes, mut count) = (0, 0);
        for (sender, sent) in session.stream.reports(now_ns, clock::unix_ns()) {
            let packet = write(&sent, &self.name);
            (bytes, count) = (bytes + packet.len(), count + 1);
            match session.wire(session.stream.senders()[sender].setup().track) {
                // A report that is lost is made up for by the next one.
                Some(TrackTransport::Udp { pair, rtcp, .. }) => {
                    _ = self.datagrams.pair(*pair).rtcp.send_to(&packet, rtcp)
                }
                Some(TrackTransport::Tcp { connection, channels }) => {
                    if let Some(one) = self.connections.get_mut(connection) {
                        let [high, low] = (packet.len() as u16).to_be_bytes();
                        one.send(&[&[b'$', channels.1, high, low], packet.as_slice()].concat());
                    }
                }
                None => {}
            }
        }
        bytes.checked_div(count).unwrap_or_default()
    }
}
