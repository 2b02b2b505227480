//! When packets are due, by their own timestamps.

use std::collections::VecDeque;

/// Pictures that others overtake on their way to the screen: as many as H.264 and H.265 let wait for a later one.
const DEPTH_MAX: usize = 16;

/// A stream's clock: timestamps that wrap become times that do not, and the most punctual packet says what time it is.
///
/// Pictures come in the order of decoding, with the times at which they are shown. A picture is due with the time that it has in
/// the order of the times: where B-frames are, it is the least of those that came and were not due yet.
#[derive(Clone, Debug)]
pub struct Schedule {
    clock_hz: u32,
    /// How much faster than time that clock runs.
    drift: f64,
    newest: Option<Newest>,
    /// The frame that comes.
    frame: Frame,
    /// Times of frames that came and that no frame was due with yet, from the least on.
    waiting: Vec<i64>,
    /// So many of them wait behind each frame.
    depth: usize,
    /// Frames before, for packets that others overtook.
    before: VecDeque<Frame>,
    /// The least of arrival less time of playing, in nanoseconds; `None` until a frame was due.
    offset_ns: Option<i64>,
    /// From one frame to the next, in nanoseconds.
    step_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    timestamp: u32,
    ticks: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    timestamp: u32,
    /// `None` where more have to come before that is known.
    due_ticks: Option<i64>,
}

/// How a packet stands to the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Punctuality {
    /// After it was due, in nanoseconds; 0 for the most punctual one.
    pub(crate) late_ns: i64,
    /// Whether it is the first of its frame.
    pub(crate) begins_frame: bool,
    /// By how much all before it are later than they were taken to be.
    pub(crate) clock_set_back_ns: i64,
}

impl Schedule {
    /// Of a track whose timestamps tick so often in a second of a clock that runs faster than time by this `drift`, such as 0.00005.
    #[must_use]
    pub fn new(clock_hz: u32, drift: f64) -> Self {
        Self {
            clock_hz: clock_hz.max(1),
            drift,
            newest: None,
            frame: Frame::default(),
            waiting: Vec::new(),
            depth: 0,
            before: VecDeque::new(),
            offset_ns: None,
            step_ns: 0,
        }
    }

    /// What comes next has other timestamps, and as many B-frames.
    pub fn restart(&mut self) {
        *self = Self { depth: self.depth, ..Self::new(self.clock_hz, self.drift) };
    }

    /// Takes a packet. One that a newer one `is_overtaken` by begins no frame.
    pub(crate) fn take(&mut self, timestamp: u32, arrival_ns: i64, is_overtaken: bool) -> Punctuality {
        let begins_frame = self.newest.is_none() || (timestamp != self.frame.timestamp && !is_overtaken);
        let due_ticks = match begins_frame {
            true => self.begin_frame(timestamp),
            false => self.due_before(timestamp),
        };
        let Some(due_ticks) = due_ticks else {
            return Punctuality { late_ns: 0, begins_frame, clock_set_back_ns: 0 };
        };
        let offset_ns = arrival_ns - self.ns(due_ticks);
        let known_ns = *self.offset_ns.get_or_insert(offset_ns);
        let clock_set_back_ns = (known_ns - offset_ns).max(0);
        self.offset_ns = Some(known_ns - clock_set_back_ns);
        Punctuality { late_ns: (offset_ns - known_ns).max(0), begins_frame, clock_set_back_ns }
    }

