//! What one player receives.

use rtcp_types::{ReceiverReport, ReportBlock, RtcpPacketWriterExt};

use crate::protocol::jitter::Jitter;
use crate::protocol::packet::Head;
use crate::protocol::pictures::Pictures;
use crate::protocol::schedule::Schedule;
use crate::protocol::sequence::{Arrival, Sequence};
use crate::protocol::tally::Tally;
use crate::protocol::track::{Kind, Track};

const US_NS: i64 = 1_000;
/// Frames that do not come are counted at no shorter distances.
const STEP_US_MIN: i64 = 1_000;
/// In so many frames it shows which are B-frames: that the clock is set back then says nothing of lateness.
const LEARNT_FRAMES: u32 = 16;

/// A track as it arrives.
#[derive(Clone, Debug)]
pub struct Reception {
    clock_hz: u32,
    kind: Kind,
    /// `None` where packets do not say which is a picture's last.
    pictures: Option<Pictures>,
    frames: u32,
    /// Later packets are late, in nanoseconds.
    tolerance_ns: i64,
    sequence: Sequence,
    schedule: Schedule,
    jitter: Jitter,
    frame_jitter: Jitter,
    ssrc: u32,
    late: u64,
    /// Media that came before the last restart, in nanoseconds.
    played_before_ns: i64,
    /// What there was when the part that counts began.
    base: Counts,
    reported: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    expected: u64,
    received: u64,
    late: u64,
    played_ns: i64,
}

/// What came of one stream within the part that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Packets that there were, by their numbers.
    pub expected: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came later than is tolerated.
    pub late: u64,
    /// Media that came, in nanoseconds.
    pub played_ns: i64,
    /// Whether what is due at the end is later than is tolerated.
    pub stands_still: bool,
}

impl Stream {
    /// Of a hundred packets of a punctual stream, fewer than this are lost or late.
    pub const LATE_PERCENT: u64 = 1;

    /// Whether a viewer would be disturbed: nothing came, or nothing comes any more, or one packet in a hundred is lost or late.
    #[must_use]
    pub fn is_late(&self) -> bool {
        let disturbing = (self.lost + self.late) * 100 >= self.expected * Self::LATE_PERCENT;
        self.expected == 0 || self.stands_still || (disturbing && self.lost + self.late > 0)
    }
}

impl Reception {
    /// Of a track whose timestamps run faster than time by this `drift`, such as 0.00005; packets that come `tolerance_ns` after they
    /// were due are late.
    #[must_use]
    pub fn new(track: &Track, tolerance_ns: i64, drift: f64) -> Self {
        let Track { kind, clock_hz, is_marked, .. } = *track;
        Self {
            clock_hz,
            kind,
            pictures: (is_marked && kind == Kind::Pictures).then(Pictures::default),
            frames: 0,
            tolerance_ns,
            sequence: Sequence::default(),
            schedule: Schedule::new(clock_hz, drift),
            jitter: Jitter::default(),
            frame_jitter: Jitter::default(),
            ssrc: 0,
            late: 0,
            played_before_ns: 0,
            base: Counts::default(),
            reported: Counts::default(),
        }
    }

    /// Playing goes on from somewhere else.
    pub fn restart(&mut self) {
        self.sequence.restart();
        self.restart_schedule();
    }

    fn restart_schedule(&mut self) {
        self.played_before_ns += self.schedule.played_ns();
        self.schedule.restart();
        self.jitter.restart();
        self.frame_jitter.restart();
        if let Some(pictures) = &mut self.pictures {
            pictures.restart();
        }
    }

    /// Takes a packet of `bytes` that arrived at `arrival_ns` of any clock. Samples go to `tally`, in the part that counts.
    pub fn take(&mut self, head: Head, bytes: u64, arrival_ns: i64, tally: Option<&mut Tally>) {
        let arrival = self.sequence.take(head.sequence);
        match arrival {
            Arrival::Restart => self.restart_schedule(),
            Arrival::Stray | Arrival::Duplicate => {
                if let Some(tally) = tally {
                    tally.strays += u64::from(arrival == Arrival::Stray);
                    tally.duplicates += u64::from(arrival == Arrival::Duplicate);
                }
                return;
            }
            Arrival::Newest | Arrival::Overtaken => {}
        }
        self.ssrc = head.ssrc;
        let is_overtaken = arrival == Arrival::Overtaken;
        let punctuality = self.schedule.take(head.timestamp, arrival_ns, is_overtaken);
        let judged = self.pictures.as_mut().and_then(|pictures| pictures.take(head, is_overtaken));
        self.frames = self.frames.saturating_add(punctuality.begins_frame.into());
        if let Some(offset_ns) = self.schedule.offset_ns() {
            // Lateness by a clock that is never set back.
            let offset_ns = punctuality.late_ns + offset_ns;
            self.jitter.take(offset_ns);
            if punctuality.begins_frame {
                self.frame_jitter.take(offset_ns);
            }
        }
        let excused_ns = if punctuality.begins_frame { 0 } else { self.schedule.step_ns() };
        let is_late = punctuality.late_ns - excused_ns > self.tolerance_ns;
        self.late += u64::from(is_late);
        let Some(tally) = tally else { return };
        tally.packets += 1;
        tally.bytes += bytes;
        tally.overtaken += u64::from(is_overtaken);
        tally.late += u64::from(is_late);
        tally.pictures += u64::from(judged.is_some());
        tally.whole_pictures += u64::from(judged == Some(true));
        if self.frames > LEARNT_FRAMES {
            let set_back_us = (punctuality.clock_set_back_ns / US_NS) as u64;
            tally.clock_set_back_us_max = tally.clock_set_back_us_max.max(set_back_us);
        }
        if punctuality.begins_frame {
            tally.frame_was_late(self.kind, (punctuality.late_ns / US_NS) as u64);
            tally.jitter_us.saturating_record((self.jitter.ns() / US_NS as f64) as u64);
            tally.frame_jitter_us.saturating_record((self.frame_jitter.ns() / US_NS as f64) as u64);
        }
    }

