//! Times of a transport stream: 33 bits of a clock of 90 kHz that starts again.

use crate::joints::Times;

/// Ticks per second.
pub(super) const CLOCK_RATE: u32 = 90_000;
/// The clock starts again after that.
pub(super) const CLOCK_END: i64 = 1 << 33;
/// Times this far ahead of those before are of another stream, which was joined to this one.
const JUMP_TICKS: i64 = 10 * CLOCK_RATE as i64;

/// Those of all streams of a program, none of which has come.
pub(super) fn times() -> Times {
    Times::new(CLOCK_RATE.into(), JUMP_TICKS, Some(CLOCK_END))
}

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

    /// From decoding to presentation, which both come before the next joint.
    pub fn delay(&self) -> i64 {
        let ticks = (self.presentation as i64 - self.decode as i64).rem_euclid(CLOCK_END);
        if ticks < JUMP_TICKS { ticks } else { 0 }
    }
}

/// 3, 15 and 15 bits, each with a marker after it.
fn time(times: &[u8], at: usize) -> Option<u64> {
    let &[a, b, c, d, e] = times.get(at..at + 5)? else { return None };
    let bits = |byte: u8, mask: u8, shift: u32| u64::from(byte & mask) >> 1 << shift;
    Some(bits(a, 0x0E, 30) | u64::from(b) << 22 | bits(c, 0xFE, 15) | u64::from(d) << 7 | bits(e, 0xFE, 0))
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
        assert_eq!((times.delay(), Pes { presentation: 5, decode: (1 << 33) - 5 }.delay()), (1, 10));
        assert_eq!(Pes::parse(&[0, 0, 1, 0xE0, 0, 0, 0x80, 0, 0]), None);
        assert_eq!(Pes::parse(&header[..12]), None);
        assert_eq!(
            Pes::parse(&[0, 0, 1, 0xC0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 3, 0, 5]).map(|pes| pes.decode),
            Some(32_770)
        );
    }
}
