//! The client's side of RTSP (RFC 2326): the tracks of one URL, described, set up, played, paused and played from elsewhere.

use std::collections::VecDeque;

use crate::protocol::incoming::Answer;
use crate::protocol::track::Track;

const OK: u16 = 200;
/// How long a session lives without a request, in seconds, where the server does not say (section 12.37).
const TIMEOUT_S: u32 = 60;

/// How packets are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Datagrams to this port, and reports to the next one.
    Udp {
        /// The first port.
        port: u16,
    },
    /// On the connection, between answers.
    Tcp {
        /// The channel of packets; that of reports is the next one.
        channel: u8,
    },
}

/// How packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// As datagrams.
    Udp {
        /// The server's port for reports, where it says so.
        reports: Option<u16>,
    },
    /// On these channels of the connection.
    Tcp {
        /// Of packets.
        media: u8,
        /// Of reports.
        reports: u8,
    },
}

/// What a server agreed to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetUp {
    /// How packets come.
    pub lane: Lane,
    /// How often a request is to be made at least, in seconds.
    pub keep_alive_s: f64,
}

/// What a server plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Playing {
    /// The number of the first packet, where the server says so.
    pub sequence: Option<u16>,
    /// Its timestamp likewise.
    pub timestamp: Option<u32>,
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// There are these tracks, of which each is to be set up: [`Client::set_up`].
    Tracks(Vec<Track>),
    /// A track is set up. When all of them are, they are ready to be played: [`Client::play`].
    Ready(SetUp),
    /// It plays, from where it was asked to.
    Plays(Playing),
    /// It pauses: it can be played from elsewhere.
    Paused,
    /// Nothing.
    Nothing,
}

/// The server does not do what it was asked.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refused {
    /// It answered so.
    #[error("the server answers {status} to {method} {url}")]
    Status {
        /// The answer.
        status: u16,
        /// The request.
        method: &'static str,
        /// Of what.
        url: String,
    },
    /// Its description has no track that could be played.
    #[error("the description of {url} has nothing to play")]
    NoTrack {
        /// Of what.
        url: String,
    },
    /// It set up something else than was asked for.
    #[error("the server sets {url} up without a session, or otherwise than it was asked to")]
    NoSession {
        /// Of what.
        url: String,
    },
}

/// A conversation with a server.
#[derive(Clone, Debug)]
pub struct Client {
    url: String,
    /// How the track is wanted that was asked for last.
    wish: Option<Wish>,
    /// What was asked and not yet answered.
    asked: VecDeque<(u32, Request)>,
    sequence: u32,
    session: Option<String>,
    base: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Describe,
    SetUp,
    Play,
    Pause,
    KeepAlive,
    TearDown,
}

impl Request {
    fn method(self) -> &'static str {
        match self {
            Self::Describe => "DESCRIBE",
            Self::SetUp => "SETUP",
            Self::Play => "PLAY",
            Self::Pause => "PAUSE",
            Self::KeepAlive => "GET_PARAMETER",
            Self::TearDown => "TEARDOWN",
        }
    }
}

