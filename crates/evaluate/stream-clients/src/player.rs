//! One player: its sockets, what it is at, and what it receives.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};

use crate::protocol::{
    Came, Client, Head, Heard, Incoming, Lane, Link, Reception, SetUp, Stream, Tally, Track, Wish,
};
use hdrhistogram::Histogram;

use crate::clock::stamp_ns;
use crate::error::reason;
use crate::order::Transport;
use crate::sockets::{Pair, Ports, Receiver, connect};

const SECOND_NS: f64 = 1e9;
/// A socket is left for the others' after so many looks, and looked at again later.
const LOOKS: usize = 16;
/// So much before the end of its media, in seconds, a player goes to their beginning: at the end servers do as they please.
const END_S: f64 = 1.0;

/// What all players use.
pub(crate) struct Desk<'a> {
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) ports: &'a mut Ports,
    /// Where samples go, in the part of the time that counts.
    pub(crate) tally: Option<&'a mut Tally>,
    /// From being asked to play to the first packet, in microseconds.
    pub(crate) starts_us: &'a mut Histogram<u64>,
    /// Datagrams that found a socket full.
    pub(crate) dropped: &'a mut u64,
    /// Packets that the link had no room for.
    pub(crate) lost_on_link: &'a mut u64,
}

/// What a player is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no connection yet.
    Connecting,
    /// The server is asked for what there is, and for how to have it.
    Asking,
    /// It is to play, and nothing came yet.
    Starting,
    /// Packets come.
    Playing,
    /// It is to pause, so as to play from elsewhere.
    Pausing,
}

/// Moments of the clock that nobody sets, in nanoseconds, at which something is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) gives_up_ns: i64,
    pub(crate) keep_alive_ns: i64,
    pub(crate) report_ns: i64,
    pub(crate) seek_ns: i64,
    pub(crate) leave_ns: i64,
    pub(crate) replay_ns: i64,
}

/// A player.
#[derive(Debug)]
pub(crate) struct Player {
    pub(crate) control: TcpStream,
    /// Its tracks, in the order in which they are set up.
    pub(crate) parts: Vec<Part>,
    transport: Transport,
    link: Option<Link>,
    drift: f64,
    address: SocketAddr,
    incoming: Incoming,
    client: Client,
    tolerance_ns: i64,
    needed_s: f64,
    unsent: Vec<u8>,
    pub(crate) state: State,
    /// Where it plays next, as a share of where it could.
    pub(crate) place: f64,
    from_s: f64,
    /// When it was asked to play, by the clock of stamps.
    asked_ns: i64,
    pub(crate) due: Due,
    /// Whether it is not read from because its link has no room.
    pub(crate) is_held: bool,
    /// Whether it has ever played.
    pub(crate) has_played: bool,
}

/// A track as a player has it.
#[derive(Debug)]
pub(crate) struct Part {
    track: Track,
    pub(crate) pair: Option<Pair>,
    set_up: Option<SetUp>,
    reception: Reception,
    /// Datagrams that found its socket full.
    dropped: u32,
}

/// What a player is to be.
pub(crate) struct Role<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'a str,
    pub(crate) transport: Transport,
    /// Bits a second of its link, where that is less than the loopback's.
    pub(crate) link: Option<f64>,
    /// How much faster than time its timestamps run.
    pub(crate) drift: f64,
    pub(crate) place: f64,
    pub(crate) needed_s: f64,
    pub(crate) late_s: f64,
    pub(crate) due: Due,
}

