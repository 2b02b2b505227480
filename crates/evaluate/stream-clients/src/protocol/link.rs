//! A link between a server and one player that carries less than the loopback does.

const SECOND_NS: f64 = 1e9;
/// What each packet takes besides RTP: the heads of IPv4 and UDP.
const HEAD_BYTES: usize = 28;
/// What waits for the link is as much as it carries in this time, as in the router of a household.
const QUEUE_NS: i64 = 300_000_000;
/// Bytes of a connection pass in parts of this time.
const PART_NS: f64 = 20e6;
const PART_BYTES_MIN: usize = 512;

/// Carries bits at a constant rate, one packet after the other; packets that would wait too long are lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    bits_per_second: f64,
    /// When all has passed that came so far.
    free_ns: i64,
}

impl Link {
    /// A link of so many bits a second.
    #[must_use]
    pub fn new(bits_per_second: f64) -> Self {
        Self { bits_per_second, free_ns: i64::MIN / 2 }
    }

    /// When a packet has passed that is sent at `sent_ns`; `None` where it is lost.
    pub fn datagram(&mut self, bytes: usize, sent_ns: i64) -> Option<i64> {
        (self.free_ns - sent_ns <= QUEUE_NS).then(|| self.pass(bytes + HEAD_BYTES, sent_ns))
    }

    /// When bytes of a connection have passed: the rest waits at the server.
    pub fn pass(&mut self, bytes: usize, sent_ns: i64) -> i64 {
        self.free_ns =
            self.free_ns.max(sent_ns) + (bytes as f64 * 8.0 / self.bits_per_second * SECOND_NS) as i64;
        self.free_ns
    }

    /// How many bytes of a connection pass together.
    #[must_use]
    pub fn part_bytes(&self) -> usize {
        ((self.bits_per_second / 8.0 * PART_NS / SECOND_NS) as usize).max(PART_BYTES_MIN)
    }

    /// What waits at most, in bytes.
    #[must_use]
    pub fn queue_bytes(&self) -> usize {
        (self.bits_per_second / 8.0 * QUEUE_NS as f64 / SECOND_NS) as usize
    }

    /// When it is free.
    #[must_use]
    pub fn free_ns(&self) -> i64 {
        self.free_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn packets_pass_one_after_the_other_and_those_that_would_wait_too_long_are_lost() {
        // 1000 bytes with their heads take 10 ms.
        let mut link = Link::new(800_000.0);
        let passed: Vec<_> = (0..40).map(|_| link.datagram(972, 5 * MS)).collect();
        assert_eq!(passed[..3], [15, 25, 35].map(|ms| Some(ms * MS)));
        // Those that find more than 300 ms of others before them.
        assert_eq!((passed[30], passed[31], link.free_ns()), (Some(315 * MS), None, 315 * MS));
        assert_eq!(link.datagram(972, 400 * MS), Some(410 * MS));
    }
}
