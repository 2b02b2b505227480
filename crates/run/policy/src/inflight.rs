//! How many prefetches to keep in flight on one device, learned from how long they take.
//!
//! # Model
//!
//! A device is `c` channels that each serve one request in the time `S`. With `d` requests outstanding it
//! completes `X = min(d, c) / S` of them in a unit of time, and by Little's law (`d = X L`) each takes
//!
//! ```text
//!     L(d) = d / X = S max(1, d / c)
//! ```
//!
//! Up to `d = c` more requests in flight cost nothing; beyond, they only wait longer, and with them the
//! original's own reads. So the limit is [`IN_FLIGHT_PER_CHANNEL`] `c`. That is enough over `c` that no channel idles while
//! a completion is noticed. A demand read waits for at most about one service time more.
//!
//! # Estimate
//!
//! All quantities are kept as base-2 logarithms with 10 fractional bits. Products become sums, and one slow request
//! cannot outweigh many. The whole state packs into one word, so processes that load and store it at the same time
//! each see a consistent state.
//!
//! * *base*, the estimate of `S`: near the median of the samples with little in flight. These are completions with
//!   `d = 1` or `2 d <= c`, and demand stalls when at least two came with no completion between. It falls by a
//!   quarter of the gap (three quarters while young) and rises by 1/32, faster after a run of samples above it. So
//!   some twenty such samples show that a device became slower, and a single slow one does not. Samples taken deep
//!   in the queue move the base only if they are well below it, or so long that not even one channel explains them: `L <= d S`.
//!   So a base that fell for nothing rises, beside an original that always waits, too.
//! * *capacity*, the estimate of `c`: each completion issued in the upper half of the limit (`2 d >= limit`)
//!   suggests `c = d S / L`. A latency within 1.25 of the base says only that `c` is no smaller than `d`; that
//!   counts as 1.14 `d`, which doubles the limit. A suggestion counts as at most a factor of 2, with a weight
//!   of `4 / limit`, at most 1/2 and, but for the first 16 of them, at most 1/8.
//!
//! Requests in flight when the limit moves carry the depth at which they were issued, which bounds their suggestion.
//! So the limit at most doubles in a round trip, without a notion of rounds.
//!
//! # Behaviour
//!
//! The table is the worst of 40 simulated runs, with service times that scatter by 20 % either way and the limit kept
//! filled. `tests/inflight.rs` holds the order of these, also for service times with a long tail.
//!
//! | device | channels | stays within | reached after |
//! |---|---|---|---|
//! | 75 us | 16 | 20 to 31 | 50 completions, 0.5 ms |
//! | 1 ms | 128 | 173 to 226 | 390 completions, 13 ms |
//! | 12 ms | 4 | 5 to 8 | 5 completions, 24 ms |
//! | 1 ms | 1 | 1 to 2 | 3 completions, 6 requests issued |
//!
//! What is measured must be the device: leave out requests that were answered from memory, and count a demand
//! read of the original that is in flight as outstanding.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::price::{
    AT_ONCE_HOPED, BASE_RISE_PART, BASE_SCATTER_PART, DEVICE_YOUNG, IN_FLIGHT_FIRST, IN_FLIGHT_MAX,
    MEAN_WEIGHT, QUEUED_MAX, QUEUED_REQUESTS_MIN, QUEUED_WEIGHT, SERVED_TOLD_MIN, UNBELIEVED_MAX,
};
#[cfg(doc)]
use crate::price::{DELAYED_QUARTERS, IN_FLIGHT_PER_CHANNEL, QUEUED_TIMES};

