//! One player: its sockets, what it is at, and what it receives.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};

use crate::protocol::{Came, Client, Head, Heard, Incoming, Lane, Reception, SetUp, Stream, Tally, Wish};
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
    /// Where samples go, in the part of the time that counts.
    pub(crate) tally: Option<&'a mut Tally>,
    /// From being asked to play to the first packet, in microseconds.
    pub(crate) starts_us: &'a mut Histogram<u64>,
    /// Datagrams that found a socket full.
    pub(crate) dropped: &'a mut u64,
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
    pub(crate) pair: Option<Pair>,
    address: SocketAddr,
    incoming: Incoming,
    client: Client,
    pub(crate) set_up: Option<SetUp>,
    reception: Option<Reception>,
    tolerance_ns: i64,
    needed_s: f64,
    unsent: Vec<u8>,
    pub(crate) state: State,
    /// Where it plays next, as a share of where it could.
    pub(crate) place: f64,
    from_s: f64,
    /// When it was asked to play, by the clock of stamps.
    asked_ns: i64,
    /// Datagrams that found its socket full.
    dropped: u32,
    pub(crate) due: Due,
    /// Whether it has ever played.
    pub(crate) has_played: bool,
}

/// What a player is to be.
pub(crate) struct Role<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'a str,
    pub(crate) transport: Transport,
    pub(crate) place: f64,
    pub(crate) needed_s: f64,
    pub(crate) late_s: f64,
    pub(crate) due: Due,
}