    /// When it is due.
    fn begin_frame(&mut self, timestamp: u32) -> Option<i64> {
        let ticks = self.ticks(timestamp);
        if self.newest.is_none_or(|newest| ticks > newest.ticks) {
            self.newest = Some(Newest { timestamp, ticks });
        }
        let due_before = self.frame.due_ticks;
        if let Some(due) = due_before.filter(|due| ticks < *due && self.depth < DEPTH_MAX) {
            // The frame before was due with the time of a later one: one more has to wait, and the clock begins anew.
            self.depth += 1;
            self.wait(due);
            self.offset_ns = None;
        }
        self.wait(ticks);
        let due_ticks = (self.waiting.len() > self.depth).then(|| self.waiting.remove(0));
        if let (Some(due), Some(before)) = (due_ticks, due_before)
            && due > before
        {
            self.step_ns = self.ns(due - before);
        }
        self.before.push_back(std::mem::replace(&mut self.frame, Frame { timestamp, due_ticks }));
        if self.before.len() > DEPTH_MAX {
            self.before.pop_front();
        }
        due_ticks
    }

    fn wait(&mut self, ticks: i64) {
        let place = self.waiting.partition_point(|other| *other <= ticks);
        self.waiting.insert(place, ticks);
    }

    /// When a packet of a frame that has begun is due. Of one that was lost but for this packet, no later than what came.
    fn due_before(&self, timestamp: u32) -> Option<i64> {
        let frames = std::iter::once(&self.frame).chain(self.before.iter().rev());
        let known = frames.into_iter().find(|frame| frame.timestamp == timestamp);
        known.map_or_else(
            || self.frame.due_ticks.map(|due| due.min(self.ticks(timestamp))),
            |frame| frame.due_ticks,
        )
    }

    fn ticks(&self, timestamp: u32) -> i64 {
        self.newest
            .map_or(0, |newest| newest.ticks + i64::from(timestamp.wrapping_sub(newest.timestamp) as i32))
    }

    /// From one frame to the next, in nanoseconds; 0 before there were two.
    #[must_use]
    pub fn step_ns(&self) -> i64 {
        self.step_ns
    }

    /// The least of arrival less time of playing, in nanoseconds; `None` until a frame was due.
    pub(crate) fn offset_ns(&self) -> Option<i64> {
        self.offset_ns
    }

