//! Sessions from SETUP to TEARDOWN: where the packets of their tracks go, and when they are sent.

use std::sync::Arc;

use forebay_rtsp::message::Status;
use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Presentation;
use forebay_rtsp::server::{Answer, ConnectionId, SessionId};
use forebay_rtsp::transport::Offer;
use forebay_streaming::program::is_video;
use forebay_streaming::stream::Setup;

use crate::catalog::Opened;
use crate::clock;
use crate::event_loop::Serving;
use crate::sessions::Viewer;
use crate::transport::{Ends, TrackTransport};

/// A track that a client wants set up.
pub(crate) struct Wanted {
    pub session: SessionId,
    pub presentation: Arc<Presentation>,
    pub track: usize,
    pub offers: Vec<Offer>,
    pub packet_bytes_max: Option<u32>,
    pub viewer: Viewer,
}

impl Serving {
    pub(crate) fn set_up(&mut self, on: ConnectionId, wanted: Wanted) -> Result<Answer, Status> {
        let Some(connection) = self.connections.get(on) else { return Err(Status::ServiceUnavailable) };
        let ends = Ends { connection: on, client: connection.client, host: connection.host };
        let ip = ends.client.ip();
        let address = Arc::as_ptr(&wanted.presentation).addr();
        let opened = self.control.shown.get(&address).cloned().ok_or(Status::ServiceUnavailable)?;
        let is_new = self.sessions.place(wanted.session).is_none();
        // Memory is for sessions that play, but a client that could not play now need not begin.
        if is_new && !self.buffers.has_room(opened.bytes_per_second()) {
            return Err(self.without_room());
        }
        let sessions_max = self.settings.sessions_per_address;
        if is_new && !self.connections.admission.admit_session(ip, sessions_max) {
            let sentence =
                format!("{ip} was turned away: it has all the sessions that sessions-per-address allows");
            self.log.say(clock::now_ns(), &sentence);
            return Err(Status::NotEnoughBandwidth);
        }
        let result = self.set_up_track(ends, wanted, opened);
        if is_new && result.is_err() {
            self.connections.admission.leave_session(ip);
        }
        result
    }

    pub(crate) fn without_room(&mut self) -> Status {
        let sentence = "a client was turned away: buffers have no more memory; --memory gives them more";
        self.log.say(clock::now_ns(), sentence);
        Status::NotEnoughBandwidth
    }

    fn set_up_track(&mut self, ends: Ends, wanted: Wanted, opened: Arc<Opened>) -> Result<Answer, Status> {
        let Wanted { session: id, track: number, viewer, .. } = wanted;
        let (transport, answer) = self.choose_transport(ends, id, number, &wanted.offers)?;
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(|_| Status::InternalServerError)?;
        let [a, b, c, d, e, f, g, h, i, j] = random;
        let ssrc = u32::from_be_bytes([a, b, c, d]);
        let track = opened.playlist.first().tracks().get(number).ok_or(Status::NotFound)?;
        let packet_bytes_max = wanted.packet_bytes_max.map_or(usize::MAX, |bytes| bytes as usize);
        let setup = Setup {
            track: number,
            format: track.format,
            payload_type: track.codec.payload_type(number),
            clock_rate: track.codec.clock_rate(),
            ssrc,
            sequence: u16::from_be_bytes([i, j]),
            timestamp: u32::from_be_bytes([e, f, g, h]),
            packet_bytes_max: packet_bytes_max.min(self.settings.packet_bytes),
            is_video: is_video(&track.codec),
            needs_sync: track.has_groups(),
            is_paced: matches!(transport, TrackTransport::Udp { .. }),
            is_bundled: matches!(track.format, Format::Aac | Format::MpegAudio),
        };
        let place = match self.sessions.place(id) {
            Some(place) => place,
            None => self.sessions.insert(id, ends.client.ip(), opened, self.settings.buffers),
        };
        let session = &mut self.sessions[place];
        session.viewer.get_or_insert(viewer);
        self.reports.expect(&transport, id);
        // Most have one or two, and there are thousands of sessions.
        session.transports.reserve_exact(1);
        session.transports.push((number, transport));
        session.stream.add_sender(setup);
        Ok(Answer::SetUp { transport: answer, ssrc })
    }

    pub(crate) fn start(&mut self, id: SessionId) {
        let Some(place) = self.sessions.place(id) else { return };
        let now_ns = clock::now_ns();
        let session = &mut self.sessions[place];
        session.stream.start(now_ns);
        // The first report tells how the clocks of tracks belong together.
        session.report_ns = Some(now_ns);
        self.look_at(place, now_ns);
    }