    /// The part that counts begins.
    pub fn begin(&mut self) {
        self.base = self.counts();
    }

    /// The part that counts ends at `now_ns`. What is due by then counts, as late as it is.
    pub fn end(&self, now_ns: i64, tally: &mut Tally) -> Stream {
        let (now, base) = (self.counts(), self.base);
        let expected = now.expected.saturating_sub(base.expected);
        let overdue_ns = self.schedule.overdue_ns(now_ns);
        let stands_still = overdue_ns > self.tolerance_ns;
        if stands_still {
            let step_us = (self.schedule.step_ns() / US_NS).max(STEP_US_MIN) as u64;
            let mut late_us = (overdue_ns / US_NS) as u64;
            // Of each frame that did not come, as late as it is.
            while late_us > 0 {
                tally.frame_was_late(self.kind, late_us);
                tally.late += u64::from(late_us as i64 * US_NS > self.tolerance_ns);
                late_us = late_us.saturating_sub(step_us);
            }
        }
        Stream {
            expected,
            lost: expected.saturating_sub(now.received - base.received),
            late: now.late - base.late,
            played_ns: now.played_ns - base.played_ns,
            stands_still,
        }
    }

    /// How far playing has come since it last began anywhere, in nanoseconds.
    #[must_use]
    pub fn played_ns(&self) -> i64 {
        self.schedule.played_ns()
    }

