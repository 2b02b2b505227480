//! What one camera sends, from some time on.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use forebay_rtsp::packetise::Packet;
use forebay_rtsp::presentation::ticks;
use forebay_rtsp::range::SECOND_NS;
use forebay_rtsp::rtcp::Sent;

use crate::events::{Departure, Event, Numbered, What};
use crate::plan::{Camera, REPORT_NS};

/// Packets that leave together: what a camera's port of 100 Mbit/s sends in [`CHUNK_NS`].
const CHUNK_PACKETS: usize = 32;
const CHUNK_NS: u64 = 4_000_000;
/// How far ahead the packet is looked for that a new viewer's stream begins with.
const AHEAD_NS_MAX: u64 = 20 * SECOND_NS;

/// The events of a camera in the order of their times. It can be entered at any time, and gives the same events there.
#[derive(Clone)]
pub struct Timeline {
    camera: Arc<Camera>,
    round: u64,
    place: usize,
    sent: Vec<Counts>,
    /// Samples leave in order: none before this time.
    latest_ns: u64,
    report_ns: u64,
    drop_ns: Option<u64>,
    /// Events before this time are of no interest.
    from_ns: u64,
    pending: BinaryHeap<Reverse<Event>>,
}

/// What was sent of a track, lost packets included.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// From the first round of the film on: numbers of packets go on from there.
    packets: u64,
    /// From the epoch on.
    since_epoch: u64,
    payload_bytes: u64,
}

impl Timeline {
    /// From the epoch on.
    pub fn new(camera: Arc<Camera>) -> Self {
        let film = &camera.film;
        let place = film.place_at(camera.phase_ns);
        let sent = (0..film.tracks().len())
            .map(|track| Counts { packets: film.before(track, place).0, ..Counts::default() });
        let (sent, report_ns, drop_ns) = (sent.collect(), camera.report_ns, camera.faults.drop_from(0));
        let (round, place) = if place < film.samples().len() { (0, place) } else { (1, 0) };
        let pending = BinaryHeap::new();
        Self { camera, round, place, sent, latest_ns: 0, report_ns, drop_ns, from_ns: 0, pending }
    }

    /// The camera that it is of.
    pub fn camera(&self) -> &Arc<Camera> {
        &self.camera
    }

    /// Goes on to a time; never back.
    pub fn skip_to(&mut self, at_ns: u64) {
        if at_ns <= self.from_ns {
            return;
        }
        self.from_ns = at_ns;
        // What was to leave before may be late.
        let film = &self.camera.film;
        let lookback_ns = self.camera.faults.late_ns_max() + film.round_ns().min(2 * SECOND_NS);
        let start_ns = at_ns.saturating_sub(lookback_ns);
        if !self.camera.faults.may_omit() {
            self.jump_to(start_ns);
        }
        self.pending.retain(|event| event.0.at_ns >= at_ns);
        while self.horizon_ns() < start_ns {
            self.advance();
        }
    }

    /// Goes on to the first sample at a time or after, without a look at those between: all of them are sent.
    fn jump_to(&mut self, start_ns: u64) {
        let film = self.camera.film.clone();
        let position_ns = self.camera.position_ns(start_ns);
        let (round, place) = (position_ns / film.round_ns(), film.place_at(position_ns % film.round_ns()));
        if (round, place) <= (self.round, self.place) {
            return;
        }
        for (track, sent) in self.sent.iter_mut().enumerate() {
            let of_film = &film.tracks()[track];
            let total = |round: u64, place| {
                let (packets, bytes) = film.before(track, place);
                (round * of_film.packets + packets, round * of_film.payload_bytes + bytes)
            };
            let (from, to) = (total(self.round, self.place), total(round, place));
            sent.packets += to.0 - from.0;
            sent.since_epoch += to.0 - from.0;
            sent.payload_bytes += to.1 - from.1;
        }
        (self.round, self.place) = if place < film.samples().len() { (round, place) } else { (round + 1, 0) };
        // Samples between are late by themselves at most, and that is looked back for.
        self.latest_ns = 0;
        self.report_ns += start_ns.saturating_sub(self.report_ns).div_ceil(REPORT_NS) * REPORT_NS;
        self.drop_ns = self.camera.faults.drop_from(start_ns);
    }

    /// The next event at `until_ns` or before.
    pub fn next(&mut self, until_ns: u64) -> Option<Event> {
        loop {
            let horizon_ns = self.horizon_ns();
            let first_ns = self.pending.peek().map(|event| event.0.at_ns);
            if let Some(first_ns) = first_ns.filter(|first_ns| *first_ns < horizon_ns) {
                return if first_ns <= until_ns { self.pending.pop().map(|event| event.0) } else { None };
            }
            if horizon_ns > until_ns {
                return None;
            }
            self.advance();
        }
    }

    /// When to ask for the next event.
    pub fn due_ns(&self) -> u64 {
        let first_ns = self.pending.peek().map_or(u64::MAX, |event| event.0.at_ns);
        first_ns.min(self.horizon_ns())
    }

    /// The sequence number that each track's packets begin with for a viewer that joins now; `None` where that is too far ahead.
    pub fn first_sequences(&self) -> Vec<Option<u16>> {
        let mut ahead = self.clone();
        let until_ns = self.due_ns().saturating_add(AHEAD_NS_MAX);
        let mut first = vec![None; self.sent.len()];
        while first.contains(&None) {
            let Some(event) = ahead.next(until_ns) else { break };
            let What::Packets(departure) = event.what else { continue };
            let needs_sync = self.camera.film.tracks()[departure.track].needs_sync;
            if departure.begins && (departure.is_sync || !needs_sync) {
                let sequence = self.camera.sources[departure.track].sequence;
                let number = sequence.wrapping_add(departure.first as u16);
                first[departure.track].get_or_insert(number);
            }
        }
        first
    }

