//! One session's packets: which part of a buffer is drained, when the next buffer is wanted, and which packets are due.

mod sender;

use std::collections::VecDeque;

use forebay_rtsp::packetise::{Packet, Sample, Unsendable};
use forebay_rtsp::presentation::ticks;
use forebay_rtsp::rtcp::Sent;

use crate::buffer::{Buffer, Held, Part};
use crate::lateness::Lateness;
use crate::program::Edges;
use crate::room::{Lag, Room};
use crate::schedule::Schedule;

pub use sender::{Replay, Setup, TrackSender};

/// A stream that is later than this does not catch up: it goes on from where it is, as after a pause.
const CATCH_UP_NS_MAX: u64 = 2_000_000_000;
/// Buffers that come this much too late are counted as stalls.
const STALL_NS_MIN: u64 = 1_000_000;
/// How much earlier than when it is due a sample may go, in a packet of others.
const BUNDLE_NS_MAX: i64 = 60_000_000;
/// Samples in such a packet.
const BUNDLE_MAX: usize = 4;

/// Packets of one track that are to be sent now.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Which track, as its number among the senders.
    pub sender: usize,
    /// At least one.
    pub packets: &'a [Packet],
    /// What they are made of.
    pub buffer: &'a [u8],
}

/// What a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Call [`Stream::advance`] at this time.
    At(u64),
    /// The client has to take what was sent.
    Room,
    /// A buffer has to be filled.
    Buffer,
    /// All has been sent.
    End,
}

/// What happened to a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Samples that were left out because the client was slow.
    pub dropped: u64,
    /// Of these, samples of sound.
    pub dropped_sound: u64,
    /// How late a sample was at most that had waited for the client, in nanoseconds.
    pub late_ns_max: u64,
    /// How often the next buffer was not there when it was due.
    pub stalls: u64,
    /// For how long, in nanoseconds.
    pub stalled_ns: u64,
    /// Samples that could not be sent, because the file is damaged or they are too long.
    pub damaged: u64,
}

impl Counts {
    /// Those of another stream.
    pub fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
        self.dropped_sound += other.dropped_sound;
        self.late_ns_max = self.late_ns_max.max(other.late_ns_max);
        self.stalls += other.stalls;
        self.stalled_ns += other.stalled_ns;
        self.damaged += other.damaged;
    }
}

/// The sending half of a session.
#[derive(Debug)]
pub struct Stream {
    senders: Vec<TrackSender>,
    buffers_max: usize,
    drained: Option<Part>,
    next_sample: usize,
    ready: VecDeque<Part>,
    /// Parts that are not needed.
    over: Vec<Part>,
    is_filling: bool,
    has_last: bool,
    is_starved: bool,
    /// The file has had nothing for the buffer that was wanted.
    waits_for_file: bool,
    lag: Lag,
    from_ns: u64,
    rate: f64,
    /// How the clocks of its tracks run against the file: backwards for numbers below 0.
    scale: f64,
    /// How they run against time.
    speed: f64,
    is_backwards: bool,
    replay: Option<Replay>,
    /// Up to where samples have been sent.
    passed_ns: i64,
    schedule: Option<Schedule>,
    counts: Counts,
    complaint: Option<Unsendable>,
    /// Empty but while packets are made.
    samples: Vec<Sample>,
}

impl Stream {
    /// One with so many buffers (at least one) that has nothing to send yet.
    pub fn new(buffers_max: usize) -> Self {
        Self {
            senders: Vec::new(),
            buffers_max: buffers_max.max(1),
            drained: None,
            next_sample: 0,
            ready: VecDeque::new(),
            over: Vec::new(),
            is_filling: false,
            has_last: false,
            is_starved: false,
            waits_for_file: false,
            lag: Lag::default(),
            from_ns: 0,
            rate: 1.0,
            scale: 1.0,
            speed: 1.0,
            is_backwards: false,
            replay: None,
            passed_ns: 0,
            schedule: None,
            counts: Counts::default(),
            complaint: None,
            samples: Vec::new(),
        }
    }

    /// One track more.
    pub fn add_sender(&mut self, setup: Setup) {
        self.senders.reserve_exact(1);
        self.senders.push(TrackSender::new(setup));
    }

    /// Nothing more of a track is sent.
    pub fn release(&mut self, track: usize) {
        self.senders
            .iter_mut()
            .filter(|sender| sender.setup.track == track)
            .for_each(|sender| sender.is_released = true);
    }

