//! What comes of each answer, and of one that never comes.

use super::connection::{Exchange, Pending, Play, Step};
use super::requests::unsupported;
use super::session::{Pace, SetUp};
use super::{Action, Answer, ConnectionId, Playing, Server, SessionId};
use crate::message::{Response, Status};
use crate::range::{Range, SECOND_NS, Unit};
use crate::replay;
use crate::sdp;
use crate::transport::Transport;

impl Server {
    pub(super) fn answered(&mut self, id: ConnectionId, answer: Result<Answer, Status>, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some((_, pending)) = connection.pending.take() else { return };
        let Pending { exchange, step } = *pending;
        connection.seen_ns = now_ns;
        let response = match (step, answer) {
            (Step::Describe { is_replay: true, .. }, Ok(Answer::Described(presentation)))
                if presentation.recorded_ns.is_none() =>
            {
                unsupported(&[replay::FEATURE])
            }
            (Step::Describe { target, base, is_replay }, Ok(Answer::Described(presentation))) => {
                let unit = if is_replay { Unit::Clock } else { Unit::Npt };
                let body = sdp::describe_at(&presentation, connection.host, base.split_once('?'), unit);
                let mut response = Response::new(Status::Ok)
                    .with("Content-Type", "application/sdp")
                    .with("Content-Base", base);
                response.body = body;
                connection.described = Some((target, presentation));
                response
            }
            (Step::DescribeToSetUp { target, request }, Ok(Answer::Described(presentation))) => {
                match self.set_up_new(presentation, &request, target, &exchange) {
                    Ok(Some(response)) => response,
                    Ok(None) => return,
                    Err(status) => Response::new(status),
                }
            }
            (Step::SetUp { session, track, url }, Ok(Answer::SetUp { transport, ssrc })) => {
                self.has_set_up(session, SetUp { number: track, url, transport }, ssrc, now_ns)
            }
            (Step::Play(play), Ok(Answer::Playing(playing))) => {
                return self.is_to_play(&exchange, &play, &playing, now_ns);
            }
            (step, answer) => {
                self.abandon(Pending { exchange: exchange.clone(), step });
                Response::new(answer.err().unwrap_or(Status::InternalServerError))
            }
        };
        self.respond(&exchange, response);
    }

    fn has_set_up(&mut self, id: SessionId, set_up: SetUp, ssrc: u32, now_ns: u64) -> Response {
        let Some(session) = self.sessions.get_mut(&id) else { return Response::new(Status::SessionNotFound) };
        session.is_busy = false;
        session.seen_ns = now_ns;
        let mut transport = set_up.transport.to_string();
        // A group has as many sources as it likes.
        if !matches!(set_up.transport, Transport::Multicast { .. }) {
            transport += &format!(";ssrc={ssrc:08X}");
        }
        session.tracks.push(set_up);
        let timeout_s = self.config.session_timeout_ns / SECOND_NS;
        Response::new(Status::Ok)
            .with("Transport", transport + ";mode=\"PLAY\"")
            .with("Session", format_args!("{};timeout={timeout_s}", session.name))
    }

    fn is_to_play(&mut self, exchange: &Exchange, play: &Play, playing: &Playing, now_ns: u64) {
        let Some(session) = self.sessions.get_mut(&play.session) else {
            return self.respond(exchange, Response::new(Status::SessionNotFound));
        };
        session.is_busy = false;
        session.is_playing = true;
        session.pace = Pace { until_ns: playing.until_ns, scale: playing.scale, speed: playing.speed };
        session.seen_ns = now_ns;
        let range = Range { unit: Unit::Npt, from_ns: Some(playing.from_ns), until_ns: playing.until_ns };
        let mut response = Response::new(Status::Ok)
            .with("Session", &session.name)
            .with("Range", session.presentation.in_unit(range, play.unit));
        if play.has_scale || playing.scale != 1.0 {
            response = response.with("Scale", format_args!("{:?}", playing.scale));
        }
        if play.has_speed || playing.speed != 1.0 {
            response = response.with("Speed", format_args!("{:?}", playing.speed));
        }
        if play.is_replay {
            response = response.with("Rate-Control", if playing.is_paced { "yes" } else { "no" });
        }
        let packets = session.tracks.iter().filter_map(|track| {
            let packet = playing.first.iter().find(|packet| packet.track == track.number)?;
            Some(format!("url={};seq={};rtptime={}", track.url, packet.sequence, packet.timestamp))
        });
        let packets: Vec<String> = packets.collect();
        if !packets.is_empty() {
            response = response.with("RTP-Info", packets.join(","));
        }
        // The response goes before the first packet.
        self.respond(exchange, response);
        if self.sessions.contains_key(&play.session) {
            self.actions.push(Action::Start { session: play.session });
        }
    }

    /// Nothing comes of a request whose question was asked: all is as before it.
    pub(super) fn abandon(&mut self, pending: Pending) {
        match pending.step {
            Step::Describe { .. } | Step::DescribeToSetUp { .. } => {}
            Step::SetUp { session: id, track, .. } => {
                let Some(session) = self.sessions.get_mut(&id) else { return };
                session.is_busy = false;
                if session.tracks.is_empty() {
                    self.end_session(id);
                } else {
                    self.actions.push(Action::Release { session: id, track });
                }
            }
            Step::Play(Play { session: id, was_playing, .. }) => {
                let Some(session) = self.sessions.get_mut(&id) else { return };
                session.is_busy = false;
                session.is_playing = was_playing;
                if was_playing {
                    self.actions.push(Action::Start { session: id });
                }
            }
        }
    }
}