    pub(crate) fn stop(&mut self, id: SessionId) {
        let Some(place) = self.sessions.place(id) else { return };
        let now_ns = clock::now_ns();
        let session = &mut self.sessions[place];
        session.stopped_ns = session.stream.position_ns(now_ns).or(session.stopped_ns);
        session.stream.stop();
        (session.report_ns, session.bye_ns) = (None, None);
        self.buffers.note_stopped(session);
        self.look_at(place, now_ns);
    }

    pub(crate) fn release(&mut self, id: SessionId, track: usize) {
        let Some(place) = self.sessions.place(id) else { return };
        let session = &mut self.sessions[place];
        session.stream.release(track);
        session.receptions.clear();
        for (_, transport) in session.transports.extract_if(.., |(number, _)| *number == track) {
            self.reports.forget(&transport, id);
        }
        // Else a client could set up tracks again and again.
        if session.is_idle() {
            self.buffers.take_all(place, &mut self.sessions);
            self.sessions[place].stream.drop_released();
        }
    }

    pub(crate) fn end(&mut self, id: SessionId) {
        let Some(place) = self.sessions.place(id) else { return };
        let touched = self.send_goodbyes(place);
        self.buffers.release(&mut self.sessions[place]);
        let session = self.sessions.remove(place);
        self.note_access(&session);
        self.connections.admission.leave_session(session.client);
        // A client that went away before its PLAY was answered gets no answer.
        let questions = [session.cue.map(|cue| cue.question), session.deferred.map(|(question, _)| question)];
        for question in questions.iter().flatten() {
            self.control.askers.remove(question);
        }
        for (_, transport) in &session.transports {
            self.reports.forget(transport, id);
        }
        touched.into_iter().for_each(|connection| self.tend(connection));
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, SETUP, session};

    #[test]
    fn a_track_that_is_set_up_again_and_again_is_one_track() {
        let mut rig = Rig::with(|_| {});
        let mut client = rig.connect(None);
        let first = rig.ask(&mut client, SETUP);
        let session = format!("CSeq: 2\nSession: {}\n", session(&first));
        let of_session = |request: &str| request.replace("CSeq: 1\n", &session);
        let play = of_session("PLAY rtsp://h/a.aac?loop RTSP/1.0\nCSeq: 1\nRange: npt=0-\n\n");
        let pause = of_session("PAUSE rtsp://h/a.aac RTSP/1.0\nCSeq: 1\n\n");
        for request in [&of_session(SETUP), &of_session(SETUP), &play, &pause, &of_session(SETUP), &play] {
            let mut said = rig.ask(&mut client, request);
            // Packets may come before; within so many reads the response comes.
            for _ in 0..1000 {
                if said.contains("RTSP/1.0 200 OK") {
                    break;
                }
                assert!(!said.contains("RTSP/1.0 4"), "{said}");
                said += &rig.ask(&mut client, "");
            }
            assert!(said.contains("RTSP/1.0 200 OK"), "{said}");
            assert_eq!(rig.serving.sessions[0].stream.senders().len(), 1);
        }
        assert!(rig.serving.sessions[0].is_playing(), "it plays");
    }

    #[test]
    fn one_address_has_so_many_sessions_and_others_have_theirs() {
        let mut rig = Rig::with(|settings| settings.sessions_per_address = 2);
        let mut one = rig.connect(Some("192.0.2.1:1000"));
        let first = rig.ask(&mut one, SETUP);
        let unsupported = SETUP.replace("RTP/AVP/TCP;interleaved=0-1", "RTP/AVP;multicast");
        for (request, status) in [(&*unsupported, "461"), (SETUP, "200"), (SETUP, "453")] {
            let response = rig.ask(&mut one, request);
            assert!(response.starts_with(&format!("RTSP/1.0 {status} ")), "{response}");
        }
        let mut other = rig.connect(Some("192.0.2.2:1000"));
        assert!(rig.ask(&mut other, SETUP).starts_with("RTSP/1.0 200 "));
        let session = session(&first);
        let end = format!("TEARDOWN rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\n\n");
        assert!(rig.ask(&mut one, &end).starts_with("RTSP/1.0 200 "));
        assert!(rig.ask(&mut one, SETUP).starts_with("RTSP/1.0 200 "));
    }
}
