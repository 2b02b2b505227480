//! Sends what is due: packets, reports, and the goodbye after the last packet.

use std::collections::HashMap;

use forebay_rtsp::rtcp::Sent;
use forebay_rtsp::server::ConnectionId;
use forebay_streaming::lateness::Lateness;
use forebay_streaming::room::Room;
use forebay_streaming::stream::Next;

use crate::batch::{Batch, Spare, Tally};
use crate::clock;
use crate::connections::Connections;
use crate::datagrams::Datagrams;
use crate::event_loop::Serving;
use crate::sessions::{Key, Session, Sessions, Timer};
use crate::settings::Settings;
use crate::transport::TrackTransport;

/// The least time from one turn of sending to the next: what falls due meanwhile goes in one, with as many system calls as for
/// one session. So thousands of sessions do not wake this thread for every packet.
const GATHER_NS: u64 = 500_000;
/// The least time between complaints about samples of one session.
const COMPLAINT_NS: u64 = 5_000_000_000;
/// The longest time between reports.
const REPORT_NS_MAX: u64 = 5_000_000_000;
/// Time for the last packet to arrive and to be played: many players stop at once when they receive a goodbye. GStreamer's,
/// which holds packets for two seconds, never ends if the goodbye of a film's only track comes earlier.
const LAST_WAY_NS: u64 = 2_500_000_000;

/// What sending needs beside sessions and connections.
pub(crate) struct Transmitter {
    pub datagrams: Datagrams,
    spare: Spare,
    due: Vec<Timer>,
    /// Places of sessions whose packets are prepared: none twice.
    prepared: Vec<usize>,
    /// Sessions that wait until a connection takes more.
    blocked: HashMap<ConnectionId, Vec<Key>>,
    /// When something was last due.
    sent_ns: u64,
    /// Spreads reports in time; need not be hard to guess.
    rng: fastrand::Rng,
    /// What reports call the server.
    name: String,
    pub lateness: Lateness,
    pub tally: Tally,
}

impl Transmitter {
    pub fn new(datagrams: Datagrams) -> Self {
        Self {
            datagrams,
            spare: Spare::default(),
            due: Vec::new(),
            prepared: Vec::new(),
            blocked: HashMap::new(),
            sent_ns: 0,
            rng: fastrand::Rng::new(),
            name: format!("forebay@{}", rustix::system::uname().nodename().to_string_lossy()),
            lateness: Lateness::default(),
            tally: Tally::default(),
        }
    }

    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// When to send what is due at `due_ns`.
    pub fn gathered_ns(&self, due_ns: u64) -> u64 {
        due_ns.max(self.sent_ns + GATHER_NS)
    }

    /// Sends a session's packets that go on connections. Returns a connection that needs tending then.
    fn send_frames(&mut self, session: &Session, connections: &mut Connections) -> Option<ConnectionId> {
        let mut touched = None;
        for burst in session.stream.bursts() {
            let track = session.stream.senders()[burst.sender].setup().track;
            let Some(TrackTransport::Tcp { connection, channels }) = session.transport(track) else {
                continue;
            };
            let Some((one, backlogs)) = connections.get_to_send(*connection) else { continue };
            // A broken connection needs no tending here: epoll reports it unasked.
            if one.send_packets(channels.0, burst.packets, burst.buffer, backlogs, &mut self.spare) {
                touched = Some(*connection);
            }
        }
        touched
    }

    /// Sends the datagrams of all prepared sessions.
    fn send_datagrams(&mut self, sessions: &Sessions) {
        let mut batch = Batch::new(&self.datagrams, &mut self.spare);
        for place in &self.prepared {
            let Some(session) = sessions.get(*place) else { continue };
            for burst in session.stream.bursts() {
                let track = session.stream.senders()[burst.sender].setup().track;
                if let Some(TrackTransport::Udp { pair, rtp, .. }) = session.transport(track) {
                    batch.push(*pair, rtp, burst);
                }
            }
        }
        let tally = batch.finish(&mut self.spare);
        self.tally.add(tally);
    }