    /// Whether anything came since it last began anywhere.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.schedule.has_begun()
    }

    fn counts(&self) -> Counts {
        Counts {
            expected: self.sequence.expected(),
            received: self.sequence.received(),
            late: self.late,
            played_ns: self.played_before_ns + self.schedule.played_ns(),
        }
    }

    /// What a receiver says of it (RFC 3550, section 6.4.2). Sender reports are not read, so there is no delay since the last.
    pub fn report(&mut self, receiver: u32) -> Vec<u8> {
        let now = self.counts();
        let lost = now.expected.saturating_sub(now.received);
        let expected_since = now.expected.saturating_sub(self.reported.expected);
        let received_since = now.received - self.reported.received;
        let lost_since = expected_since.saturating_sub(received_since);
        self.reported = now;
        let fraction = (lost_since * 256).checked_div(expected_since).unwrap_or(0).min(255);
        let jitter_ticks = self.jitter.ns() * f64::from(self.clock_hz) / 1e9;
        let block = ReportBlock::builder(self.ssrc)
            .fraction_lost(fraction as u8)
            .cumulative_lost(lost.min(0x7f_ffff) as u32)
            .extended_sequence_number(self.sequence.highest())
            .interarrival_jitter(jitter_ticks as u32);
        let report = ReceiverReport::builder(receiver).add_report_block(block);
        let mut bytes = vec![0; 64];
        let written = report.write_into(&mut bytes).unwrap_or(0);
        bytes.truncate(written);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use rtcp_types::{Packet, RtcpPacketParser};

    use super::*;

    const MS: i64 = 1_000_000;
    const CLOCK_HZ: u32 = 1_000;
    const TOLERANCE_NS: i64 = 100 * MS;

    fn pictures() -> Reception {
        let track = Track {
            kind: Kind::Pictures,
            control: String::new(),
            clock_hz: CLOCK_HZ,
            length_s: None,
            is_marked: true,
        };
        Reception::new(&track, TOLERANCE_NS, 0.0)
    }

    /// A frame of two packets each 40 ms, as late as `late_ms` says; some are never sent.
    fn play(late_ms: impl Fn(u16) -> i64, frames: u16, is_lost: impl Fn(u16) -> bool) -> (Stream, Tally) {
        let mut reception = pictures();
        let mut tally = Tally::new();
        let mut end_ns = 0;
        for frame in 0..frames {
            if frame == 25 {
                reception.begin();
            }
            for part in 0..2 {
                let sequence = 65_500u16.wrapping_add(frame * 2 + part);
                if is_lost(frame * 2 + part) {
                    continue;
                }
                let head = Head { sequence, timestamp: u32::from(frame) * 40, ssrc: 9, is_marked: false };
                let due_ns = i64::from(frame) * 40 * MS;
                let counted = (frame >= 25).then_some(&mut tally);
                reception.take(head, 100, due_ns + late_ms(frame) * MS, counted);
            }
            end_ns = i64::from(frame) * 40 * MS;
        }
        (reception.end(end_ns, &mut tally), tally)
    }

    #[test]
    fn a_punctual_stream_is_not_late() {
        let (stream, tally) = play(|frame| i64::from(frame % 3), 125, |_| false);
        assert_eq!((stream.expected, stream.lost, stream.late, stream.is_late()), (200, 0, 0, false));
        assert_eq!(stream.played_ns, 100 * 40 * MS);
        assert_eq!((tally.packets, tally.bytes, tally.lateness_us.len()), (200, 20_000, 100));
        assert!(tally.lateness_us.max() <= 2_001, "{}", tally.lateness_us.max());
    }

    #[test]
    fn a_stream_of_which_one_packet_in_a_hundred_is_late_or_lost_is_late() {
        let late = |frame| if frame == 60 { 250 } else { 0 };
        let (stream, tally) = play(late, 125, |_| false);
        // The second packet of a frame is excused by the frame's own time, and 250 ms is more than that, too.
        assert_eq!((stream.late, tally.late, stream.is_late()), (2, 2, true));
        assert!(tally.lateness_us.max().abs_diff(250_000) < 500);
        let (stream, _) = play(|_| 0, 125, |packet| packet == 100 || packet == 101);
        assert_eq!((stream.lost, stream.is_late()), (2, true));
        let (stream, _) = play(|_| 0, 125, |packet| packet == 100);
        assert_eq!((stream.lost, stream.is_late()), (1, false));
    }

    #[test]
    fn the_rest_of_a_frame_is_late_only_after_the_next_one_is_due() {
        let mut reception = pictures();
        let mut take = |sequence, timestamp, at_ms: i64| {
            let head = Head { sequence, timestamp, ssrc: 1, is_marked: false };
            reception.take(head, 1, at_ms * MS, None);
            reception.late
        };
        take(0, 0, 0);
        take(1, 40, 40);
        assert_eq!(take(2, 40, 40 + 40 + 99), 0);
        assert_eq!(take(3, 40, 40 + 40 + 101), 1);
        // The first of a frame has no excuse.
        assert_eq!(take(4, 80, 80 + 101), 2);
    }

    #[test]
    fn a_stream_that_ends_early_stands_still_and_its_missing_frames_are_late() {
        let mut reception = pictures();
        let mut tally = Tally::new();
        reception.begin();
        for frame in 0..10u16 {
            let head = Head { sequence: frame, timestamp: u32::from(frame) * 40, ssrc: 1, is_marked: false };
            reception.take(head, 1, i64::from(frame) * 40 * MS, Some(&mut tally));
        }
        let stream = reception.end(10 * 40 * MS + 1_000 * MS, &mut tally);
        assert!(stream.stands_still && stream.is_late());
        assert_eq!((stream.late, tally.lateness_us.len()), (0, 10 + 25));
        assert!(tally.lateness_us.max().abs_diff(1_000_000) < 1_000);
        let untouched = pictures().end(0, &mut tally);
        assert!(untouched.is_late());
    }

    #[test]
    fn a_seek_is_no_loss_and_no_lateness() {
        let mut reception = pictures();
        let mut tally = Tally::new();
        reception.begin();
        for (sequence, timestamp, at_ms) in [(10, 0, 0), (11, 40, 40)] {
            reception.take(
                Head { sequence, timestamp, ssrc: 1, is_marked: false },
                1,
                at_ms * MS,
                Some(&mut tally),
            );
        }
        reception.restart();
        assert!(!reception.has_begun());
        for (sequence, timestamp, at_ms) in [(900, 5_000_000, 300), (901, 5_000_040, 341)] {
            reception.take(
                Head { sequence, timestamp, ssrc: 1, is_marked: false },
                1,
                at_ms * MS,
                Some(&mut tally),
            );
        }
        let stream = reception.end(342 * MS, &mut tally);
        assert_eq!((stream.expected, stream.lost, stream.late, stream.played_ns), (4, 0, 0, 80 * MS));
        assert!(tally.lateness_us.max().abs_diff(1_000) < 5 && tally.jitter_us.max() < 100);
    }

    #[test]
    fn a_report_says_what_was_lost() {
        let mut reception = pictures();
        for sequence in [1u16, 2, 4] {
            let head = Head { sequence, timestamp: u32::from(sequence) * 40, ssrc: 77, is_marked: false };
            reception.take(head, 1, i64::from(sequence) * 40 * MS, None);
        }
        let bytes = reception.report(5);
        let Packet::Rr(report) = Packet::parse(&bytes).unwrap() else { panic!("{bytes:?}") };
        let block = report.report_blocks().next().unwrap();
        assert_eq!((report.ssrc(), block.ssrc(), block.cumulative_lost()), (5, 77, 1));
        assert_eq!((block.fraction_lost(), block.extended_sequence_number()), (64, 4));
    }
}