/// 1 in the logarithms: a factor of 2.
const ONE: i32 = 1 << 10;
/// log2 of [`IN_FLIGHT_PER_CHANNEL`].
const PER_CHANNEL: i32 = 827;
/// log2 of the latency against the base up to which the queue counts as empty: [`DELAYED_QUARTERS`].
const FLAT: i32 = 330;
/// log2 of the latency against the base up to which a process of low priority is believed, and which only a queue exceeds:
/// [`QUEUED_TIMES`].
const BELIEVED: i32 = 599;
/// log2 of what an empty queue adds to a suggestion: 2 / [`IN_FLIGHT_PER_CHANNEL`].
const FLAT_CREDIT: i32 = ONE - PER_CHANNEL;
/// log2 of the capacity that makes [`IN_FLIGHT_FIRST`].
const CAPACITY_FIRST: i32 = IN_FLIGHT_FIRST.ilog2() as i32 * ONE - PER_CHANNEL;
/// log2 of half a channel: the original's own requests leave us less than one. Makes a limit of 1.
const CAPACITY_MIN: i32 = -ONE;
/// log2 of the capacity that makes [`IN_FLIGHT_MAX`].
const CAPACITY_MAX: i32 = IN_FLIGHT_MAX.ilog2() as i32 * ONE - PER_CHANNEL;
/// Samples far below the base, by more than scatter, count whatever their depth.
const BELOW_SCATTER: i32 = ONE / BASE_SCATTER_PART;
/// What one sample raises the base by.
const RISE: i32 = ONE / BASE_RISE_PART;
/// From here on the capacity is no lower bound: each request that waited for others counts [`QUEUED_WEIGHT`], and each that did not,
/// one less; at most [`QUEUED_MAX`] count.
const QUEUED_MIN: u32 = QUEUED_REQUESTS_MIN * QUEUED_WEIGHT;
/// Suggestions from which on one counts as any sample of a mean.
const SETTLED: u32 = 4 * DEVICE_YOUNG;
// Their logarithms are exact.
const _: () = assert!(IN_FLIGHT_FIRST.is_power_of_two() && IN_FLIGHT_MAX.is_power_of_two());
// The packed state has room for them.
const _: () = assert!(QUEUED_MIN <= QUEUED_MAX && QUEUED_MAX < 1 << 4 && UNBELIEVED_MAX < 1 << 3);

/// The in-flight limit of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflightLimit {
    /// log2 of the estimate of `S` in ticks; 0 while there is none.
    base: i32,
    /// log2 of the estimate of `c`.
    capacity: i32,
    /// Suggestions taken, up to 255.
    suggestions: u32,
    /// Base samples taken from completions, up to 255.
    base_samples: u32,
    /// Base samples above the base in a row, up to 15.
    above: u32,
    /// Stalls since the last completion, up to 15.
    stalls: u32,
    /// Whether the original has told nothing of the base yet.
    provisional: bool,
    /// How many requests waited for others, in the end; see [`QUEUED_MIN`].
    queued: u32,
    /// Completions that were not believed in a row, up to [`UNBELIEVED_MAX`].
    unbelieved: u32,
}

impl Default for InflightLimit {
    fn default() -> Self {
        Self::new()
    }
}

