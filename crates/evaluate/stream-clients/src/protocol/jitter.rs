//! Interarrival jitter (RFC 3550, section 6.4.1 and appendix A.8).

/// The smoothed difference of packets' distances on arrival from those of their timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    before_ns: Option<i64>,
    ns: f64,
}

impl Jitter {
    /// Takes a packet's lateness by any clock that is the same for all, in nanoseconds.
    pub fn take(&mut self, offset_ns: i64) {
        if let Some(before_ns) = self.before_ns.replace(offset_ns) {
            self.ns += ((offset_ns - before_ns).abs() as f64 - self.ns) / 16.0;
        }
    }

    /// What comes next is not to be compared with what came.
    pub fn restart(&mut self) {
        self.before_ns = None;
    }

    /// The jitter by now, in nanoseconds.
    #[must_use]
    pub fn ns(&self) -> f64 {
        self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_computed_by_hand() {
        let mut jitter = Jitter::default();
        jitter.take(1_000);
        assert_eq!(jitter.ns(), 0.0);
        // |D| = 160: 160/16 = 10. Then |D| = 80: 10 + (80 - 10)/16 = 14.375. Then 0: 14.375 - 14.375/16.
        jitter.take(1_160);
        assert_eq!(jitter.ns(), 10.0);
        jitter.take(1_080);
        assert_eq!(jitter.ns(), 14.375);
        jitter.take(1_080);
        assert_eq!(jitter.ns(), 13.476_562_5);
    }

    #[test]
    fn a_constant_delay_is_no_jitter_and_a_new_beginning_no_jump() {
        let mut jitter = Jitter::default();
        (0..100).for_each(|_| jitter.take(5_000));
        jitter.restart();
        jitter.take(9_000_000);
        assert_eq!(jitter.ns(), 0.0);
    }
}