    /// Whether viewers of a track have to begin at a key frame.
    pub fn needs_sync(&self, track: usize) -> bool {
        self.camera.film.tracks()[track].needs_sync
    }

    /// Packets as they are sent.
    pub fn packets(&self, departure: &Departure, to: &mut Vec<Packet>) {
        let source = &self.camera.sources[departure.track];
        to.extend(departure.packets.iter().map(|one| {
            let packet = self.camera.film.packet(one.packet);
            packet.of_source(source.ssrc, one.sequence, departure.timestamp)
        }));
    }

    /// No event that has not been made is earlier.
    fn horizon_ns(&self) -> u64 {
        self.next_sample_ns().min(self.report_ns).min(self.drop_ns.unwrap_or(u64::MAX))
    }

    fn next_sample_ns(&self) -> u64 {
        let film = &self.camera.film;
        self.camera.time_ns(self.round * film.round_ns() + film.samples()[self.place].at_ns)
    }

    /// Makes the events of the next drop, report or sample.
    fn advance(&mut self) {
        let sample_ns = self.next_sample_ns();
        match self.drop_ns {
            Some(drop_ns) if drop_ns <= sample_ns.min(self.report_ns) => {
                self.drop_ns = self.camera.faults.drop_from(drop_ns + 1);
                self.add(drop_ns, What::Drop);
            }
            _ if self.report_ns <= sample_ns => self.report(),
            _ => self.sample(sample_ns),
        }
    }

    fn add(&mut self, at_ns: u64, what: What) {
        if at_ns >= self.from_ns {
            self.pending.push(Reverse(Event { at_ns, what }));
        }
    }

    fn report(&mut self) {
        let at_ns = self.report_ns;
        self.report_ns += REPORT_NS;
        if at_ns < self.from_ns || self.camera.faults.is_frozen(at_ns) {
            return;
        }
        for (track, counts) in self.sent.clone().into_iter().enumerate() {
            let sent = Sent {
                ssrc: self.camera.sources[track].ssrc,
                unix_ns: self.camera.unix_ns(at_ns),
                timestamp: self.camera.timestamp(track, at_ns),
                packets: counts.since_epoch as u32,
                payload_bytes: counts.payload_bytes as u32,
            };
            self.add(at_ns, What::Report { track, sent });
        }
    }

    /// The next sample, or nothing if it is not sent.
    fn sample(&mut self, base_ns: u64) {
        let camera = self.camera.clone();
        let film = &camera.film;
        let number = self.round * film.samples().len() as u64 + self.place as u64;
        let (sample, round) = (&film.samples()[self.place], self.round);
        self.place += 1;
        if self.place == film.samples().len() {
            (self.place, self.round) = (0, self.round + 1);
        }
        let faults = &camera.faults;
        let needs_sync = film.tracks()[sample.track].needs_sync;
        if faults.omit(base_ns, number, needs_sync, sample.is_sync) {
            return;
        }
        let counts = &mut self.sent[sample.track];
        let first = counts.packets;
        counts.packets += sample.packets.len() as u64;
        counts.since_epoch += sample.packets.len() as u64;
        counts.payload_bytes += sample.payload_bytes;
        self.latest_ns = self.latest_ns.max(base_ns + faults.jitter_ns(base_ns, number));
        if self.latest_ns + sample.room_ns + faults.late_ns_max() < self.from_ns {
            return;
        }
        let source = &camera.sources[sample.track];
        let round_ticks = ticks(round.saturating_mul(film.round_ns()), source.clock_rate);
        let timestamp = source
            .timestamp
            .wrapping_add((round_ticks as i64).wrapping_add(sample.ticks) as u32)
            .wrapping_add(faults.wrong_ticks(base_ns, source.clock_rate));
        let chunks = sample.packets.len().div_ceil(CHUNK_PACKETS).max(1);
        // A sample has left when half of the time to the next one is over.
        let step_ns = CHUNK_NS.min(sample.room_ns / 2 / chunks as u64);
        let departure = Departure {
            track: sample.track,
            first,
            timestamp,
            begins: false,
            is_sync: sample.is_sync,
            packets: Vec::new(),
        };
        for chunk in 0..chunks {
            let at_ns = self.latest_ns + chunk as u64 * step_ns;
            let start = chunk * CHUNK_PACKETS;
            let mut packets = Vec::new();
            for index in start..sample.packets.len().min(start + CHUNK_PACKETS) {
                let ordinal = first + index as u64;
                let packet = sample.packets.start + index as u32;
                let one = Numbered { packet, sequence: source.sequence.wrapping_add(ordinal as u16) };
                if faults.lose(base_ns, sample.track, ordinal) {
                    continue;
                }
                match faults.late_ns(base_ns, sample.track, ordinal) {
                    0 => packets.push(one),
                    late_ns => {
                        let late = Departure { packets: vec![one], ..departure.clone() };
                        self.add(at_ns + late_ns, What::Packets(late));
                    }
                }
            }
            self.add(at_ns, What::Packets(Departure { begins: chunk == 0, packets, ..departure.clone() }));
        }
    }
}