    /// Whether anything came.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.newest.is_some()
    }

    /// How long after the next frame was due `now_ns` is, in nanoseconds: 0 or less if it is not due, or if there was none yet.
    #[must_use]
    pub fn overdue_ns(&self, now_ns: i64) -> i64 {
        let (Some(offset_ns), Some(due)) = (self.offset_ns, self.frame.due_ticks) else { return 0 };
        now_ns - offset_ns - self.ns(due) - self.step_ns
    }

    /// How far the stream has come since its first packet, in nanoseconds.
    #[must_use]
    pub fn played_ns(&self) -> i64 {
        self.newest.map_or(0, |newest| self.ns(newest.ticks))
    }

    fn ns(&self, ticks: i64) -> i64 {
        let shown_ns = (i128::from(ticks) * 1_000_000_000 / i128::from(self.clock_hz)) as i64;
        shown_ns - (shown_ns as f64 * self.drift / (1.0 + self.drift)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn late_ms(schedule: &mut Schedule, timestamp: u32, arrival_ms: i64) -> i64 {
        schedule.take(timestamp, arrival_ms * MS, false).late_ns / MS
    }

    #[test]
    fn lateness_is_against_the_timestamps_across_their_wrap() {
        let mut schedule = Schedule::new(90_000, 0.0);
        let first = u32::MAX - 1_799;
        assert_eq!(late_ms(&mut schedule, first, 500), 0);
        assert_eq!(late_ms(&mut schedule, first.wrapping_add(3_600), 547), 7);
        assert_eq!(late_ms(&mut schedule, first.wrapping_add(7_200), 580), 0);
        assert_eq!(schedule.played_ns(), 80 * MS);
    }

    #[test]
    fn a_clock_that_is_known_to_run_away_makes_nothing_late() {
        for drift in [-0.01, 0.01] {
            let mut schedule = Schedule::new(1_000, drift);
            let mut late_ns = |shown_ms: u32| {
                let arrival_ns = (f64::from(shown_ms) * 1e6 / (1.0 + drift)) as i64;
                schedule.take(shown_ms, arrival_ns, false).late_ns
            };
            let late: Vec<i64> = (0..1_000).map(|frame| late_ns(frame * 40)).collect();
            assert!(late.iter().all(|late_ns| *late_ns < 1_000), "{drift}: {late:?}");
        }
    }

    #[test]
    fn after_a_stall_every_packet_is_late_until_the_stream_has_caught_up() {
        let mut schedule = Schedule::new(1_000, 0.0);
        assert_eq!(late_ms(&mut schedule, 0, 0), 0);
        // One second without anything, then all at once.
        let late: Vec<_> = (1..=25)
            .map(|frame| late_ms(&mut schedule, frame * 40, 1_000.max(i64::from(frame) * 40)))
            .collect();
        assert_eq!(late[..3], [960, 920, 880]);
        assert_eq!(late[24], 0);
    }

    #[test]
    fn a_more_punctual_packet_sets_the_clock_back() {
        let mut schedule = Schedule::new(1_000, 0.0);
        schedule.take(0, 100 * MS, false);
        let early = schedule.take(40, 130 * MS, false);
        assert_eq!(early, Punctuality { late_ns: 0, begins_frame: true, clock_set_back_ns: 10 * MS });
        assert_eq!(late_ms(&mut schedule, 80, 180), 10);
    }

    #[test]
    fn the_packets_of_a_frame_have_one_beginning() {
        let mut schedule = Schedule::new(1_000, 0.0);
        let begins = [0, 0, 40, 40, 80].map(|timestamp| schedule.take(timestamp, 0, false).begins_frame);
        assert_eq!(begins, [true, false, true, false, true]);
    }

    #[test]
    fn what_does_not_come_is_overdue() {
        let mut schedule = Schedule::new(1_000, 0.0);
        assert_eq!(schedule.overdue_ns(5), 0);
        schedule.take(0, 0, false);
        schedule.take(40, 40 * MS, false);
        assert_eq!(schedule.overdue_ns(79 * MS), -MS);
        assert_eq!(schedule.overdue_ns(1_080 * MS), 1_000 * MS);
    }

    /// Two groups of pictures with B-frames that others refer to, in the order of decoding.
    const REORDERED: [u32; 10] = [0, 4, 2, 1, 3, 8, 6, 5, 7, 12];

    #[test]
    fn pictures_that_are_shown_in_another_order_are_late_by_the_order_of_decoding() {
        let mut schedule = Schedule::new(1_000, 0.0);
        for (place, shown) in (0..).zip(REORDERED) {
            schedule.take(shown * 40, i64::from(place) * 40 * MS, false);
        }
        // What was learnt holds after a seek, too: none of these is late, until all are.
        schedule.restart();
        let mut late = |delay_ms: i64, first: u32| -> Vec<i64> {
            let places = (0..).zip(REORDERED);
            let take = |(place, shown): (i64, u32)| {
                let arrival_ms = (place + i64::from(first)) * 40 + delay_ms;
                late_ms(&mut schedule, (shown + first) * 40, arrival_ms)
            };
            places.map(take).collect()
        };
        assert_eq!(late(0, 0), [0; 10]);
        assert_eq!(late(30, 13)[3..], [30; 7]);
        assert_eq!(schedule.step_ns(), 40 * MS);
    }

    #[test]
    fn a_packet_that_was_overtaken_is_no_picture_shown_before() {
        let mut schedule = Schedule::new(1_000, 0.0);
        for (timestamp, at_ms) in [(0, 0), (40, 40), (80, 80)] {
            assert_eq!(late_ms(&mut schedule, timestamp, at_ms), 0);
        }
        assert_eq!(schedule.take(40, 81 * MS, true).late_ns, 41 * MS);
        assert_eq!(late_ms(&mut schedule, 120, 120), 0);
        assert_eq!(schedule.depth, 0);
    }
}
