//! How long a stall on one device takes while no hint is in flight there, and how long a page fault takes.
//!
//! # Model
//!
//! The estimate is the mean of all such stalls, and later an exponentially weighted one. Each device has its own: a program's
//! start and its data may lie on devices of which one is twenty times as fast. All processes of a run share the estimates.
//!
//! A stall counts as at most [`STALL_TIMES_MAX`] times the mean. One wait of seconds says nothing of the stalls to come.
//!
//! Times are in ticks.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::price::{DELAYED_QUARTERS, IN_FLIGHT_MAX, MEAN_WEIGHT, PRICE_ONE, STALL_TIMES_MAX, mean};

/// The time of a stall on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallTime {
    mean: u64,
    count: u32,
}

/// Bits of the word that hold the mean: three days in nanoseconds.
const MEAN_BITS: u32 = 48;
/// The longest mean.
const MEAN_MAX: u64 = (1 << MEAN_BITS) - 1;

impl StallTime {
    /// Takes the estimate out of shared memory. Any word is some valid estimate, and 0 is none.
    #[must_use]
    pub fn load(word: &AtomicU64) -> Self {
        let word = word.load(Relaxed);
        Self { mean: word & MEAN_MAX, count: (word >> MEAN_BITS) as u32 }
    }

    /// Puts it there. Of several processes that do so at once, the last one's stays.
    pub fn store(self, word: &AtomicU64) {
        word.store(self.mean | u64::from(self.count.min(0xffff)) << MEAN_BITS, Relaxed);
    }

    /// A stall took `duration` while no hint was in flight on the device.
    pub fn on_stall(&mut self, duration: u64) {
        self.count = self.count.saturating_add(1);
        let duration = duration.min(MEAN_MAX);
        let counted =
            if self.count == 1 { duration } else { duration.min(self.mean.saturating_mul(STALL_TIMES_MAX)) };
        self.mean = match self.count {
            1 => counted,
            count => mean(self.mean, counted, count.ilog2().min(MEAN_WEIGHT)),
        };
    }

    /// What a stall takes; 0 before the first.
    #[must_use]
    pub const fn ticks(self) -> u64 {
        self.mean
    }

    /// How much longer than alone a stall of `duration` was, if that is known; negative where it was shorter.
    #[must_use]
    pub fn delay(self, duration: u64) -> Option<i64> {
        if self.count == 0 {
            return None;
        }
        let usual = self.mean / 4 * DELAYED_QUARTERS;
        // No more hints are in flight that it can wait for.
        let counted = duration.min(self.mean.saturating_mul(IN_FLIGHT_MAX.into()));
        i64::try_from(i128::from(counted) - i128::from(usual)).ok()
    }
}

/// How long the page faults of a process take. The kernel tells no more than how long a thread was away from its processor, how often
/// it gave the processor up, and how many faults it had. A fault that waits gives the processor up once. So where a thread did so
/// more often it waited for something else, too, and its faults took what others did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultTime(StallTime);

impl FaultTime {
    /// None is known.
    #[must_use]
    pub const fn new() -> Self {
        Self(StallTime { mean: 0, count: 0 })
    }

    /// A thread had so many faults, and gave its processor up `yields` times, for `away` in all. What each fault took, if that is
    /// known.
    pub fn on_faults(&mut self, faults: u64, yields: u64, away: u64) -> Option<u64> {
        let most = away.checked_div(faults)?;
        if yields <= faults {
            self.0.on_stall(most);
            return Some(most);
        }
        Some(self.0.ticks()).filter(|mean| *mean > 0).map(|mean| mean.min(most))
    }
}

/// Hints of which not each one spares a stall: what many of them name is read at once, for the first of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spared {
    /// Parts of a stall that are left over, in 1/[`PRICE_ONE`].
    parts: u64,
}

impl Spared {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { parts: 0 }
    }

    /// So many more hints were used, where `read` of `steps` made the device read. The stalls that they spared.
    pub fn add(&mut self, used: u64, read: u64, steps: u64) -> u64 {
        const ONE: u64 = PRICE_ONE.unsigned_abs();
        let part = u128::from(read.min(steps)) * u128::from(ONE);
        let part = part.checked_div(steps.into()).unwrap_or(ONE.into());
        let parts = part * u128::from(used) + u128::from(self.parts.min(ONE));
        self.parts = (parts % u128::from(ONE)) as u64;
        u64::try_from(parts / u128::from(ONE)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_spare_as_many_stalls_as_made_the_device_read() {
        let spared = |read, steps| {
            let mut spared = Spared::new();
            (0..1_000).map(|_| spared.add(1, read, steps)).sum::<u64>()
        };
        assert_eq!(
            [(0, 0), (7, 7), (1, 2), (0, 9), (9, 1)].map(|(read, steps)| spared(read, steps)),
            [1_000, 1_000, 500, 0, 1_000]
        );
        assert!((330..=334).contains(&spared(1, 3)));
        assert_eq!(Spared { parts: u64::MAX }.add(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn what_a_thread_waits_for_between_its_faults_is_no_part_of_them() {
        let mut time = FaultTime::new();
        assert_eq!(time.on_faults(1, 2, 101 * MS), None, "nothing is known");
        assert_eq!(time.on_faults(4, 4, 4 * MS), Some(MS));
        for _ in 0..1_000 {
            assert_eq!(time.on_faults(1, 2, 101 * MS), Some(MS));
        }
        assert_eq!(time.on_faults(2, 3, MS), Some(MS / 2), "no more than it was away");
        assert_eq!(time.on_faults(1, 1, 3 * MS), Some(3 * MS), "they may take longer now");
        assert_eq!(time.on_faults(0, 0, MS), None);
    }

    fn after(durations: impl IntoIterator<Item = u64>) -> StallTime {
        let mut time = StallTime::default();
        durations.into_iter().for_each(|duration| time.on_stall(duration));
        time
    }

    #[test]
    fn the_first_stall_is_what_they_take() {
        assert_eq!(after([MS]).ticks(), MS);
    }

    #[test]
    fn a_wait_of_minutes_counts_as_a_few_stalls() {
        let time = after([MS; 100].into_iter().chain([60_000 * MS]));
        assert!(time.ticks() < 3 * MS / 2, "{time:?}");
    }

    #[test]
    fn a_device_that_changes_is_known_after_some_more_stalls() {
        let time = after([MS / 20; 1_000].into_iter().chain([MS; 100]));
        assert!(time.ticks() > MS * 95 / 100, "{time:?}");
    }

    #[test]
    fn a_delay_is_what_exceeds_the_scatter() {
        let time = after([MS; 10]);
        assert_eq!(time.delay(5 * MS), Some(15 * MS as i64 / 4));
        assert!(time.delay(MS).is_some_and(|delay| delay < 0), "a shorter stall makes up for it");
        assert_eq!(
            time.delay(u64::MAX),
            Some(((u64::from(IN_FLIGHT_MAX) - 1) * MS - MS / 4) as i64),
            "a longer one waits for something else"
        );
        assert_eq!(after([]).delay(100 * MS), None);
    }

    #[test]
    fn any_word_is_some_estimate() {
        for word in [0, 1, u64::MAX, 1 << 63, 0xffff << 48] {
            let mut time = StallTime::load(&AtomicU64::new(word));
            time.on_stall(u64::MAX);
            let _ = (time.ticks(), time.delay(u64::MAX));
            let kept = AtomicU64::new(0);
            time.store(&kept);
            assert_eq!(StallTime::load(&kept).ticks(), time.ticks());
        }
    }
}