impl Client {
    /// Of a whole URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        Self { base: url.clone(), url, wish: None, asked: VecDeque::new(), sequence: 0, session: None }
    }

    /// The first request.
    #[must_use]
    pub fn describe(&mut self) -> Vec<u8> {
        self.ask(Request::Describe, &self.url.clone(), "Accept: application/sdp\r\n")
    }

    /// Asks for a track in this way; the one before is to be set up already.
    #[must_use]
    pub fn set_up(&mut self, track: &Track, wish: Wish) -> Vec<u8> {
        let control = match track.control.as_str() {
            "*" => self.base.clone(),
            whole if whole.starts_with("rtsp://") => whole.to_owned(),
            part => format!("{}/{part}", self.base.trim_end_matches('/')),
        };
        let transport = match wish {
            Wish::Udp { port } => {
                format!("Transport: RTP/AVP;unicast;client_port={port}-{}\r\n", u32::from(port) + 1)
            }
            Wish::Tcp { channel } => {
                format!("Transport: RTP/AVP/TCP;unicast;interleaved={channel}-{}\r\n", u32::from(channel) + 1)
            }
        };
        self.wish = Some(wish);
        self.ask(Request::SetUp, &control, &transport)
    }

    /// Has it played from so many seconds after its beginning.
    #[must_use]
    pub fn play(&mut self, from_s: f64) -> Vec<u8> {
        self.ask(Request::Play, &self.base.clone(), &format!("Range: npt={from_s:.3}-\r\n"))
    }

    /// Has it paused, which comes before it can be played from elsewhere.
    #[must_use]
    pub fn pause(&mut self) -> Vec<u8> {
        self.ask(Request::Pause, &self.base.clone(), "")
    }

    /// Tells the server that somebody is still there.
    #[must_use]
    pub fn keep_alive(&mut self) -> Vec<u8> {
        self.ask(Request::KeepAlive, &self.base.clone(), "")
    }

    /// Ends the session; `None` where there is none.
    #[must_use]
    pub fn tear_down(&mut self) -> Option<Vec<u8>> {
        self.session.is_some().then(|| self.ask(Request::TearDown, &self.base.clone(), ""))
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// The server refuses, so that nothing will be played.
    pub fn hear(&mut self, answer: &Answer) -> Result<Heard, Refused> {
        let Some(request) = self.answered(answer) else { return Ok(Heard::Nothing) };
        // Some servers do not know this request, and are told what they were to be told all the same.
        if request == Request::KeepAlive || request == Request::TearDown {
            return Ok(Heard::Nothing);
        }
        if answer.status != OK {
            return Err(Refused::Status {
                status: answer.status,
                method: request.method(),
                url: self.url.clone(),
            });
        }
        match request {
            Request::Describe => self.described(answer),
            Request::SetUp => self.was_set_up(answer),
            Request::Play => Ok(Heard::Plays(playing(answer))),
            Request::Pause => Ok(Heard::Paused),
            Request::KeepAlive | Request::TearDown => Ok(Heard::Nothing),
        }
    }

    /// What it is an answer to. Answers come in the order of requests, and some servers do not number them.
    fn answered(&mut self, answer: &Answer) -> Option<Request> {
        let number: Option<u32> = answer.header("cseq").and_then(|number| number.parse().ok());
        while let Some((sequence, request)) = self.asked.pop_front() {
            if number.is_none_or(|number| number == sequence) {
                return Some(request);
            }
        }
        None
    }

    fn described(&mut self, answer: &Answer) -> Result<Heard, Refused> {
        let base = answer.header("content-base").or(answer.header("content-location"));
        if let Some(base) = base.filter(|base| base.starts_with("rtsp://")) {
            base.clone_into(&mut self.base);
        }
        let tracks = Track::of(&answer.body);
        match tracks.is_empty() {
            true => Err(Refused::NoTrack { url: self.url.clone() }),
            false => Ok(Heard::Tracks(tracks)),
        }
    }

    fn was_set_up(&mut self, answer: &Answer) -> Result<Heard, Refused> {
        let refused = || Refused::NoSession { url: self.url.clone() };
        let mut session = answer.header("session").ok_or_else(refused)?.split(';').map(str::trim);
        let name = session.next().filter(|name| !name.is_empty()).ok_or_else(refused)?.to_owned();
        let timeout = session.find_map(|part| part.strip_prefix("timeout=")?.trim().parse().ok());
        let wish = self.wish.ok_or_else(refused)?;
        let lane = lane(answer.header("transport").unwrap_or_default(), wish).ok_or_else(refused)?;
        let keep_alive_s = f64::from(timeout.unwrap_or(TIMEOUT_S).max(2)) / 2.0;
        self.session = Some(name);
        Ok(Heard::Ready(SetUp { lane, keep_alive_s }))
    }

    fn ask(&mut self, request: Request, url: &str, headers: &str) -> Vec<u8> {
        self.sequence += 1;
        self.asked.push_back((self.sequence, request));
        let session = self.session.as_ref().map(|session| format!("Session: {session}\r\n"));
        format!(
            "{} {url} RTSP/1.0\r\nCSeq: {}\r\nUser-Agent: forebay\r\n{}{headers}\r\n",
            request.method(),
            self.sequence,
            session.unwrap_or_default()
        )
        .into_bytes()
    }
}