    /// Sends an RTCP packet for each track of a session. Returns the mean of their sizes, and a connection that needs tending then.
    fn send_control(
        &self,
        session: &Session,
        connections: &mut Connections,
        now_ns: u64,
        write: fn(&Sent, &str) -> Vec<u8>,
    ) -> (usize, Option<ConnectionId>) {
        let (mut bytes, mut count, mut touched) = (0, 0, None);
        for (sender, sent) in session.stream.reports(now_ns, clock::unix_ns()) {
            let packet = write(&sent, &self.name);
            (bytes, count) = (bytes + packet.len(), count + 1);
            match session.transport(session.stream.senders()[sender].setup().track) {
                // The next report makes up for one that is lost.
                Some(TrackTransport::Udp { pair, rtcp, .. }) => {
                    _ = self.datagrams.pair(*pair).rtcp.send_to(&packet, rtcp)
                }
                Some(TrackTransport::Tcp { connection, channels }) => {
                    if let Some((one, backlogs)) = connections.get_to_send(*connection)
                        && one.send_packet(channels.1, &packet, backlogs)
                    {
                        touched = Some(*connection);
                    }
                }
                None => {}
            }
        }
        (bytes.checked_div(count).unwrap_or_default(), touched)
    }
}

impl Serving {
    /// Sends all that is due by now, of all sessions.
    pub(crate) fn send_due(&mut self, now_ns: u64) {
        let mut due = std::mem::take(&mut self.transmitter.due);
        self.sessions.pop_due(now_ns, &mut due);
        if !due.is_empty() {
            self.transmitter.sent_ns = now_ns;
        }
        let mut deferred = Vec::new();
        for timer in due.drain(..) {
            if let Some(place) = self.sessions.take_timer(timer) {
                deferred.extend(self.sessions[place].deferred.map(|_| place));
                self.prepare(place, now_ns);
            }
        }
        self.transmitter.due = due;
        self.send_prepared();
        deferred.into_iter().for_each(|place| self.retry(place));
    }

    /// Looks at one session, whose circumstances have changed.
    pub(crate) fn look_at(&mut self, place: usize, now_ns: u64) {
        // Packets that are prepared go first: if this session is among them, it must not go twice.
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
            let touched = self.send_goodbyes(place);
            let session = &mut self.sessions[place];
            (session.bye_ns, session.report_ns, session.stopped_ns) = (None, None, None);
            session.stream.stop();
            session.next = Next::Buffer;
            self.server.has_played(id, now_ns);
            touched.into_iter().for_each(|connection| self.tend(connection));
            return;
        }
        let (carrier, room) = room(session, &self.connections, &self.settings);
        session.next = session.stream.advance(now_ns, room);
        if let Some(sentence) = session.take_slowness(now_ns) {
            self.log.say(now_ns, &sentence);
        }
        if let Some(complaint) = session.stream.take_complaint()
            && session.uncomplaining_ns <= now_ns
        {
            session.uncomplaining_ns = now_ns + COMPLAINT_NS;
            self.log.say(now_ns, &format!("{}: {complaint}", session.opened.path));
        }
        let touched = self.transmitter.send_frames(session, &mut self.connections);
        if let Some(connection) = touched {
            self.tend(connection);
        }
        self.transmitter.prepared.push(place);
        if let (Some(session), Some(carrier)) = (self.sessions.get(place), carrier)
            && session.next == Next::Room
        {
            let (key, memory_bytes) = (session.key(), self.settings.memory_bytes);
            if self.connections.room(carrier, memory_bytes) > 0 {
                self.sessions[place].next = Next::At(now_ns);
            } else {
                self.transmitter.blocked.entry(carrier).or_default().push(key);
            }
        }
    }

    /// A connection has taken some of what waits for it. Sessions that wait for room there go on if there is some.
    pub(crate) fn resume_blocked(&mut self, carrier: ConnectionId) {
        if self.connections.room(carrier, self.settings.memory_bytes) == 0 {
            return;
        }
        let now_ns = clock::now_ns();
        for key in self.transmitter.blocked.remove(&carrier).unwrap_or_default() {
            if let Some(session) = self.sessions.of(key).filter(|session| session.next == Next::Room) {
                session.next = Next::At(now_ns);
                self.sessions.set_timer(key.place);
            }
        }
    }

    /// Forgets connections that are gone.
    pub(crate) fn forget_blocked(&mut self) {
        self.transmitter.blocked.retain(|carrier, _| self.connections.get(*carrier).is_some());
    }

    /// Sends all packets that wait, and does what comes after for their sessions.
    pub(crate) fn send_prepared(&mut self) {
        if self.transmitter.prepared.is_empty() {
            return;
        }
        self.transmitter.send_datagrams(&self.sessions);
        let now_ns = clock::now_ns();
        let mut prepared = std::mem::take(&mut self.transmitter.prepared);
        for place in prepared.drain(..) {
            if self.sessions.get(place).is_some() {
                self.go_on(place, now_ns);
            }
        }
        self.transmitter.prepared = prepared;
    }

    /// Notes what has been sent, asks for the next buffer, and sets the timer.
    fn go_on(&mut self, place: usize, now_ns: u64) {
        let session = &mut self.sessions[place];
        session.stream.has_sent(now_ns, &mut self.transmitter.lateness);
        self.buffers.reclaim(session);
        if session.next == Next::End && session.bye_ns.is_none() && session.report_ns.is_some() {
            session.bye_ns = Some(now_ns + LAST_WAY_NS);
        }
        let mut touched = None;
        if session.report_ns.is_some_and(|report_ns| report_ns <= now_ns) {
            touched = self.send_reports(place, now_ns);
        }
        self.buffers.want(&mut self.sessions[place], now_ns);
        self.sessions.set_timer(place);
        // The session may be gone after that.
        touched.into_iter().for_each(|connection| self.tend(connection));
    }

    /// Sends the reports of a session. Returns a connection that needs tending then.
    fn send_reports(&mut self, place: usize, now_ns: u64) -> Option<ConnectionId> {
        let session = &mut self.sessions[place];
        let (bytes, touched) =
            self.transmitter.send_control(session, &mut self.connections, now_ns, Sent::report);
        session.reports.has_seen(bytes);
        let spread = self.transmitter.rng.u32(..);
        session.report_ns = Some(now_ns + session.reports.interval_ns(spread).min(REPORT_NS_MAX));
        touched
    }

    /// Tells a session's client that nothing more comes, if something was to come. Returns a connection that needs tending then.
    pub(crate) fn send_goodbyes(&mut self, place: usize) -> Option<ConnectionId> {
        let session = &self.sessions[place];
        self.transmitter.send_control(session, &mut self.connections, clock::now_ns(), Sent::goodbye).1
    }

    /// Ends every session, when the server ends.
    pub(crate) fn end_all(&mut self) {
        for id in self.sessions.ids() {
            let actions = self.server.end(id);
            self.act(actions, ConnectionId(0));
        }
        self.connections.close_all();
    }
}

