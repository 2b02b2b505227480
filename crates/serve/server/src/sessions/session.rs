//! What the server knows of a session beside its stream: its files, where its packets go, and what it waits for.

use std::iter::Peekable;
use std::net::IpAddr;
use std::sync::Arc;

use forebay_rtsp::replay::Replay;
use forebay_rtsp::rtcp::Schedule;
use forebay_rtsp::server::{QuestionId, SessionId};
use forebay_streaming::course::Course;
use forebay_streaming::depth::Share;
use forebay_streaming::stream::{Counts, Next, Stream};

use crate::catalog::Opened;
use crate::clock;
use crate::pace::Pace;
use crate::rtcp_reports::TrackReception;
use crate::transport::TrackTransport;

/// A session's place, and a part of its life. A seek begins another part: timers and buffers of the part before do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub place: usize,
    pub life: u64,
}

/// The least time between sentences on how slow a client is.
const SLOWNESS_NS: u64 = 5_000_000_000;

/// One session.
pub(crate) struct Session {
    pub id: SessionId,
    pub(super) key: Key,
    /// The address that has set it up.
    pub client: IpAddr,
    pub viewer: Option<Viewer>,
    /// When it was set up.
    pub begun_ns: u64,
    pub opened: Arc<Opened>,
    pub stream: Stream,
    /// By the numbers of tracks.
    pub transports: Vec<(usize, TrackTransport)>,
    /// What comes after the last buffer.
    pub program: Option<Box<Peekable<Course>>>,
    /// The tracks that it is of.
    pub program_tracks: Vec<usize>,
    pub share: Option<Share>,
    /// What is sent of it at its pace.
    pub bytes_per_second: u64,
    /// The next buffer is the first since a seek: a small one, so that playing begins soon.
    pub is_beginning: bool,
    /// How large the last buffer was to be.
    pub asked_bytes: u64,
    /// How long before it is missed the next buffer is asked for.
    pub lead_ns: u64,
    /// Whether it is among those that were stopped.
    pub is_stopped: bool,
    /// The question of a PLAY that waits for its first buffer.
    pub cue: Option<Cue>,
    /// A PLAY that waits until the index of its file has come so far.
    pub deferred: Option<(QuestionId, Part)>,
    /// When its file is asked for more again.
    pub waits_until_ns: u64,
    /// Where it was stopped.
    pub stopped_ns: Option<u64>,
    pub until_ns: Option<u64>,
    pub pace: Pace,
    /// When it was first played: its clocks have run since.
    pub epoch_ns: Option<u64>,
    pub next: Next,
    /// When its timer rings.
    pub(super) timer_ns: Option<u64>,
    pub report_ns: Option<u64>,
    pub reports: Schedule,
    /// How its tracks are received, as far as its client has said.
    pub receptions: Vec<TrackReception>,
    /// Until when no other sample is complained about: a damaged file is not to fill the log.
    pub uncomplaining_ns: u64,
    /// What was said of samples that were left out, and until when no more is said.
    told: Counts,
    told_until_ns: u64,
    /// When to say that nothing more comes.
    pub bye_ns: Option<u64>,
}

/// Who has set up a session, and for what.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub user: Option<String>,
    /// The client's program.
    pub agent: Option<String>,
    /// What followed the question mark.
    pub query: String,
}

/// What a client wants played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub from_ns: Option<u64>,
    pub until_ns: Option<u64>,
    pub scale: f64,
    pub speed: f64,
    pub replay: Option<Replay>,
}

impl Part {
    /// Whether it goes backwards: only replays do.
    pub fn is_backwards(&self) -> bool {
        self.scale < 0.0 && self.replay.is_some()
    }
}

/// A PLAY that will be answered when there is something to play.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cue {
    pub question: QuestionId,
    pub from_ns: u64,
    pub speed: f64,
    pub replay: Option<Replay>,
}

impl Session {
    pub fn new(id: SessionId, key: Key, client: IpAddr, opened: Arc<Opened>, buffers: usize) -> Self {
        let bits_per_second = opened.bytes_per_second() * 8;
        Self {
            id,
            key,
            client,
            viewer: None,
            begun_ns: clock::now_ns(),
            opened,
            stream: Stream::new(buffers),
            transports: Vec::new(),
            program: None,
            program_tracks: Vec::new(),
            share: None,
            bytes_per_second: 0,
            is_beginning: true,
            asked_bytes: 0,
            lead_ns: 0,
            is_stopped: false,
            cue: None,
            deferred: None,
            waits_until_ns: 0,
            stopped_ns: None,
            until_ns: None,
            pace: Pace::USUAL,
            epoch_ns: None,
            next: Next::Buffer,
            timer_ns: None,
            report_ns: None,
            reports: Schedule::new(bits_per_second),
            receptions: Vec::new(),
            uncomplaining_ns: 0,
            told: Counts::default(),
            told_until_ns: 0,
            bye_ns: None,
        }
    }

    /// Its place, and the part of its life that it is in.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Where the packets of a track go.
    pub fn transport(&self, track: usize) -> Option<&TrackTransport> {
        self.transports.iter().find(|(number, _)| *number == track).map(|(_, transport)| transport)
    }

    /// The tracks that are still to be sent.
    pub fn tracks(&self) -> Vec<usize> {
        let senders = self.stream.senders().iter().filter(|sender| !sender.is_released());
        senders.map(|sender| sender.setup().track).collect()
    }

    /// Whether it is being sent.
    pub fn is_playing(&self) -> bool {
        self.stream.position_ns(0).is_some()
    }

    /// Whether nothing is sent, nor will be without another PLAY.
    pub fn is_idle(&self) -> bool {
        !self.is_playing() && self.cue.is_none()
    }

    /// What its client was too slow for since this was last said, as a sentence.
    pub fn take_slowness(&mut self, now_ns: u64) -> Option<String> {
        let counts = self.stream.counts();
        let dropped = counts.dropped - self.told.dropped;
        if dropped == 0 || now_ns < self.told_until_ns {
            return None;
        }
        let sound = counts.dropped_sound - self.told.dropped_sound;
        (self.told, self.told_until_ns) = (counts, now_ns + SLOWNESS_NS);
        Some(format!(
            "{}: {} is too slow: {} pictures and {sound} samples of sound were left out; --late gives clients more time",
            self.opened.path,
            self.client,
            dropped - sound
        ))
    }

    /// Makes the next PLAY seek, even if it is to go on.
    pub fn forget_program(&mut self) {
        self.program = None;
        self.program_tracks.clear();
    }

    /// When to have a buffer filled; `None` unless one is wanted.
    pub fn wish_ns(&self) -> Option<u64> {
        let wish_ns = self.program.as_ref().and_then(|_| self.stream.wish_ns(self.lead_ns));
        wish_ns.map(|wish_ns| wish_ns.max(self.waits_until_ns))
    }

    /// When it is to be looked at again, as things stand.
    pub fn due_ns(&self) -> Option<u64> {
        let next_ns = match self.next {
            Next::At(ns) => Some(ns),
            Next::Buffer | Next::Room | Next::End => None,
        };
        // What is due a little later will do: thousands of buffers are not worth waking up for.
        let is_soon = |wish_ns: u64| next_ns.is_some_and(|ns| ns <= wish_ns.saturating_add(self.lead_ns / 4));
        let wish_ns = self.wish_ns().filter(|wish_ns| !is_soon(*wish_ns));
        let retry_ns = self.deferred.as_ref().map(|_| self.waits_until_ns);
        [next_ns, wish_ns, retry_ns, self.report_ns, self.bye_ns].into_iter().flatten().min()
    }
}