impl Player {
    /// Begins to connect. A sentence where that is not possible.
    pub(crate) fn begin(role: &Role<'_>) -> Result<Self, String> {
        let link = role.link.map(Link::new);
        // Datagrams that a link delays have passed the loopback; the bytes of a connection wait at the server.
        let window = link.as_ref().filter(|_| role.transport == Transport::Tcp).map(Link::queue_bytes);
        let control = connect(role.address, window).map_err(|error| refused(role.address, &error))?;
        Ok(Self {
            control,
            parts: Vec::new(),
            transport: role.transport,
            link,
            drift: role.drift,
            address: role.address,
            incoming: Incoming::default(),
            client: Client::new(format!("rtsp://{}/{}", role.address, role.path)),
            tolerance_ns: (role.late_s * SECOND_NS) as i64,
            needed_s: role.needed_s,
            unsent: Vec::new(),
            state: State::Connecting,
            place: role.place,
            from_s: 0.0,
            asked_ns: 0,
            due: role.due,
            is_held: false,
            has_played: false,
        })
    }

    /// Does what its connection is ready for. A sentence where it has failed.
    pub(crate) fn control_ready(&mut self, desk: &mut Desk<'_>) -> Result<(), String> {
        if self.state == State::Connecting {
            if let Some(error) = self.control.take_error().ok().flatten() {
                return Err(refused(self.address, &error));
            }
            if self.control.peer_addr().is_err() {
                return Ok(());
            }
            self.state = State::Asking;
            let asked = self.client.describe();
            self.send(&asked)?;
        }
        self.flush()?;
        for _ in 0..LOOKS {
            if self.held_until_ns().is_some() {
                break;
            }
            let most = self.link.as_ref().filter(|_| self.transport == Transport::Tcp).map(Link::part_bytes);
            let received = match desk.receiver.receive(&self.control, most) {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(error) => return Err(format!("the connection broke: {}", reason(&error))),
            };
            if received.bytes.is_empty() {
                return Err("the server closed the connection".into());
            }
            let mut answers = Vec::new();
            let Self { incoming, parts, state, link, .. } = self;
            let arrival_ns = match link.as_mut().filter(|_| most.is_some()) {
                Some(link) => link.pass(received.bytes.len(), stamp_ns()),
                None => received.arrival_ns,
            };
            let mut each = |came: Came<'_>| match came {
                Came::Answer(answer) => answers.push(answer),
                Came::Packet { channel, head, bytes } => {
                    let part = parts.iter_mut().find(|part| part.channel() == Some(channel));
                    if let Some(Part { reception, .. }) = part {
                        take(reception, *state, head, bytes, arrival_ns, desk.tally.as_deref_mut());
                    }
                }
            };
            incoming.push(received.bytes, &mut each).map_err(|error| error.to_string())?;
            self.notice_start(arrival_ns, desk.starts_us);
            for answer in answers {
                let heard = self.client.hear(&answer).map_err(|refused| refused.to_string())?;
                self.heard(heard, desk)?;
            }
        }
        Ok(())
    }

    /// Until when its link has no room for more of its connection, by the clock of stamps; `None` where it has.
    pub(crate) fn held_until_ns(&self) -> Option<i64> {
        let link = self.link.as_ref().filter(|_| self.transport == Transport::Tcp)?;
        Some(link.free_ns()).filter(|free_ns| *free_ns > stamp_ns())
    }

    fn heard(&mut self, heard: Heard, desk: &mut Desk<'_>) -> Result<(), String> {
        match heard {
            Heard::Tracks(tracks) => {
                let (tolerance_ns, drift) = (self.tolerance_ns, self.drift);
                let part = |track: Track| Part {
                    reception: Reception::new(&track, tolerance_ns, drift),
                    track,
                    pair: None,
                    set_up: None,
                    dropped: 0,
                };
                self.parts = tracks.into_iter().map(part).collect();
                self.set_up_next(desk)
            }
            Heard::Ready(set_up) => {
                if let Some(part) = self.parts.iter_mut().find(|part| part.set_up.is_none()) {
                    part.set_up = Some(set_up);
                }
                self.set_up_next(desk)
            }
            Heard::Paused if self.state == State::Pausing => {
                // What was still on its way belongs to where it played before.
                (0..self.parts.len()).for_each(|part| self.media_ready(part, desk));
                self.play()
            }
            Heard::Paused | Heard::Plays(_) | Heard::Nothing => Ok(()),
        }
    }

    /// Asks for the next track, or has all of them played.
    fn set_up_next(&mut self, desk: &mut Desk<'_>) -> Result<(), String> {
        let Some(place) = self.parts.iter().position(|part| part.set_up.is_none()) else {
            return self.play();
        };
        let part = &mut self.parts[place];
        let wish = match self.transport {
            Transport::Udp => {
                let pair = desk.ports.pair(self.address.ip()).map_err(|error| error.to_string())?;
                Wish::Udp { port: part.pair.insert(pair).port }
            }
            Transport::Tcp => Wish::Tcp { channel: 2 * place as u8 },
        };
        let request = self.client.set_up(&part.track, wish);
        self.send(&request)
    }

    fn play(&mut self) -> Result<(), String> {
        self.parts.iter_mut().for_each(|part| part.reception.restart());
        self.from_s = self.place * (self.length_s().unwrap_or(0.0) - self.needed_s).max(0.0);
        self.state = State::Starting;
        self.asked_ns = stamp_ns();
        let request = self.client.play(self.from_s);
        self.send(&request)
    }

    /// Has it play from another place, once it plays.
    pub(crate) fn seek(&mut self, place: f64) -> Result<(), String> {
        self.place = place;
        self.state = State::Pausing;
        let request = self.client.pause();
        self.send(&request)
    }

    /// Takes the packets of a track that have come.
    pub(crate) fn media_ready(&mut self, part: usize, desk: &mut Desk<'_>) {
        let Self { parts, link, state, .. } = self;
        let Some(Part { pair: Some(pair), reception, dropped, .. }) = parts.get_mut(part) else { return };
        let mut first_ns = None;
        for _ in 0..LOOKS {
            // That a port of the server is closed is told on the connection as well.
            let Ok(Some(received)) = desk.receiver.receive(&pair.media, None) else { break };
            *desk.dropped += u64::from(received.dropped.saturating_sub(*dropped));
            *dropped = received.dropped.max(*dropped);
            for packet in received.bytes.chunks(received.datagram) {
                let passed = match link {
                    Some(link) => link.datagram(packet.len(), received.arrival_ns),
                    None => Some(received.arrival_ns),
                };
                let Some(arrival_ns) = passed else {
                    *desk.lost_on_link += u64::from(desk.tally.is_some());
                    continue;
                };
                first_ns.get_or_insert(arrival_ns);
                take(reception, *state, packet, packet.len(), arrival_ns, desk.tally.as_deref_mut());
            }
        }
        if let Some(first_ns) = first_ns {
            self.notice_start(first_ns, desk.starts_us);
        }
    }

    /// Takes reports of a track that have come, which nothing reads.
    pub(crate) fn reports_ready(&mut self, part: usize, desk: &mut Desk<'_>) {
        let Some(Part { pair: Some(pair), .. }) = self.parts.get(part) else { return };
        for _ in 0..LOOKS {
            if !matches!(desk.receiver.receive(&pair.reports, None), Ok(Some(_))) {
                break;
            }
        }
    }

    fn notice_start(&mut self, arrival_ns: i64, starts_us: &mut Histogram<u64>) {
        let begun = self.parts.iter().any(|part| part.reception.has_begun());
        if self.state == State::Starting && begun {
            self.state = State::Playing;
            self.has_played = true;
            starts_us.saturating_record(((arrival_ns - self.asked_ns) / 1_000).max(0) as u64);
        }
    }

    fn length_s(&self) -> Option<f64> {
        self.parts.iter().filter_map(|part| part.track.length_s).reduce(f64::min)
    }

    /// How long it can play from where it began last, in seconds; `None` where there is no end.
    pub(crate) fn lasts_s(&self) -> Option<f64> {
        Some((self.length_s()? - self.from_s - END_S).max(END_S))
    }

    /// How often it is to ask something, in seconds.
    pub(crate) fn keep_alive_s(&self) -> f64 {
        let all = self.parts.iter().filter_map(|part| part.set_up).map(|set_up| set_up.keep_alive_s);
        all.reduce(f64::min).unwrap_or_default()
    }

    pub(crate) fn keep_alive(&mut self) -> Result<(), String> {
        let request = self.client.keep_alive();
        self.send(&request)
    }

    /// Tells the server what was received (RFC 3550, section 6.4.2).
    pub(crate) fn report(&mut self) -> Result<(), String> {
        let mut on_connection = Vec::new();
        for part in &mut self.parts {
            let Some(set_up) = part.set_up else { continue };
            let receiver = u32::from(part.pair.as_ref().map_or(1, |pair| pair.port));
            let report = part.reception.report(receiver);
            match set_up.lane {
                Lane::Udp { reports: Some(port) } => {
                    let to = SocketAddr::new(self.address.ip(), port);
                    // A report that is lost is followed by another one.
                    let _ = part.pair.as_ref().map(|pair| pair.reports.send_to(&report, to));
                }
                Lane::Tcp { reports, .. } => {
                    let [high, low] = (report.len() as u16).to_be_bytes();
                    on_connection.extend([b'$', reports, high, low]);
                    on_connection.extend(report);
                }
                Lane::Udp { reports: None } => {}
            }
        }
        self.send(&on_connection)
    }

    pub(crate) fn leave(&mut self) {
        if let Some(request) = self.client.tear_down() {
            // The server ends the session by itself when the connection is gone.
            let _ = self.send(&request);
        }
    }

    /// The part of the time that counts begins.
    pub(crate) fn begin_counting(&mut self) {
        self.parts.iter_mut().for_each(|part| part.reception.begin());
    }

    /// That part ends, or the player leaves: what came of each track. Nothing where nothing could have come yet.
    pub(crate) fn end_counting(&self, now_ns: i64, tally: &mut Tally) -> Vec<Stream> {
        let is_new = self.state == State::Starting && now_ns - self.asked_ns <= self.tolerance_ns;
        let ends = self.parts.iter().map(|part| part.reception.end(now_ns, tally));
        match self.state {
            State::Playing | State::Pausing => ends.collect(),
            // A little while it may wait for the first packet from elsewhere, too.
            State::Starting if self.has_played || !is_new => {
                ends.map(|stream| Stream { stands_still: !is_new, ..stream }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How many tracks have sockets of their own.
    pub(crate) fn pairs(&self) -> usize {
        self.parts.iter().filter(|part| part.pair.is_some()).count()
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        !self.unsent.is_empty() || self.state == State::Connecting
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.unsent.extend_from_slice(bytes);
        self.flush()
    }

    fn flush(&mut self) -> Result<(), String> {
        while !self.unsent.is_empty() {
            match (&self.control).write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("the connection broke: {}", reason(&error))),
            }
        }
        Ok(())
    }
}

impl Part {
    /// Of its packets, on the connection.
    fn channel(&self) -> Option<u8> {
        match self.set_up?.lane {
            Lane::Tcp { media, .. } => Some(media),
            Lane::Udp { .. } => None,
        }
    }
}

/// What comes while it pauses is of where it played before.
fn take(
    reception: &mut Reception,
    state: State,
    packet: &[u8],
    bytes: usize,
    arrival_ns: i64,
    tally: Option<&mut Tally>,
) {
    let plays = matches!(state, State::Starting | State::Playing);
    let (true, Some(head)) = (plays, Head::parse(packet)) else { return };
    reception.take(head, bytes as u64, arrival_ns, tally);
}

fn refused(address: SocketAddr, error: &std::io::Error) -> String {
    format!("{address} takes no connection: {}", reason(error))
}