impl InflightLimit {
    /// The limit of a device of which nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            base: 0,
            capacity: CAPACITY_FIRST,
            suggestions: 0,
            base_samples: 0,
            above: 0,
            stalls: 0,
            provisional: false,
            queued: 0,
            unbelieved: 0,
        }
    }

    /// Takes the state of a device from shared memory. Zeros are a device of which nothing is known.
    #[must_use]
    #[inline]
    pub fn load(words: &[AtomicU64; 4]) -> Self {
        let [word, ..] = words;
        let word = word.load(Relaxed);
        let fresh = Self::new();
        let capacity = i32::from((word >> 16) as i16) + fresh.capacity;
        Self {
            base: i32::from(word as u16),
            capacity: capacity.clamp(CAPACITY_MIN, CAPACITY_MAX),
            suggestions: (word >> 32 & 0xff) as u32,
            base_samples: (word >> 40 & 0xff) as u32,
            above: (word >> 48 & 0xf) as u32,
            stalls: (word >> 52 & 0xf) as u32,
            provisional: word >> 56 & 1 != 0,
            queued: (word >> 57 & 0xf) as u32,
            unbelieved: (word >> 61) as u32,
        }
    }

    /// Puts the state into shared memory. Of several processes that do so at once, the last one's stays.
    #[inline]
    pub fn store(&self, words: &[AtomicU64; 4]) {
        let [word, ..] = words;
        word.store(
            u64::from(self.base as u16)
                | u64::from((self.capacity - CAPACITY_FIRST) as i16 as u16) << 16
                | u64::from(self.suggestions) << 32
                | u64::from(self.base_samples) << 40
                | u64::from(self.above) << 48
                | u64::from(self.stalls) << 52
                | u64::from(self.provisional) << 56
                | u64::from(self.queued) << 57
                | u64::from(self.unbelieved) << 61,
            Relaxed,
        );
    }

    /// Prefetches that may be in flight on the device, from 1 to [`IN_FLIGHT_MAX`].
    #[must_use]
    #[inline]
    pub fn limit(&self) -> u32 {
        let rounded = (exp2(self.capacity + PER_CHANNEL) + 512) >> 10;
        (rounded as u32).clamp(1, IN_FLIGHT_MAX)
    }

    /// Estimate of the time that one request takes with no other in flight, in ticks; 0 while unknown.
    #[must_use]
    pub fn base_ticks(&self) -> u64 {
        if self.base == 0 { 0 } else { exp2(self.base) >> 10 }
    }

    /// Estimate of how many requests the device serves at once, once there is one.
    #[must_use]
    pub fn serves_at_once(&self) -> Option<u32> {
        let rounded = (exp2(self.capacity) + 512) >> 10;
        (self.suggestions >= SERVED_TOLD_MIN).then(|| (rounded as u32).max(1))
    }

    /// The same for what is worth a trial: while requests have not waited for each other, the estimate is only a lower bound, and the
    /// device is taken to serve [`AT_ONCE_HOPED`].
    #[must_use]
    pub fn may_serve_at_once(&self) -> u32 {
        match self.serves_at_once() {
            Some(served) if self.queued >= QUEUED_MIN => served,
            served => served.unwrap_or(0).max(AT_ONCE_HOPED),
        }
    }

    /// A prefetch completed `latency_ticks` after it was issued, when `depth_at_issue` requests were
    /// outstanding including itself.
    pub fn on_completion(&mut self, latency_ticks: u64, depth_at_issue: u32) {
        self.forget_provisional();
        self.complete(latency_ticks, depth_at_issue);
    }

    fn complete(&mut self, latency_ticks: u64, depth_at_issue: u32) {
        let latency = log2(latency_ticks);
        let depth = log2(u64::from(depth_at_issue.min(4 * IN_FLIGHT_MAX)));
        self.stalls = 0;

        let shallow = depth == 0 || depth + ONE <= self.capacity;
        if shallow {
            if self.base_samples == 0 && latency > self.base && self.base != 0 {
                // So far the base is made of stalls. Meet them half way: completions are noticed later.
                self.base += (latency - self.base) / 2;
            } else {
                self.track_base(latency);
            }
            self.base_samples = (self.base_samples + 1).min(0xff);
        } else if self.base == 0 {
            self.base = latency;
        } else if latency < self.base - BELOW_SCATTER {
            self.base -= ((self.base - BELOW_SCATTER - latency) / 4).min(ONE / 2);
        } else {
            self.raise_base(latency_ticks, depth_at_issue, RISE);
        }

        if depth + ONE >= log2(u64::from(self.limit())) {
            let over = (latency - self.base).max(0);
            let suggested = depth - over + if over < FLAT { FLAT_CREDIT } else { 0 };
            self.queued = match over {
                ..FLAT => self.queued.saturating_sub(1),
                FLAT..BELIEVED => self.queued,
                _ => (self.queued + QUEUED_WEIGHT).min(QUEUED_MAX),
            };
            let youth = match self.suggestions {
                0..DEVICE_YOUNG => 1,
                DEVICE_YOUNG..SETTLED => 2,
                _ => MEAN_WEIGHT,
            };
            let shift = youth.max(29u32.saturating_sub(self.limit().leading_zeros()));
            self.capacity += (suggested - self.capacity).clamp(-ONE, ONE) >> shift;
            self.capacity = self.capacity.clamp(CAPACITY_MIN, CAPACITY_MAX);
            self.suggestions = (self.suggestions + 1).min(0xff);
        }
    }

    /// As [`InflightLimit::on_completion`], told by a process that may have had to wait for a processor before it
    /// could see the completion, and whose prefetch may have joined a read that was under way. A long latency may be
    /// the wait for a processor, and is not believed, but for many in a row; one shorter than the base says that the queue was empty, and
    /// nothing of the base, which the original's own waits tell. While they have told nothing, as those of a program that
    /// maps its files, a prefetch that nothing else was in flight with is taken for one.
    ///
    /// `slack_ticks` is what it takes to be woken on an idle machine, which counts on a device as fast as that.
    pub fn on_seen(&mut self, latency_ticks: u64, depth_at_issue: u32, slack_ticks: u64) {
        let latency_ticks = latency_ticks.saturating_sub(slack_ticks);
        if self.base == 0 {
            if latency_ticks > 0 && depth_at_issue == 1 {
                self.provisional = true;
                self.track_base(log2(latency_ticks));
            }
        } else if log2(latency_ticks) <= self.base + BELIEVED {
            self.unbelieved = 0;
            let least = if self.provisional { 0 } else { self.base_ticks() };
            self.complete(latency_ticks.max(least), depth_at_issue);
        } else if self.unbelieved < UNBELIEVED_MAX {
            self.unbelieved += 1;
        } else {
            // So many in a row did not wait for a processor: the base was told by a wait that was none.
            self.raise_base(latency_ticks, depth_at_issue, 4 * RISE);
        }
    }

    /// Even one channel serves so many requests in as many times the base.
    fn raise_base(&mut self, latency_ticks: u64, depth_at_issue: u32, most: i32) {
        let least = log2(latency_ticks) - log2(u64::from(depth_at_issue));
        self.base += (least - self.base).clamp(0, most);
    }

    /// The original waited this long for a read of its own that nothing was prefetched for.
    pub fn on_stall(&mut self, duration_ticks: u64) {
        self.forget_provisional();
        let duration = log2(duration_ticks);
        self.stalls = (self.stalls + 1).min(0xf);
        if self.base == 0 || self.stalls >= 2 || duration < self.base - BELOW_SCATTER {
            self.track_base(duration);
        }
    }

    fn forget_provisional(&mut self) {
        if self.provisional {
            *self = Self { base: 0, base_samples: 0, above: 0, provisional: false, ..*self };
        }
    }

    fn track_base(&mut self, sample: i32) {
        let sample = sample.max(1);
        let young = self.base_samples < DEVICE_YOUNG;
        if self.base == 0 {
            self.base = sample;
        } else if sample <= self.base {
            let gap = self.base - sample;
            self.base -= if young { gap - gap / 4 } else { (gap / 4).min(ONE / 2) };
            self.above = 0;
        } else {
            self.above = (self.above + 1).min(0xf);
            let step = RISE << (self.above / 4);
            self.base += step.min(sample - self.base);
        }
    }
}

