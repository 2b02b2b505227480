//! The part of the recent past that was spent on something.

/// Time spent within a window that slides over time: the present bucket, and of the one before the part that
/// the window still covers.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// log2 of the bucket's length in ticks.
    shift: u32,
    bucket: u64,
    current: u64,
    previous: u64,
}

impl Window {
    pub const fn new(ticks: u64) -> Self {
        Self { shift: 63 - (ticks | 1).leading_zeros(), bucket: 0, current: 0, previous: 0 }
    }

    /// Both buckets as they stand when `bucket` is the present one.
    #[inline]
    pub fn at(&self, bucket: u64) -> (u64, u64) {
        match bucket.wrapping_sub(self.bucket) {
            0 => (self.previous, self.current),
            1 => (self.current, 0),
            // A clock that steps back a little stays in the bucket.
            u64::MAX => (self.previous, self.current),
            _ => (0, 0),
        }
    }

    pub fn add(&mut self, now: u64, ticks: u64) {
        let bucket = now >> self.shift;
        let (previous, current) = self.at(bucket);
        *self = Self { shift: self.shift, bucket, previous, current: current.saturating_add(ticks) };
    }

    /// Adds what was spent evenly from `from` to `now`.
    pub fn add_over(&mut self, from: u64, now: u64, ticks: u64) {
        let begin = now >> self.shift << self.shift;
        let length = 1u64 << self.shift;
        let part = |start: u64, end: u64| {
            let within = end.saturating_sub(start.max(from));
            let part = u128::from(ticks) * u128::from(within) / u128::from(now.saturating_sub(from).max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        if from < begin {
            self.add(begin - 1, part(begin.saturating_sub(length), begin));
        }
        self.add(now, part(begin, now));
    }

    /// A part of the window, in eighths.
    pub const fn part(&self, eighths: u64) -> u64 {
        (1 << self.shift) / 8 * eighths
    }

    /// What was spent within the window.
    #[inline]
    pub fn spent(&self, now: u64) -> u64 {
        let length = 1u64 << self.shift;
        let (previous, current) = self.at(now >> self.shift);
        let gone = now & (length - 1);
        let remaining = (u128::from(previous) * u128::from(length - gone)) >> self.shift;
        u64::try_from(remaining).unwrap_or(u64::MAX).saturating_add(current)
    }

    /// Whether at least 1/50 of the window, or of `age` if that is shorter, was spent.
    #[inline]
    pub fn at_least_a_fiftieth(&self, now: u64, age: u64) -> bool {
        let spent = self.spent(now);
        spent > 0 && u128::from(spent) * 50 >= u128::from((1u64 << self.shift).min(age))
    }
}