    /// Forgets tracks that were released. What is in buffers would be of wrong tracks then: it is given up.
    pub fn drop_released(&mut self) -> bool {
        let count = self.senders.len();
        self.senders.retain(|sender| !sender.is_released);
        self.senders.len() < count
    }

    /// Its tracks, in the order in which programs are to number them.
    pub fn senders(&self) -> &[TrackSender] {
        &self.senders
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Samples will never come, as they are longer than what is sent.
    pub fn note_damaged(&mut self, samples: u64) {
        self.counts.damaged += samples;
    }

    /// Why a sample was left out, if one was since this was last asked.
    pub fn take_complaint(&mut self) -> Option<Unsendable> {
        self.complaint.take()
    }

    /// Empties all buffers, for another part of the program. What is being filled will be of no use.
    pub fn empty(&mut self) {
        self.stop();
        self.over.extend(self.drained.take().into_iter().chain(self.ready.drain(..)));
        self.senders.iter_mut().for_each(TrackSender::clear);
        self.next_sample = 0;
        (self.is_filling, self.has_last, self.is_starved) = (false, false, false);
        self.waits_for_file = false;
    }

    /// Parts whose memory others may have.
    pub fn take_over(&mut self) -> impl Iterator<Item = Part> {
        self.over.drain(..)
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.drained.iter().chain(&self.ready)
    }

    /// What buffers take of memory.
    pub fn memory_bytes(&self) -> usize {
        self.parts().map(Part::room).sum()
    }

    /// How many filled buffers there are, with the one that is drained.
    pub fn level(&self) -> usize {
        self.parts().filter(|part| part.ends_buffer()).count()
    }

    /// When to have a buffer filled, as things stand; `None` unless one is wanted. The last one that is empty is filled no
    /// sooner than `lead_ns` before the first one has been sent, as there is no use for its memory before.
    pub fn wish_ns(&self, lead_ns: u64) -> Option<u64> {
        let level = self.level();
        if self.is_filling || self.has_last || level >= self.buffers_max {
            return None;
        }
        let is_last = level > 0 && level + 1 == self.buffers_max;
        let Some(first) = self.parts().find(|part| is_last && part.ends_buffer()) else { return Some(0) };
        let end = first.samples().last()?;
        Some(self.schedule?.due_ns(end.decode_ns).saturating_sub(lead_ns))
    }

    /// A buffer is going to be filled.
    pub fn begin_filling(&mut self) {
        self.is_filling = true;
    }

    /// There is nothing to fill the buffer with yet, since the file itself has no more. What comes then is sent as if it was due
    /// only then.
    pub fn wait_for_file(&mut self) {
        (self.is_filling, self.waits_for_file) = (false, true);
    }

    /// A buffer is filled.
    pub fn put_filled(&mut self, buffer: Buffer) {
        self.is_filling = false;
        self.has_last = buffer.is_last();
        self.ready.extend(buffer.into_parts());
    }

    /// When a buffer that is being filled has to be there; `None` while nothing is sent.
    pub fn runs_dry_ns(&self) -> Option<u64> {
        let last = self.ready.back().or(self.drained.as_ref()).and_then(|part| part.samples().last());
        // One that is starved already has had to have it. Where all is due at once, nothing is missed.
        self.schedule
            .filter(|_| self.is_paced())
            .map(|schedule| last.map_or(0, |last| schedule.due_ns(last.decode_ns)))
    }

    /// What comes first in the filled buffers: when it is to be decoded.
    fn first_ns(&self) -> Option<i64> {
        let drained = self.drained.iter().map(|part| &part.samples()[self.next_sample..]);
        let mut samples = drained.chain(self.ready.iter().map(Part::samples)).flatten();
        samples.next().map(|sample| sample.decode_ns)
    }

    /// Whether there is something to begin with, or nothing will ever be.
    pub fn is_ready(&self) -> bool {
        self.first_ns().is_some() || self.has_last
    }

    /// Has the next part of it be a replay, or not; before [`Stream::cue`].
    pub fn set_replay(&mut self, replay: Option<Replay>) {
        self.replay = replay;
    }

    /// Whether samples have their times.
    fn is_paced(&self) -> bool {
        self.replay.is_none_or(|replay| replay.is_paced)
    }

    /// What is played next is at `from_ns` of the file; `timestamp_ns` have passed on the clocks of its tracks. Positions
    /// pass `scale` times as fast as time does on those clocks, and are sent `speed` times as fast as that. Backwards, `scale`
    /// is below 0. Where samples have no times, clocks say where in the file they are.
    pub fn cue(&mut self, from_ns: u64, timestamp_ns: u64, scale: f64, speed: f64) {
        (self.from_ns, self.is_backwards) = (from_ns, scale < 0.0);
        let is_paced = self.is_paced();
        let endless = (f64::INFINITY, 1.0, 1.0);
        (self.rate, self.scale, self.speed) =
            if is_paced { (scale.abs() * speed, scale, speed) } else { endless };
        self.passed_ns = self.in_program(from_ns);
        let elapsed_ns = if is_paced { timestamp_ns } else { from_ns };
        for sender in &mut self.senders {
            let elapsed = ticks(elapsed_ns, sender.setup.clock_rate) as u32;
            sender.anchor = sender.setup.timestamp.wrapping_add(elapsed);
            sender.packetiser.extend(self.replay.is_some());
            sender.is_apart = true;
        }
    }

    /// A position of the file in the program, which counts down backwards.
    fn in_program(&self, position_ns: u64) -> i64 {
        let position_ns = i64::try_from(position_ns).unwrap_or(i64::MAX);
        if self.is_backwards { -position_ns } else { position_ns }
    }

    /// Begins to send.
    pub fn start(&mut self, now_ns: u64) {
        let first_ns = self.first_ns().unwrap_or(self.in_program(self.from_ns));
        self.schedule = Some(Schedule::new(now_ns, first_ns, self.rate));
        self.lag = Lag::default();
    }

    /// Stops, and has what was begun sent to its end now. What has not been sent stays.
    pub fn stop(&mut self) {
        self.schedule = None;
        self.senders.iter_mut().for_each(TrackSender::hurry);
    }

    /// Where it is; `None` unless it is being sent.
    pub fn position_ns(&self, now_ns: u64) -> Option<u64> {
        let schedule = self.schedule?;
        let passed_ns = if self.is_paced() { schedule.position_ns(now_ns) } else { self.passed_ns };
        let position_ns = if self.is_backwards { passed_ns.saturating_neg() } else { passed_ns };
        Some(position_ns.max(0) as u64)
    }

    /// Makes the packets that are due by now, as far as there is room: [`Stream::bursts`]. The rest waits for room. Samples that
    /// waited for too long are left out, whole, and so are those that need them.
    pub fn advance(&mut self, now_ns: u64, room: Room) -> Next {
        if room.bytes > 0
            && let Some(pause_ns) = self.lag.unblock(now_ns)
            && let Some(schedule) = &mut self.schedule
        {
            schedule.delay(pause_ns);
        }
        let Some(schedule) = self.schedule else { return Next::Buffer };
        let mut left_bytes = room.bytes;
        self.senders.iter_mut().for_each(|sender| sender.go_on(now_ns));
        loop {
            let Some(part) = &self.drained else {
                match self.ready.pop_front() {
                    Some(part) => self.drain(part, now_ns),
                    None if self.has_last => return Next::End,
                    None => {
                        self.is_starved = true;
                        return Next::Buffer;
                    }
                }
                continue;
            };
            let Some(sample) = part.samples().get(self.next_sample) else {
                if !self.is_drained() {
                    return self.wait_to_swap(&schedule, now_ns);
                }
                self.release_drained();
                continue;
            };
            let due_ns = self.schedule.unwrap_or(schedule).due_ns(sample.decode_ns);
            if due_ns > now_ns {
                self.lag.catch_up();
                return Next::At(self.senders_due_ns().min(due_ns));
            }
            if left_bytes == 0 {
                self.lag.block(now_ns);
                return Next::Room;
            }
            let bytes = self.packetise_next(now_ns, due_ns, room);
            self.lag.give(bytes);
            left_bytes = left_bytes.saturating_sub(bytes);
        }
    }

    /// What to wait for while the last packets of a part are sent.
    fn wait_to_swap(&mut self, schedule: &Schedule, now_ns: u64) -> Next {
        let after = self.ready.front().and_then(|part| part.samples().first());
        let after_ns = after.map(|sample| schedule.due_ns(sample.decode_ns));
        match (after_ns, self.senders_due_ns()) {
            // Only now, and not before its time, may another part's sample hurry what is left of this one.
            (Some(after_ns), _) if after_ns <= now_ns => {
                self.senders.iter_mut().for_each(TrackSender::hurry);
                Next::At(now_ns)
            }
            (Some(after_ns), paced_ns) => Next::At(after_ns.min(paced_ns)),
            (None, u64::MAX) if self.has_last => Next::End,
            (None, u64::MAX) => {
                self.is_starved = true;
                Next::Buffer
            }
            (None, paced_ns) => Next::At(paced_ns),
        }
    }

    /// Takes another part into use.
    fn drain(&mut self, part: Part, now_ns: u64) {
        let first_ns = part.samples().first().map(|sample| sample.decode_ns);
        let is_paced = self.is_paced();
        if let (Some(schedule), Some(first_ns), true) = (&mut self.schedule, first_ns, is_paced) {
            let late_ns = now_ns.saturating_sub(schedule.due_ns(first_ns));
            let was_starved = std::mem::take(&mut self.is_starved);
            let has_waited = std::mem::take(&mut self.waits_for_file) && was_starved;
            // The client had taken all that there was.
            if has_waited {
                self.lag.catch_up();
            }
            let is_starved = was_starved && !self.lag.is_behind();
            if has_waited {
                schedule.delay(late_ns);
            } else if is_starved && late_ns >= STALL_NS_MIN {
                self.counts.stalls += 1;
                self.counts.stalled_ns += late_ns;
            }
            // What is late for its client's sake is left out by its age.
            if late_ns > CATCH_UP_NS_MAX && !self.lag.is_behind() && !has_waited {
                schedule.delay(late_ns);
            }
        }
        self.drained = Some(part);
        self.next_sample = 0;
        self.senders.iter_mut().for_each(|sender| sender.bundled = 0);
    }

    /// Returns how many bytes there are to send of the next sample.
    fn packetise_next(&mut self, now_ns: u64, due_ns: u64, room: Room) -> usize {
        let Some(part) = &self.drained else { return 0 };
        let held = part.samples()[self.next_sample];
        let later = &part.samples()[self.next_sample + 1..];
        self.next_sample += 1;
        self.passed_ns = held.decode_ns;
        let (is_paced, replay) = (self.is_paced(), self.replay);
        let due_ns = if is_paced { due_ns } else { now_ns };
        let Some(sender) = self.senders.get_mut(usize::from(held.sender)) else { return 0 };
        if sender.is_released || self.next_sample <= sender.bundled {
            return 0;
        }
        let is_predicted_only = replay.is_some_and(|replay| replay.is_predicted_only);
        if is_predicted_only
            && held.edges == Edges::default()
            && sender.packetiser.is_disposable(part.bytes(), held.at())
        {
            return 0;
        }
        let late_ns = if self.lag.is_behind() { now_ns.saturating_sub(due_ns) } else { 0 };
        let is_sound = !sender.setup.is_video && !sender.setup.needs_sync;
        // What needs a picture comes after it, and would be too late if that one takes long.
        let is_needed = sender.setup.needs_sync && held.is_sync;
        let done_ns = late_ns + if is_needed { self.lag.takes_ns(held.at().len()) } else { 0 };
        if done_ns > room.late_max_ns(is_sound) || (sender.waits_for_sync && !held.is_sync) {
            sender.waits_for_sync = sender.setup.needs_sync;
            sender.is_apart = true;
            self.counts.dropped += 1;
            self.counts.dropped_sound += u64::from(is_sound);
            return 0;
        }
        self.counts.late_ns_max = self.counts.late_ns_max.max(late_ns);
        sender.waits_for_sync = false;
        sender.hurry();
        let mut all_later = later.iter().chain(self.ready.iter().flat_map(Part::samples));
        if let Some(after) = all_later.find(|one| one.sender == held.sender) {
            let interval_ns = after.decode_ns.saturating_sub(held.decode_ns).max(0) as f64 / self.rate;
            sender.interval_ns = interval_ns as u64;
        }
        let from = ticks(self.from_ns, sender.setup.clock_rate) as u32;
        let timestamp = |held: &Held| {
            // What is presented before the position has a timestamp before.
            let since = held.ticks.wrapping_sub(from) as i32;
            let since = if self.scale == 1.0 { since } else { (f64::from(since) / self.scale) as i32 };
            sender.anchor.wrapping_add(since as u32)
        };
        let sample = |held: &Held| Sample { at: held.at(), timestamp: timestamp(held) };
        self.samples.push(sample(&held));
        // A sample with a mark has a packet of its own.
        if sender.setup.is_bundled && replay.is_none() {
            let end_ns = held.decode_ns.saturating_add(BUNDLE_NS_MAX);
            let close = later.iter().take_while(|one| one.decode_ns < end_ns).enumerate();
            for (distance, one) in close.filter(|(_, one)| one.sender == held.sender).take(BUNDLE_MAX - 1) {
                self.samples.push(sample(one));
                sender.bundled = self.next_sample + distance + 1;
            }
        }
        let before = sender.packets.len();
        if let Err(error) = sender.packetiser.packetise(part.bytes(), &self.samples, &mut sender.packets) {
            self.counts.damaged += 1;
            self.complaint = Some(error);
        }
        self.samples.clear();
        if let Some(replay) = replay {
            let position_ns =
                if self.is_backwards { held.decode_ns.saturating_neg() } else { held.decode_ns };
            sender.mark(before, &held, position_ns, replay);
        }
        // The server is as punctual as its client lets it be.
        sender.plan(before, now_ns, due_ns + late_ns);
        sender.packets[before..].iter().map(Packet::bytes).sum()
    }

    fn senders_due_ns(&self) -> u64 {
        let due_ns = self.senders.iter().filter_map(|sender| sender.paced.map(|(due_ns, _)| due_ns));
        due_ns.min().unwrap_or(u64::MAX)
    }

    fn is_drained(&self) -> bool {
        self.senders.iter().all(|sender| sender.sent == sender.packets.len())
    }

    fn release_drained(&mut self) {
        self.senders.iter_mut().for_each(TrackSender::clear);
        self.over.extend(self.drained.take());
    }

    /// What is to be sent now.
    pub fn bursts(&self) -> impl Iterator<Item = Burst<'_>> {
        let buffer = self.drained.as_ref().map_or(&[][..], Part::bytes);
        self.senders.iter().enumerate().filter_map(move |(number, sender)| {
            let packets = &sender.packets[sender.sent..sender.until];
            (!packets.is_empty()).then_some(Burst { sender: number, packets, buffer })
        })
    }

