//! What a PLAY means: from where a session goes on, how fast and until when; and when that is answered.

use forebay_rtsp::message::Status;
use forebay_rtsp::replay::Frames;
use forebay_rtsp::server::{Answer, ConnectionId, FirstPacket, Playing, QuestionId};
use forebay_streaming::course::Course;
use forebay_streaming::program::{Choice, is_video};
use forebay_streaming::stream::{self, Next, Stream};

use crate::clock;
use crate::event_loop::Serving;
use crate::pace::Pace;
use crate::readers::{Filling, Reading};
use crate::sessions::{Cue, Key, Part, Session};
use crate::transport::TrackTransport;

/// How long until an index is asked again whether it has come far enough.
const DEFERRED_NS: u64 = 50_000_000;

impl Serving {
    /// Gets ready what is to be played, and answers when it is.
    pub(crate) fn cue(&mut self, place: usize, question: QuestionId, part: Part) {
        if self.is_deferred(place, question, part) {
            return;
        }
        let session = &mut self.sessions[place];
        if !is_in_order(session, &part) {
            return self.answer(question, Err(Status::InvalidRange));
        }
        let (tracks, pace) = (session.tracks(), pace_of(session, &part));
        if !self.buffers.charge(session, &tracks, pace) {
            let status = self.without_room();
            return self.answer(question, Err(status));
        }
        let (from_ns, is_another) = begin(session, tracks, pace, &part);
        if is_another {
            self.sessions.begin_life(place);
        }
        let session = &mut self.sessions[place];
        (session.bye_ns, session.stopped_ns) = (None, Some(from_ns));
        let cue = Cue { question, from_ns, speed: pace.speed, replay: part.replay };
        // The connection of an earlier PLAY is gone: its question needs no answer.
        if let Some(earlier) = session.cue.replace(cue) {
            self.control.askers.remove(&earlier.question);
        }
        self.buffers.reclaim(session);
        self.buffers.want(session, clock::now_ns());
        self.answer_cue(place);
    }

    /// Whether a PLAY has to wait until the index of its file has come as far as its client wants to begin.
    fn is_deferred(&mut self, place: usize, question: QuestionId, part: Part) -> bool {
        let session = &mut self.sessions[place];
        let end_ns = || session.opened.presentation.duration_ns.filter(|_| part.is_backwards());
        let from_ns = part.from_ns.or_else(end_ns);
        let wanted_ns = from_ns.map(|ns| ns.saturating_add(session.opened.origin_ns));
        let has_come = wanted_ns.is_none_or(|wanted_ns| session.opened.playlist.reaches(wanted_ns));
        let deferred = (!has_come).then_some((question, part));
        let earlier = std::mem::replace(&mut session.deferred, deferred);
        if let Some((earlier, _)) = earlier.filter(|(earlier, _)| *earlier != question) {
            self.control.askers.remove(&earlier);
        }
        if !has_come {
            session.waits_until_ns = clock::now_ns() + DEFERRED_NS;
            self.sessions.set_timer(place);
        }
        !has_come
    }

    /// Tries again what waited for the index of a file.
    pub(crate) fn retry(&mut self, place: usize) {
        let deferred = self.sessions.get(place).and_then(|session| session.deferred);
        if let Some((question, part)) = deferred {
            self.cue(place, question, part);
            self.act(Vec::new(), ConnectionId(0));
        }
    }

    /// A buffer has been filled, or has not.
    pub(crate) fn filled(&mut self, key: Key, mut filled: Filling) {
        let Some(session) = self.sessions.of(key) else { return self.buffers.reclaim_filled(filled) };
        let now_ns = clock::now_ns();
        let result = std::mem::replace(&mut filled.result, Ok(Reading::default()));
        let reading = match result {
            Ok(reading) => reading,
            Err(sentence) => {
                let (id, cue) = (session.id, session.cue.take());
                self.buffers.reclaim_filled(filled);
                if let Some(cue) = cue {
                    self.answer(cue.question, Err(Status::InternalServerError));
                }
                self.log.say(now_ns, &sentence);
                let actions = self.server.end(id);
                return self.act(actions, ConnectionId(0));
            }
        };
        self.buffers.note_reading(session, reading);
        session.stream.put_filled(filled.buffer);
        let (is_playing, is_waited_for) = (session.is_playing(), session.next == Next::Buffer);
        self.buffers.want(session, now_ns);
        if !is_playing {
            self.answer_cue(key.place);
            self.act(Vec::new(), ConnectionId(0));
        } else if is_waited_for {
            // A session that waits for nothing has a timer that rings when something is due.
            self.prepare(key.place, now_ns);
        }
    }