/// log2 with 10 fractional bits, to 0.01; 0 for 0.
#[inline]
fn log2(value: u64) -> i32 {
    let value = value | u64::from(value == 0);
    let zeros = value.leading_zeros();
    let fraction = ((value << zeros) >> 53) as i32 & (ONE - 1);
    // log2(1 + f) is f + 0.347 f (1 - f), nearly.
    ((63 - zeros as i32) << 10) + fraction + ((fraction * (ONE - fraction)) >> 10) * 355 / ONE
}

/// 2 to the power of a logarithm, with 10 fractional bits; saturates at 0 and 2^63.
#[inline]
fn exp2(log: i32) -> u64 {
    let fraction = log & (ONE - 1);
    // 2^f is 1 + f - 0.344 f (1 - f), nearly.
    let mantissa = (ONE + fraction - ((fraction * (ONE - fraction)) >> 10) * 352 / ONE) as u64;
    match log >> 10 {
        whole @ 0..=52 => mantissa << whole,
        whole @ -10..=-1 => mantissa >> -whole,
        53.. => 1 << 63,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{BELIEVED, FLAT, ONE, PER_CHANNEL, exp2, log2};
    use crate::price::{DELAYED_QUARTERS, IN_FLIGHT_PER_CHANNEL, QUEUED_TIMES};

    #[test]
    fn logarithms_are_those_of_the_numbers_in_the_list() {
        let log = |number: f64| (number.log2() * f64::from(ONE)).round() as i32;
        let numbers = [IN_FLIGHT_PER_CHANNEL, DELAYED_QUARTERS as f64 / 4.0, QUEUED_TIMES];
        assert_eq!([PER_CHANNEL, FLAT, BELIEVED], numbers.map(log));
    }

    #[test]
    fn logarithms_are_true_to_a_hundredth_and_undone_by_powers() {
        for value in (1..100_000).chain([u64::MAX, u64::MAX / 3, 1 << 63, 1 << 40]) {
            let exact = (value as f64).log2();
            assert!((f64::from(log2(value)) / f64::from(ONE) - exact).abs() < 0.011, "{value}");
            let back = exp2(log2(value)) as f64 / f64::from(ONE);
            assert!(value > 1 << 50 || (back / value as f64 - 1.0).abs() < 0.02, "{value} {back}");
        }
        assert_eq!((log2(0), log2(1), log2(u64::MAX)), (0, 0, 0xffff));
        assert_eq!((exp2(0), exp2(-ONE), exp2(i32::MIN), exp2(i32::MAX)), (1024, 512, 0, 1 << 63));
    }
}