/// The connection that a session's packets go on, and what it takes now.
fn room(session: &Session, connections: &Connections, settings: &Settings) -> (Option<ConnectionId>, Room) {
    let late_ns = u64::try_from(settings.late.as_nanos()).unwrap_or(u64::MAX);
    let carrier = session.transports.iter().find_map(|(_, transport)| match transport {
        TrackTransport::Tcp { connection, .. } => Some(*connection),
        TrackTransport::Udp { .. } => None,
    });
    let room = carrier.map_or(Room::ENDLESS, |carrier| Room {
        bytes: connections.room(carrier, settings.memory_bytes),
        late_ns,
    });
    (carrier, room)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustix::event::epoll::EventFlags;

    use super::*;
    use crate::rig::{Rig, SETUP, session};

    #[test]
    fn a_goodbye_that_finds_a_full_socket_is_sent_once_there_is_room() {
        let mut rig = Rig::with(|_| {});
        let mut client = rig.connect(None);
        let session = session(&rig.ask(&mut client, SETUP)).to_owned();
        let play = format!("PLAY rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\n\n");
        assert!(rig.ask(&mut client, &play).starts_with("RTSP/1.0 200 "));
        let connection = rig.serving.connections.newest().expect("a connection");
        let mut stream = connection.stream();
        while stream.write(&[0; 4096]).is_ok() {}
        rig.serving.sessions[0].bye_ns = Some(0);
        rig.serving.prepare(0, clock::now_ns());
        let connection = rig.serving.connections.newest().expect("a connection");
        assert!(connection.backlog_bytes() > 0, "the goodbye waits");
        assert!(connection.interest.contains(EventFlags::OUT), "epoll tells of room");
        let mut buffer = [0; 64 << 10];
        rig.turn_until("it is sent", |serving| {
            _ = client.read(&mut buffer);
            serving.connections.newest().is_some_and(|one| one.backlog_bytes() == 0)
        });
    }
}