/// What the `Transport` header of an answer says (section 12.39); `None` where that is not what was asked for.
fn lane(transport: &str, wish: Wish) -> Option<Lane> {
    let mut parts = transport.split(';').map(str::trim);
    let over_tcp = parts.next()?.eq_ignore_ascii_case("RTP/AVP/TCP");
    let pair = |name: &str| {
        let value = parts.clone().find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?;
        let (first, second) = value.split_once('-').unwrap_or((value, value));
        Some((first.parse::<u16>().ok()?, second.parse::<u16>().ok()?))
    };
    match wish {
        Wish::Tcp { .. } => {
            let (media, reports) = pair("interleaved").filter(|_| over_tcp)?;
            Some(Lane::Tcp { media: media.try_into().ok()?, reports: reports.try_into().ok()? })
        }
        Wish::Udp { .. } => {
            (!over_tcp).then(|| Lane::Udp { reports: pair("server_port").map(|(_, reports)| reports) })
        }
    }
}

/// What the `RTP-Info` header of an answer says of its first track (section 12.33).
fn playing(answer: &Answer) -> Playing {
    let info = answer.header("rtp-info").unwrap_or_default();
    let first = info.split(',').next().unwrap_or_default();
    let value = |name: &str| {
        first.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')).map(str::trim)
    };
    Playing {
        sequence: value("seq").and_then(|number| number.parse().ok()),
        timestamp: value("rtptime").and_then(|number| number.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::track::Kind;

    const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\na=range:npt=0-60\r\n\
                       m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:stream=0\r\n";

    const TCP: Wish = Wish::Tcp { channel: 0 };

    fn answer(sequence: u32, headers: &[(&str, &str)], body: &str) -> Answer {
        let own = [("cseq".to_owned(), sequence.to_string())];
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Answer { status: 200, headers: own.into_iter().chain(headers).collect(), body: body.into() }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    fn described(wish: Wish) -> (Client, String) {
        let mut client = Client::new("rtsp://h:8554/film");
        let asked = text(client.describe());
        assert!(asked.starts_with("DESCRIBE rtsp://h:8554/film RTSP/1.0\r\nCSeq: 1\r\n"), "{asked}");
        assert!(asked.ends_with("\r\n\r\n"));
        let base = [("content-base", "rtsp://h:8554/film/")];
        let Heard::Tracks(tracks) = client.hear(&answer(1, &base, SDP)).unwrap() else { panic!() };
        assert_eq!((tracks[0].clock_hz, tracks[0].length_s), (90_000, Some(60.0)));
        let set_up = text(client.set_up(&tracks[0], wish));
        (client, set_up)
    }

    #[test]
    fn a_film_is_described_set_up_played_paused_and_ended() {
        let (mut client, set_up) = described(Wish::Udp { port: 5_000 });
        assert!(set_up.starts_with("SETUP rtsp://h:8554/film/stream=0 RTSP/1.0\r\n"), "{set_up}");
        assert!(set_up.contains("Transport: RTP/AVP;unicast;client_port=5000-5001\r\n"), "{set_up}");
        let agreed = [
            ("session", "ab12;timeout=30"),
            ("transport", "RTP/AVP;unicast;client_port=5000-5001;server_port=6000-6001;ssrc=1"),
        ];
        let ready = client.hear(&answer(2, &agreed, "")).unwrap();
        let lane = Lane::Udp { reports: Some(6_001) };
        let set_up = SetUp { lane, keep_alive_s: 15.0 };
        assert_eq!(ready, Heard::Ready(set_up));
        let play = text(client.play(12.5));
        assert!(play.contains("Session: ab12\r\n") && play.contains("Range: npt=12.500-\r\n"), "{play}");
        let info = [("rtp-info", "url=rtsp://h:8554/film/stream=0;seq=17;rtptime=99")];
        let plays = client.hear(&answer(3, &info, "")).unwrap();
        assert_eq!(plays, Heard::Plays(Playing { sequence: Some(17), timestamp: Some(99) }));
        let _ = client.pause();
        assert_eq!(client.hear(&answer(4, &[], "")).unwrap(), Heard::Paused);
        assert!(text(client.tear_down().unwrap()).starts_with("TEARDOWN rtsp://h:8554/film/ "));
    }

    #[test]
    fn each_track_is_set_up_in_the_session_of_the_first() {
        let mut client = Client::new("rtsp://h/film");
        let _ = client.describe();
        let sound = "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\na=control:stream=1\r\n";
        let both = answer(1, &[], &format!("{SDP}{sound}"));
        let Heard::Tracks(tracks) = client.hear(&both).unwrap() else { panic!() };
        assert_eq!(tracks.iter().map(|track| track.kind).collect::<Vec<_>>(), [Kind::Pictures, Kind::Sound]);
        let _ = client.set_up(&tracks[0], TCP);
        let agreed = [("session", "x"), ("transport", "RTP/AVP/TCP;unicast;interleaved=0-1")];
        assert!(matches!(client.hear(&answer(2, &agreed, "")), Ok(Heard::Ready(_))));
        let second = text(client.set_up(&tracks[1], Wish::Tcp { channel: 2 }));
        assert!(second.starts_with("SETUP rtsp://h/film/stream=1 RTSP/1.0\r\n"), "{second}");
        assert!(second.contains("Session: x\r\n") && second.contains("interleaved=2-3\r\n"), "{second}");
    }

    #[test]
    fn packets_on_the_connection_have_the_channels_that_the_server_says() {
        let (mut client, set_up) = described(TCP);
        assert!(set_up.contains("Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"), "{set_up}");
        let agreed = [("session", "x"), ("transport", "RTP/AVP/TCP;unicast;interleaved=4-5")];
        let Heard::Ready(set_up) = client.hear(&answer(2, &agreed, "")).unwrap() else { panic!() };
        assert_eq!(set_up.lane, Lane::Tcp { media: 4, reports: 5 });
    }

    #[test]
    fn a_server_that_sets_up_another_transport_is_refused() {
        for (wish, transport) in [
            (TCP, "RTP/AVP;unicast;client_port=5000-5001"),
            (Wish::Udp { port: 5_000 }, "RTP/AVP/TCP;interleaved=0-1"),
            (TCP, "RTP/AVP/TCP;interleaved=400-401"),
            (TCP, ""),
        ] {
            let (mut client, _) = described(wish);
            let agreed = [("session", "x"), ("transport", transport)];
            let refused = client.hear(&answer(2, &agreed, ""));
            assert!(matches!(refused, Err(Refused::NoSession { .. })), "{transport}: {refused:?}");
        }
    }

    #[test]
    fn refusals_are_told_and_a_refused_keep_alive_is_none() {
        let (mut client, _) = described(TCP);
        let refused = Answer { status: 454, ..answer(2, &[], "") };
        let sentence = client.hear(&refused).unwrap_err().to_string();
        assert_eq!(sentence, "the server answers 454 to SETUP rtsp://h:8554/film");
        let _ = client.keep_alive();
        assert_eq!(client.hear(&Answer { status: 501, ..answer(3, &[], "") }), Ok(Heard::Nothing));
        let mut client = Client::new("rtsp://h/x");
        let _ = client.describe();
        assert!(matches!(client.hear(&answer(1, &[], "v=0\r\n")), Err(Refused::NoTrack { .. })));
    }

    #[test]
    fn answers_that_nobody_asked_for_mean_nothing() {
        let (mut client, _) = described(TCP);
        assert_eq!(client.hear(&answer(1, &[], "")), Ok(Heard::Nothing));
        let mut client = Client::new("rtsp://h/x");
        assert_eq!(client.hear(&answer(1, &[], "")), Ok(Heard::Nothing));
    }
}