    /// That has been sent.
    pub fn has_sent(&mut self, now_ns: u64, lateness: &mut Lateness) {
        for sender in self.senders.iter_mut().filter(|sender| sender.sent < sender.until) {
            let packets = &sender.packets[sender.sent..sender.until];
            let bytes: usize = packets.iter().map(Packet::bytes).sum();
            lateness.note(now_ns.saturating_sub(sender.due_ns));
            self.counts.packets += packets.len() as u64;
            self.counts.bytes += bytes as u64;
            // Both wrap around.
            sender.packet_count = sender.packet_count.wrapping_add(packets.len() as u32);
            let payload_bytes: usize = packets.iter().map(Packet::payload_bytes).sum();
            sender.payload_bytes = sender.payload_bytes.wrapping_add(payload_bytes as u32);
            sender.sent = sender.until;
            if sender.sent == sender.packets.len() {
                sender.clear();
            }
        }
        let is_exhausted = self.drained.as_ref().is_some_and(|part| self.next_sample >= part.samples().len());
        if is_exhausted && self.is_drained() {
            self.release_drained();
        }
    }

    /// What sender reports say now, by sender; nothing unless it is being sent.
    pub fn reports(&self, now_ns: u64, unix_ns: u64) -> impl Iterator<Item = (usize, Sent)> {
        let senders = self.senders.iter().enumerate().filter(|(_, sender)| !sender.is_released);
        self.schedule.into_iter().flat_map(move |schedule| {
            senders.clone().map(move |(number, sender)| {
                let rate = (f64::from(sender.setup.clock_rate) * self.speed).round() as u32;
                let from_ns = self.in_program(self.from_ns);
                let clock = schedule.clock(from_ns, sender.anchor, rate, now_ns, unix_ns);
                let sent = Sent {
                    ssrc: sender.setup.ssrc,
                    unix_ns,
                    timestamp: clock.timestamp_at(unix_ns),
                    packets: sender.packet_count,
                    payload_bytes: sender.payload_bytes,
                };
                (number, sent)
            })
        })
    }
}