    /// Answers a PLAY if its first samples are here.
    fn answer_cue(&mut self, place: usize) {
        let now_ns = clock::now_ns();
        let session = &mut self.sessions[place];
        if !session.stream.is_ready() {
            return;
        }
        let Some(cue) = session.cue.take() else { return };
        let epoch_ns = *session.epoch_ns.get_or_insert(now_ns);
        let recorded_ns = session.opened.presentation.recorded_ns.unwrap_or_default();
        session.stream.set_replay(cue.replay.map(|replay| {
            stream::Replay {
                epoch_ns: i64::try_from(recorded_ns)
                    .unwrap_or(i64::MAX)
                    .saturating_sub_unsigned(session.opened.origin_ns),
                cseq: replay.cseq,
                is_paced: session.pace.is_kept,
                is_predicted_only: session.pace.frames == Frames::Predicted,
            }
        }));
        session.stream.cue(cue.from_ns, now_ns - epoch_ns, session.pace.scale, cue.speed);
        let first = |stream: &Stream| {
            let senders = stream.senders().iter();
            let first = senders.map(|sender| FirstPacket {
                track: sender.setup().track,
                sequence: sender.next_sequence(),
                timestamp: sender.anchor(),
            });
            first.collect()
        };
        let of_client = |ns: u64| ns.saturating_sub(session.opened.origin_ns);
        let end_ns =
            if session.pace.is_backwards() { Some(0) } else { session.opened.presentation.duration_ns };
        let playing = Playing {
            from_ns: of_client(cue.from_ns),
            until_ns: session.until_ns.map(of_client).or(end_ns),
            scale: session.pace.scale,
            speed: cue.speed,
            is_paced: session.pace.is_kept,
            first: first(&session.stream),
        };
        self.answer(cue.question, Ok(Answer::Playing(playing)));
    }
}

/// Whether a part ends after it begins, which is where the session stands if the client names no beginning.
fn is_in_order(session: &Session, part: &Part) -> bool {
    let Some(until_ns) = part.until_ns else { return true };
    let standing_ns = session.stopped_ns.map(|ns| ns.saturating_sub(session.opened.origin_ns));
    let from_ns = part.from_ns.or(standing_ns);
    if part.scale < 0.0 {
        // Backwards it begins at the end.
        from_ns.is_none_or(|from_ns| until_ns < from_ns)
    } else {
        from_ns.unwrap_or_default() < until_ns
    }
}

/// How fast a client gets what it asks for.
fn pace_of(session: &Session, part: &Part) -> Pace {
    let media = session.opened.playlist.first();
    let is_of_pictures =
        |track: &usize| media.tracks().get(*track).is_some_and(|track| is_video(&track.codec));
    let has_pictures = session.tracks().iter().any(is_of_pictures);
    let is_tcp = session.transports.iter().all(|(_, one)| matches!(one, TrackTransport::Tcp { .. }));
    Pace::near(part, has_pictures, is_tcp)
}

