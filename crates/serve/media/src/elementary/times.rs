//! Times of a transport stream: 33 bits of a clock of 90 kHz that starts again, and jumps where streams were joined.

/// Ticks per second.
pub(super) const CLOCK_RATE: u32 = 90_000;
/// The clock starts again after that.
pub(super) const CLOCK_END: i64 = 1 << 33;
/// Times this far from those before are of another stream, which was joined to this one.
const JUMP_TICKS: i64 = 10 * CLOCK_RATE as i64;
/// What is taken to lie between two streams that were joined.
const JOINT_TICKS: i64 = CLOCK_RATE as i64 / 25;

/// The times in the header of a PES packet (2.4.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pes {
    pub presentation: u64,
    /// The same, if there is none of its own.
    pub decode: u64,
}

impl Pes {
    /// `None` without times.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let &[0, 0, 1, _, _, _, marker, flags, bytes, ref times @ ..] = header else { return None };
        let is_one = marker & 0xC0 == 0x80;
        let presentation = (is_one && flags & 0x80 != 0 && bytes >= 5).then(|| time(times, 0))??;
        let decode = if flags & 0x40 != 0 && bytes >= 10 { time(times, 5) } else { None };
        Some(Self { presentation, decode: decode.unwrap_or(presentation) })
    }
}

/// 3, 15 and 15 bits, each with a marker after it.
fn time(times: &[u8], at: usize) -> Option<u64> {
    let &[a, b, c, d, e] = times.get(at..at + 5)? else { return None };
    let bits = |byte: u8, mask: u8, shift: u32| u64::from(byte & mask) >> 1 << shift;
    Some(bits(a, 0x0E, 30) | u64::from(b) << 22 | bits(c, 0xFE, 15) | u64::from(d) << 7 | bits(e, 0xFE, 0))
}

/// The times of all streams of a program, which jump together.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// What is added to times as they are, now and before the last jump.
    offsets: [i64; 2],
    last: Option<i64>,
}

impl Times {
    /// The latest of all streams.
    pub fn now(&self) -> Option<i64> {
        self.last
    }

    /// A time without jumps. `before` is the one before in the same stream.
    pub fn unwrapped(&mut self, told: u64, before: Option<i64>) -> i64 {
        let told = told as i64;
        let Some(near) = before.or(self.last) else {
            self.last = Some(told);
            return told;
        };
        // A stream with long pauses is as far as the others are.
        let is_near = |time: &i64| {
            [Some(near), self.last].iter().flatten().any(|near| (time - near).abs() <= JUMP_TICKS)
        };
        let candidates = self.offsets.map(|offset| nearest(told + offset, near));
        let time = candidates.into_iter().find(is_near).unwrap_or_else(|| {
            // All streams go on after what the furthest of them has.
            let time = self.last.map_or(near, |last| last.max(near)) + JOINT_TICKS;
            self.offsets = [time - told, self.offsets[0]];
            time
        });
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
        time
    }
}

/// The time nearest to `near` that differs by rounds of the clock.
fn nearest(time: i64, near: i64) -> i64 {
    let half = CLOCK_END / 2;
    near + (time - near + half).rem_euclid(CLOCK_END) - half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_packet_are_read() {
        // 2^33 - 1 and 2^33 - 2.
        let header =
            [0, 0, 1, 0xE0, 0, 0, 0x80, 0xC0, 10, 0x3F, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0xFF, 0xFF, 0xFF, 0xFD];
        let times = Pes { presentation: (1 << 33) - 1, decode: (1 << 33) - 2 };
        assert_eq!(Pes::parse(&header), Some(times));
        assert_eq!(Pes::parse(&[0, 0, 1, 0xE0, 0, 0, 0x80, 0, 0]), None);
        assert_eq!(Pes::parse(&header[..12]), None);
        assert_eq!(
            Pes::parse(&[0, 0, 1, 0xC0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 3, 0, 5]).map(|pes| pes.decode),
            Some(32_770)
        );
    }

    #[test]
    fn the_clock_starts_again_and_times_go_on() {
        let mut times = Times::default();
        let end = CLOCK_END as u64;
        assert_eq!(times.unwrapped(end - 10, None), CLOCK_END - 10);
        // Sound comes later in the file, and may lie before.
        assert_eq!(times.unwrapped(end - 500, None), CLOCK_END - 500);
        assert_eq!(times.unwrapped(5, Some(CLOCK_END - 10)), CLOCK_END + 5);
        assert_eq!(times.unwrapped(end - 400, Some(CLOCK_END - 500)), CLOCK_END - 400);
    }

    #[test]
    fn a_stream_that_pauses_is_no_joint() {
        let mut times = Times::default();
        let unit = times.unwrapped(1_000, None);
        let picture = (0..100).fold(1_000, |before, number| times.unwrapped(number * 90_000, Some(before)));
        assert_eq!(times.unwrapped(picture as u64 + 7, Some(unit)), picture + 7);
        assert_eq!(times.unwrapped(picture as u64 + 90_000, Some(picture)), picture + 90_000);
    }

    #[test]
    fn streams_that_were_joined_go_on_together() {
        let mut times = Times::default();
        let (picture, sound) = (times.unwrapped(1_000_000, None), times.unwrapped(1_000_500, None));
        let picture = times.unwrapped(50_000, Some(picture));
        assert_eq!(picture, 1_000_500 + JOINT_TICKS);
        // Sound of the first one that comes after the joint, and of the second one.
        let sound = times.unwrapped(1_002_000, Some(sound));
        assert_eq!(sound, 1_002_000);
        assert_eq!(times.unwrapped(51_000, Some(sound)), picture + 1_000);
        assert_eq!(times.unwrapped(53_600, Some(picture)), picture + 3_600);
    }
}
