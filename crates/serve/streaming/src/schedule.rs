//! When a position of a program is sent, and what the clocks of its tracks say then.

use forebay_rtsp::rtcp::Clock;

/// One PLAY: positions of a program against time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// When the first sample is sent.
    start_ns: u64,
    /// The first sample's decoding time, in the program.
    first_ns: i64,
    /// Nanoseconds of the program in one.
    rate: f64,
}

impl Schedule {
    /// Begins at `start_ns` with what is decoded at `first_ns`. `rate` is positive. It may be endless: then all is due at once.
    pub fn new(start_ns: u64, first_ns: i64, rate: f64) -> Self {
        Self { start_ns, first_ns, rate }
    }

    /// When what is decoded at `decode_ns` is to be sent.
    pub fn due_ns(&self, decode_ns: i64) -> u64 {
        let elapsed_ns = decode_ns.saturating_sub(self.first_ns);
        // Most are played as they are, and to the nanosecond.
        let elapsed_ns = if self.rate == 1.0 { elapsed_ns } else { (elapsed_ns as f64 / self.rate) as i64 };
        self.start_ns.saturating_add_signed(elapsed_ns)
    }

    /// The position of the program at a time.
    pub fn position_ns(&self, now_ns: u64) -> i64 {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        self.first_ns.saturating_add((elapsed_ns as f64 * self.rate) as i64)
    }

    /// Goes on `ns` later than was planned.
    pub fn delay(&mut self, ns: u64) {
        self.start_ns = self.start_ns.saturating_add(ns);
    }

    /// The clock of a track whose timestamp at `position_ns` of the program is `timestamp`. `unix_ns` is what other clocks
    /// say while this one says `now_ns`.
    pub fn clock(&self, position_ns: i64, timestamp: u32, rate: u32, now_ns: u64, unix_ns: u64) -> Clock {
        let due_ns = self.due_ns(position_ns);
        let at_ns = (i128::from(unix_ns) + i128::from(due_ns) - i128::from(now_ns)).max(0);
        Clock { rate, at_ns: u64::try_from(at_ns).unwrap_or(u64::MAX), timestamp }
    }
}

/// Parts of a picture that are sent after each other, so that it does not come as one burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pacing {
    /// Packets in a part.
    pub packets: usize,
    /// Time from part to part.
    pub gap_ns: u64,
}

/// Packets that are sent at once in any case: a tenth of a millisecond of a gigabit.
pub const BURST_PACKETS: usize = 8;
/// Parts that come closer to each other than this are not worth the waking up.
const GAP_NS_MIN: u64 = 1_000_000;

/// How to send a picture of so many packets, of which another one comes after `interval_ns`: within half of that time, so
/// that it has been received when the next one comes. A large one is sent in larger parts.
pub fn pacing(packets: usize, interval_ns: u64) -> Pacing {
    let parts_max = (interval_ns / 2 / GAP_NS_MIN).max(1) as usize;
    let parts = packets.div_ceil(BURST_PACKETS).clamp(1, parts_max);
    Pacing { packets: packets.div_ceil(parts).max(1), gap_ns: interval_ns / 2 / parts as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_picture_is_spread_over_half_of_its_time() {
        for (packets, interval_ns, part, gap_ns) in [
            (1, 40 * MS, 1, 20 * MS),
            (8, 40 * MS, 8, 20 * MS),
            (42, 40 * MS, 7, 20 * MS / 6),
            (400, 40 * MS, 20, MS),
            (400, MS, 400, MS / 2),
            (0, 0, 1, 0),
        ] {
            assert_eq!(pacing(packets, interval_ns), Pacing { packets: part, gap_ns }, "{packets}");
            let parts = packets.div_ceil(part) as u64;
            assert!(parts.saturating_sub(1) * gap_ns <= interval_ns / 2);
        }
    }

    #[test]
    fn clocks_of_tracks_say_the_same_time_of_the_same_position() {
        let schedule = Schedule::new(5_000 * MS, -80 * MS as i64, 1.0);
        assert_eq!(schedule.due_ns(-80 * MS as i64), 5_000 * MS);
        assert_eq!(schedule.position_ns(5_100 * MS), 20 * MS as i64);
        let video = schedule.clock(0, 1_000, 90_000, 5_000 * MS, 1_000_000 * MS);
        let audio = schedule.clock(0, 77, 44_100, 6_000 * MS, 1_001_000 * MS);
        assert_eq!((video.at_ns, video.at_ns), (1_000_080 * MS, audio.at_ns));
    }

    #[test]
    fn twice_as_fast_takes_half_of_the_time() {
        let mut schedule = Schedule::new(100, 0, 2.0);
        assert_eq!(schedule.due_ns(50), 125);
        assert_eq!(schedule.position_ns(125), 50);
        schedule.delay(10);
        assert_eq!(schedule.due_ns(50), 135);
    }
}