/// Returns from where a session plays, as a position of its program, and whether it plays another program than before.
fn begin(session: &mut Session, tracks: Vec<usize>, pace: Pace, part: &Part) -> (u64, bool) {
    // From here on in positions of the program, not of the client.
    let origin_ns = session.opened.origin_ns;
    let in_program = |ns: u64| ns.saturating_add(origin_ns);
    let asked_ns = part.from_ns.map(in_program);
    let is_as_asked = pace.is_backwards() == (part.scale < 0.0);
    let is_unbounded = part.from_ns.is_none() && part.until_ns.is_none();
    let is_resumed = is_unbounded && session.stopped_ns.is_some();
    let asked_until_ns = part.until_ns.filter(|_| is_as_asked).map(in_program);
    let until_ns = if is_resumed { session.until_ns } else { asked_until_ns };
    let are_others = session.stream.drop_released() || session.program_tracks != tracks;
    let goes_on = is_unbounded && !are_others && session.pace.goes_on_as(&pace);
    if let Some(stopped_ns) = session.stopped_ns.filter(|_| goes_on) {
        return (stopped_ns, false);
    }
    let playlist = &session.opened.playlist;
    let wanted_ns = asked_ns.or(session.stopped_ns);
    let choice = Choice { tracks: tracks.clone(), until_ns, frames: pace.frames, is_beginning: true };
    let (from_ns, course) = if pace.is_backwards() {
        let from_ns = wanted_ns.unwrap_or(playlist.end_ns()).min(playlist.end_ns());
        (from_ns, Course::backwards(playlist.backwards(choice, from_ns)))
    } else {
        let from_ns = playlist.seek(&tracks, wanted_ns.unwrap_or(origin_ns));
        (from_ns, Course::forwards(playlist.program(choice, from_ns)))
    };
    session.stream.empty();
    session.program = Some(Box::new(course.peekable()));
    session.program_tracks = tracks;
    session.is_beginning = true;
    (session.until_ns, session.pace) = (until_ns, pace);
    (from_ns, true)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use crate::rig::{Rig, SETUP, UDP, session};

    #[test]
    fn without_memory_a_play_is_refused_and_sessions_that_play_go_on() {
        // The least that a session has is a buffer of a tenth of a second, and what is left when it asks for another: 5.7 KB.
        let mut rig = Rig::with(|settings| settings.memory_bytes = 15_000);
        let mut clients: Vec<_> = (0..3).map(|_| rig.connect(None)).collect();
        let sessions: Vec<String> =
            clients.iter_mut().map(|client| session(&rig.ask(client, SETUP)).to_owned()).collect();
        let play = |session: &str, more: &str| {
            format!("PLAY rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\nRange: npt=0-\n{more}\n")
        };
        for (number, status) in [(0, "200"), (1, "200"), (2, "453")] {
            let response = rig.ask(&mut clients[number], &play(&sessions[number], ""));
            assert!(response.starts_with(&format!("RTSP/1.0 {status} ")), "{number}: {response}");
        }
        let mut late = rig.connect(None);
        assert!(rig.ask(&mut late, SETUP).starts_with("RTSP/1.0 453 "));
        let share = rig.serving.sessions[0].share;
        clients[0]
            .write_all(play(&sessions[0], "Speed: 16\n").replace('\n', "\r\n").as_bytes())
            .expect("a request");
        let mut said = Vec::new();
        rig.turn_until("the faster PLAY is refused", |_| {
            let mut buffer = [0; 2000];
            let count = clients[0].read(&mut buffer).unwrap_or_default();
            said.extend_from_slice(&buffer[..count]);
            String::from_utf8_lossy(&said).contains("RTSP/1.0 453 ")
        });
        assert_eq!(rig.serving.sessions[0].share, share);
        assert!(rig.serving.sessions[0].is_playing(), "it plays as before");
    }

    #[test]
    fn an_end_before_where_a_session_stands_is_no_range() {
        let mut rig = Rig::with(|_| {});
        let mut client = rig.connect(None);
        let response = rig.ask(&mut client, &SETUP.replace("RTP/AVP/TCP;interleaved=0-1", UDP));
        let session = session(&response).to_owned();
        for (method, range, status) in [
            ("PLAY", "npt=-0", 457),
            ("PLAY", "npt=-1", 200),
            ("PLAY", "npt=2-", 200),
            ("PAUSE", "npt=now-", 200),
            ("PLAY", "npt=-1", 457),
            ("PLAY", "npt=now-1", 457),
            ("PLAY", "npt=-1\nScale: -1", 200),
            ("PAUSE", "npt=now-", 200),
            ("PLAY", "npt=-2.2\nScale: -1", 457),
            ("PLAY", "npt=now-2.2", 200),
        ] {
            let request =
                format!("{method} rtsp://h/a.aac RTSP/1.0\nCSeq: 2\nSession: {session}\nRange: {range}\n\n");
            let response = rig.ask(&mut client, &request);
            assert!(response.starts_with(&format!("RTSP/1.0 {status} ")), "{method} {range}: {response}");
        }
    }
}