impl Player {
    /// Begins to connect. A sentence where that is not possible.
    pub(crate) fn begin(role: &Role<'_>, ports: &mut Ports) -> Result<Self, String> {
        let control = connect(role.address).map_err(|error| refused(role.address, &error))?;
        let pair = match role.transport {
            Transport::Udp => Some(ports.pair(role.address.ip()).map_err(|error| error.to_string())?),
            Transport::Tcp => None,
        };
        let wish = pair.as_ref().map_or(Wish::Tcp, |pair| Wish::Udp { port: pair.port });
        Ok(Self {
            control,
            pair,
            address: role.address,
            incoming: Incoming::default(),
            client: Client::new(format!("rtsp://{}/{}", role.address, role.path), wish),
            set_up: None,
            reception: None,
            tolerance_ns: (role.late_s * SECOND_NS) as i64,
            needed_s: role.needed_s,
            unsent: Vec::new(),
            state: State::Connecting,
            place: role.place,
            from_s: 0.0,
            asked_ns: 0,
            dropped: 0,
            due: role.due,
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
            let received = match desk.receiver.receive(&self.control) {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(error) => return Err(format!("the connection broke: {}", reason(&error))),
            };
            if received.bytes.is_empty() {
                return Err("the server closed the connection".into());
            }
            let mut answers = Vec::new();
            let channel = match self.set_up {
                Some(SetUp { lane: Lane::Tcp { media, .. }, .. }) => Some(media),
                _ => None,
            };
            let Self { incoming, reception, state, .. } = self;
            let arrival_ns = received.arrival_ns;
            let mut each = |came: Came<'_>| match came {
                Came::Answer(answer) => answers.push(answer),
                Came::Packet { channel: on, head, bytes } if Some(on) == channel => {
                    take(reception, *state, head, bytes, arrival_ns, desk.tally.as_deref_mut());
                }
                Came::Packet { .. } => {}
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

    fn heard(&mut self, heard: Heard, desk: &mut Desk<'_>) -> Result<(), String> {
        match heard {
            Heard::Ask(request) => self.send(&request),
            Heard::Ready(set_up) => {
                self.set_up = Some(set_up);
                self.reception = Some(Reception::new(set_up.clock_hz, self.tolerance_ns));
                self.play()
            }
            Heard::Paused if self.state == State::Pausing => {
                // What was still on its way belongs to where it played before.
                self.media_ready(desk);
                self.play()
            }
            Heard::Paused | Heard::Plays(_) | Heard::Nothing => Ok(()),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        if let Some(reception) = &mut self.reception {
            reception.restart();
        }
        let length_s = self.set_up.and_then(|set_up| set_up.length_s);
        self.from_s = self.place * (length_s.unwrap_or(0.0) - self.needed_s).max(0.0);
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

    /// Takes the packets that have come.
    pub(crate) fn media_ready(&mut self, desk: &mut Desk<'_>) {
        let Some(pair) = &self.pair else { return };
        let mut first_ns = None;
        for _ in 0..LOOKS {
            // That a port of the server is closed is told on the connection as well.
            let Ok(Some(received)) = desk.receiver.receive(&pair.media) else { break };
            first_ns.get_or_insert(received.arrival_ns);
            *desk.dropped += u64::from(received.dropped.saturating_sub(self.dropped));
            self.dropped = self.dropped.max(received.dropped);
            for packet in received.bytes.chunks(received.datagram) {
                let tally = desk.tally.as_deref_mut();
                take(&mut self.reception, self.state, packet, packet.len(), received.arrival_ns, tally);
            }
        }
        if let Some(first_ns) = first_ns {
            self.notice_start(first_ns, desk.starts_us);
        }
    }

    /// Takes reports that have come, which nobody reads.
    pub(crate) fn reports_ready(&mut self, desk: &mut Desk<'_>) {
        let Some(pair) = &self.pair else { return };
        for _ in 0..LOOKS {
            if !matches!(desk.receiver.receive(&pair.reports), Ok(Some(_))) {
                break;
            }
        }
    }

    fn notice_start(&mut self, arrival_ns: i64, starts_us: &mut Histogram<u64>) {
        let begun = self.reception.as_ref().is_some_and(Reception::has_begun);
        if self.state == State::Starting && begun {
            self.state = State::Playing;
            self.has_played = true;
            starts_us.saturating_record(((arrival_ns - self.asked_ns) / 1_000).max(0) as u64);
        }
    }

    /// How long it can play from where it began last, in seconds; `None` where there is no end.
    pub(crate) fn lasts_s(&self) -> Option<f64> {
        let length_s = self.set_up?.length_s?;
        Some((length_s - self.from_s - END_S).max(END_S))
    }

    pub(crate) fn keep_alive(&mut self) -> Result<(), String> {
        let request = self.client.keep_alive();
        self.send(&request)
    }

    /// Tells the server what was received (RFC 3550, section 6.4.2).
    pub(crate) fn report(&mut self) -> Result<(), String> {
        let (Some(set_up), Some(reception)) = (self.set_up, &mut self.reception) else { return Ok(()) };
        let receiver = u32::from(self.pair.as_ref().map_or(1, |pair| pair.port));
        let report = reception.report(receiver);
        match set_up.lane {
            Lane::Udp { reports: Some(port) } => {
                let to = SocketAddr::new(self.address.ip(), port);
                // A report that is lost is followed by another one.
                self.pair.as_ref().map(|pair| pair.reports.send_to(&report, to));
                Ok(())
            }
            Lane::Tcp { reports, .. } => {
                let [high, low] = (report.len() as u16).to_be_bytes();
                self.send(&[&[b'$', reports, high, low], report.as_slice()].concat())
            }
            Lane::Udp { reports: None } => Ok(()),
        }
    }

    pub(crate) fn leave(&mut self) {
        if let Some(request) = self.client.tear_down() {
            // The server ends the session by itself when the connection is gone.
            let _ = self.send(&request);
        }
    }

    /// The part of the time that counts begins.
    pub(crate) fn begin_counting(&mut self) {
        if let Some(reception) = &mut self.reception {
            reception.begin();
        }
    }

    /// That part ends, or the player leaves; `None` where nothing could have come yet.
    pub(crate) fn end_counting(&self, now_ns: i64, tally: &mut Tally) -> Option<Stream> {
        let reception = self.reception.as_ref()?;
        let is_new = self.state == State::Starting && now_ns - self.asked_ns <= self.tolerance_ns;
        match self.state {
            State::Playing | State::Pausing => Some(reception.end(now_ns, tally)),
            // A little while it may wait for the first packet from elsewhere, too.
            State::Starting if self.has_played || !is_new => {
                Some(Stream { stands_still: !is_new, ..reception.end(now_ns, tally) })
            }
            _ => None,
        }
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

/// What comes while it pauses is of where it played before.
fn take(
    reception: &mut Option<Reception>,
    state: State,
    packet: &[u8],
    bytes: usize,
    arrival_ns: i64,
    tally: Option<&mut Tally>,
) {
    let plays = matches!(state, State::Starting | State::Playing);
    let (Some(reception), true, Some(head)) = (reception, plays, Head::parse(packet)) else { return };
    reception.take(head, bytes as u64, arrival_ns, tally);
}

fn refused(address: SocketAddr, error: &std::io::Error) -> String {
    format!("{address} takes no connection: {}", reason(error))
}
