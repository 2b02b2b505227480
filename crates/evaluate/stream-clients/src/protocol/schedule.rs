//! When packets are due, by their own timestamps.

/// A stream's clock: timestamps that wrap become times that do not, and the most punctual packet says what time it is.
#[derive(Clone, Debug)]
pub struct Schedule {
    clock_hz: u32,
    newest: Option<Newest>,
    /// The least of arrival less time of playing, in nanoseconds.
    offset_ns: i64,
    /// From one frame to the next, in nanoseconds.
    step_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    timestamp: u32,
    ticks: i64,
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
    /// Of a track whose timestamps tick so often in a second.
    #[must_use]
    pub fn new(clock_hz: u32) -> Self {
        Self { clock_hz: clock_hz.max(1), newest: None, offset_ns: 0, step_ns: 0 }
    }

    /// What comes next has other timestamps.
    pub fn restart(&mut self) {
        *self = Self::new(self.clock_hz);
    }

    pub(crate) fn take(&mut self, timestamp: u32, arrival_ns: i64) -> Punctuality {
        let Some(newest) = self.newest else {
            self.newest = Some(Newest { timestamp, ticks: 0 });
            self.offset_ns = arrival_ns;
            return Punctuality { late_ns: 0, begins_frame: true, clock_set_back_ns: 0 };
        };
        let step = i64::from(timestamp.wrapping_sub(newest.timestamp) as i32);
        let ticks = newest.ticks + step;
        if step > 0 {
            self.newest = Some(Newest { timestamp, ticks });
            self.step_ns = self.ns(step);
        }
        let offset_ns = arrival_ns - self.ns(ticks);
        let clock_set_back_ns = (self.offset_ns - offset_ns).max(0);
        self.offset_ns -= clock_set_back_ns;
        Punctuality { late_ns: offset_ns - self.offset_ns, begins_frame: step > 0, clock_set_back_ns }
    }

    /// From one frame to the next, in nanoseconds; 0 before there were two.
    #[must_use]
    pub fn step_ns(&self) -> i64 {
        self.step_ns
    }

    /// The least of arrival less time of playing, in nanoseconds.
    pub(crate) fn offset_ns(&self) -> i64 {
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
        self.newest.map_or(0, |newest| now_ns - self.offset_ns - self.ns(newest.ticks) - self.step_ns)
    }

    /// How far the stream has come since its first packet, in nanoseconds.
    #[must_use]
    pub fn played_ns(&self) -> i64 {
        self.newest.map_or(0, |newest| self.ns(newest.ticks))
    }

    fn ns(&self, ticks: i64) -> i64 {
        (i128::from(ticks) * 1_000_000_000 / i128::from(self.clock_hz)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn late_ms(schedule: &mut Schedule, timestamp: u32, arrival_ms: i64) -> i64 {
        schedule.take(timestamp, arrival_ms * MS).late_ns / MS
    }

    #[test]
    fn lateness_is_against_the_timestamps_across_their_wrap() {
        let mut schedule = Schedule::new(90_000);
        let first = u32::MAX - 1_799;
        assert_eq!(late_ms(&mut schedule, first, 500), 0);
        assert_eq!(late_ms(&mut schedule, first.wrapping_add(3_600), 547), 7);
        assert_eq!(late_ms(&mut schedule, first.wrapping_add(7_200), 580), 0);
        assert_eq!(schedule.played_ns(), 80 * MS);
    }

    #[test]
    fn after_a_stall_every_packet_is_late_until_the_stream_has_caught_up() {
        let mut schedule = Schedule::new(1_000);
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
        let mut schedule = Schedule::new(1_000);
        schedule.take(0, 100 * MS);
        let early = schedule.take(40, 130 * MS);
        assert_eq!(early, Punctuality { late_ns: 0, begins_frame: true, clock_set_back_ns: 10 * MS });
        assert_eq!(late_ms(&mut schedule, 80, 180), 10);
    }

    #[test]
    fn the_packets_of_a_frame_have_one_beginning() {
        let mut schedule = Schedule::new(1_000);
        let begins = [0, 0, 40, 40, 80].map(|timestamp| schedule.take(timestamp, 0).begins_frame);
        assert_eq!(begins, [true, false, true, false, true]);
    }

    #[test]
    fn what_does_not_come_is_overdue() {
        let mut schedule = Schedule::new(1_000);
        assert_eq!(schedule.overdue_ns(5), 0);
        schedule.take(0, 0);
        schedule.take(40, 40 * MS);
        assert_eq!(schedule.overdue_ns(79 * MS), -MS);
        assert_eq!(schedule.overdue_ns(1_080 * MS), 1_000 * MS);
    }
}
