//! How large the buffers of a stream are: what memory saves of the disk's time.
//!
//! # The arithmetic
//!
//! A disk takes `L + B / R` to read `B` bytes at once: `L` to come there, `R` bytes per second from there on; both are
//! measured at every read ([`Device`]). A stream of `r` bytes per second with buffers of `B` bytes reads `r / B` times a
//! second, so it takes of every second of the disk
//!
//! ```text
//!   u = r (L / B + 1 / R)
//! ```
//!
//! One byte more in its buffers saves `r L / B^2` of that. For a sum of memory `M = n (B1 + B2 + ...)` with `n` buffers for
//! each stream, the sum of all `u` is least where that saving is the same everywhere, or any byte would be better elsewhere:
//!
//! ```text
//!   B = M / n * sqrt(r L) / (sqrt(r1 L1) + sqrt(r2 L2) + ...)
//! ```
//!
//! So a stream of four times the rate has buffers twice as large, and files in the page cache, where `L` is small, leave the
//! memory to those that come from a slow disk. Two bounds hold on either side:
//!
//! - No less than the stream takes while a slow read lasts, or its other buffers would be drained before: `r` times the time
//!   that one read in a hundred exceeds, times two for the queue before it.
//! - No more than is of use: where a stream takes a ten-thousandth of the disk's time only, a stall can hardly be saved.
//!
//! `L` has what it costs to hand a buffer to a thread and back, too, or there would be no end of small ones where files are
//! in memory.

/// The least buffer, in bytes.
pub const BYTES_MIN: u64 = 4 << 10;
/// The largest.
pub const BYTES_MAX: u64 = 8 << 20;
/// The least time that a buffer lasts, in seconds: for timers and threads that are late.
const SECONDS_MIN: f64 = 0.1;
/// The longest. What a client that seeks or leaves had in its buffers was read in vain.
const SECONDS_MAX: f64 = 4.0;
/// The share of a disk's time that a stream may take without being given more memory.
const SHARE_MIN: f64 = 0.0001;
/// What it takes to hand a buffer over and back, in seconds.
const HANDOVER_S: f64 = 25e-6;
/// How much a new measurement counts.
const WEIGHT: f64 = 1.0 / 64.0;

/// What reads from a disk take, by what was measured.
#[derive(Clone, Debug)]
pub struct Device {
    mean_s: f64,
    mean_bytes: f64,
    covariance: f64,
    variance: f64,
    slow_s: f64,
    reads: u64,
}

impl Default for Device {
    /// One that nothing is known of is taken for a disk that has to move its head.
    fn default() -> Device {
        Device { mean_s: 0.01, mean_bytes: 65536.0, covariance: 0.0, variance: 0.0, slow_s: 0.03, reads: 0 }
    }
}

impl Device {
    /// A read of so many bytes took so long, with its time in the disk's queue.
    pub fn note(&mut self, bytes: u64, elapsed_ns: u64) {
        let (bytes, seconds) = (bytes as f64, elapsed_ns as f64 / 1e9);
        self.reads += 1;
        let weight = WEIGHT.max(1.0 / self.reads as f64);
        let (off_bytes, off_s) = (bytes - self.mean_bytes, seconds - self.mean_s);
        self.mean_bytes += weight * off_bytes;
        self.mean_s += weight * off_s;
        self.variance = (1.0 - weight) * (self.variance + weight * off_bytes * off_bytes);
        self.covariance = (1.0 - weight) * (self.covariance + weight * off_bytes * off_s);
        // Goes up by 99 parts for each slower read, down by one for each faster: one read in a hundred is slower.
        let step = self.slow_s.max(seconds) * 0.02;
        self.slow_s += if seconds > self.slow_s { 0.99 * step } else { -0.01 * step };
    }

    /// Seconds for each byte, once a read has begun. 0 if all reads were of one size.
    fn seconds_per_byte(&self) -> f64 {
        if self.variance > 1.0 { (self.covariance / self.variance).max(0.0) } else { 0.0 }
    }

    /// `L`: what a read takes before its first byte, in seconds.
    pub fn latency_s(&self) -> f64 {
        (self.mean_s - self.seconds_per_byte() * self.mean_bytes).max(self.mean_s * 0.1) + HANDOVER_S
    }

    /// What one read in a hundred exceeds, in seconds.
    pub fn slow_s(&self) -> f64 {
        self.slow_s
    }
}

/// The memory of all buffers.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes: u64,
    buffers: u64,
    devices: Vec<(Device, f64)>,
    /// What all streams need at least.
    least_bytes: f64,
}

/// A stream's share of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    device: usize,
    bytes_per_second: f64,
}

impl Budget {
    /// `bytes` of memory for streams of so many buffers.
    pub fn new(bytes: u64, buffers: usize) -> Budget {
        Budget { bytes, buffers: buffers.max(1) as u64, devices: Vec::new(), least_bytes: 0.0 }
    }

    /// Has it be another sum; buffers that there are stay as they are.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Another disk: its number.
    pub fn add_device(&mut self) -> usize {
        self.devices.push((Device::default(), 0.0));
        self.devices.len() - 1
    }

    /// What was measured of a disk.
    pub fn device(&mut self, device: usize) -> Option<&mut Device> {
        self.devices.get_mut(device).map(|(device, _)| device)
    }

    /// Whether there is room for a stream of so many bytes per second.
    pub fn has_room(&self, bytes_per_second: u64) -> bool {
        self.least_bytes + self.least(bytes_per_second as f64) <= self.bytes as f64
    }

    /// What a stream needs at least, in all of its buffers.
    fn least(&self, bytes_per_second: f64) -> f64 {
        self.buffers as f64 * (bytes_per_second * SECONDS_MIN).max(BYTES_MIN as f64)
    }

    /// A stream from a disk that begins.
    pub fn enter(&mut self, device: usize, bytes_per_second: u64) -> Share {
        let share = Share { device, bytes_per_second: bytes_per_second.max(1) as f64 };
        self.least_bytes += self.least(share.bytes_per_second);
        if let Some((_, roots)) = self.devices.get_mut(device) {
            *roots += share.bytes_per_second.sqrt();
        }
        share
    }

    /// One that ends.
    pub fn leave(&mut self, share: Share) {
        self.least_bytes = (self.least_bytes - self.least(share.bytes_per_second)).max(0.0);
        if let Some((_, roots)) = self.devices.get_mut(share.device) {
            *roots = (*roots - share.bytes_per_second.sqrt()).max(0.0);
        }
    }

    /// How large each of its buffers should be, in bytes, as things stand.
    pub fn buffer_bytes(&self, share: Share) -> u64 {
        let Some((device, _)) = self.devices.get(share.device) else { return BYTES_MIN };
        let (rate, latency_s) = (share.bytes_per_second, device.latency_s());
        let all: f64 = self.devices.iter().map(|(device, roots)| roots * device.latency_s().sqrt()).sum();
        let best = self.bytes as f64 / self.buffers as f64 * (rate * latency_s).sqrt() / all.max(1e-9);
        let of_use = (rate * latency_s / SHARE_MIN).min(rate * SECONDS_MAX);
        let least = rate * (2.0 * device.slow_s()).clamp(SECONDS_MIN, SECONDS_MAX);
        // Where memory is short, it is shared as is best, down to what no stream can do without.
        let wanted = best.min(of_use.max(least)).max(rate * SECONDS_MIN);
        (wanted as u64).clamp(BYTES_MIN, BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(latency_s: f64, bytes_per_second: f64) -> Device {
        let mut device = Device::default();
        for number in 0..2000_u64 {
            let bytes = 10_000 + number * 7919 % 90_000;
            device.note(bytes, ((latency_s + bytes as f64 / bytes_per_second) * 1e9) as u64);
        }
        device
    }

    #[test]
    fn latency_and_rate_of_a_disk_are_told_apart() {
        let device = measured(0.012, 50e6);
        assert!((device.latency_s() - 0.012).abs() < 0.001, "{device:?}");
        assert!((device.seconds_per_byte() * 50e6 - 1.0).abs() < 0.1, "{device:?}");
        assert!((0.012..0.03).contains(&device.slow_s()), "{device:?}");
    }

    #[test]
    fn one_read_in_a_hundred_is_slow() {
        let mut device = Device::default();
        for number in 0..20_000 {
            device.note(65_536, if number % 50 == 0 { 100_000_000 } else { 1_000_000 });
        }
        assert!(device.slow_s() > 0.05, "{device:?}");
    }

    /// The time that a disk spends on streams with such buffers, as a share.
    fn disk_time(streams: &[(f64, f64, f64)]) -> f64 {
        streams.iter().map(|(rate, latency_s, bytes)| rate * latency_s / bytes).sum()
    }

    #[test]
    fn no_other_division_of_the_same_memory_saves_more_of_the_disk() {
        let mut budget = Budget::new(2 << 20, 2);
        let (slow, fast) = (budget.add_device(), budget.add_device());
        *budget.device(slow).expect("a disk") = measured(0.03, 1e9);
        *budget.device(fast).expect("a disk") = measured(0.003, 1e9);
        let shares: Vec<_> = [(slow, 300_000), (slow, 75_000), (fast, 300_000)]
            .map(|(disk, rate)| budget.enter(disk, rate))
            .into();
        let sizes: Vec<f64> = shares.iter().map(|share| budget.buffer_bytes(*share) as f64).collect();
        assert!((sizes[0] / sizes[1] - 2.0).abs() < 0.01, "{sizes:?}");
        assert!((sizes[0] / sizes[2] - 10f64.sqrt()).abs() < 0.3, "{sizes:?}");
        let sum: f64 = sizes.iter().sum();
        assert!((2.0 * sum / f64::from(2 << 20) - 1.0).abs() < 0.01, "{sizes:?}");
        let time = |sizes: &[f64]| {
            let facts = [(300_000.0, 0.03), (75_000.0, 0.03), (300_000.0, 0.003)];
            let streams: Vec<_> =
                facts.iter().zip(sizes).map(|((rate, latency), bytes)| (*rate, *latency, *bytes)).collect();
            disk_time(&streams)
        };
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            let mut other = sizes.clone();
            other[from] -= 10_000.0;
            other[to] += 10_000.0;
            assert!(time(&other) > time(&sizes), "{from} {to}");
        }
    }

    #[test]
    fn files_in_memory_take_no_more_than_is_of_use() {
        let mut budget = Budget::new(1 << 30, 2);
        let disk = budget.add_device();
        *budget.device(disk).expect("a disk") = measured(20e-6, 5e9);
        let share = budget.enter(disk, 500_000);
        let bytes = budget.buffer_bytes(share);
        assert!((150_000..300_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn thousands_of_small_streams_fit_and_more_are_refused() {
        let mut budget = Budget::new(64 << 20, 2);
        let disk = budget.add_device();
        let mut shares = Vec::new();
        for _ in 0..5000 {
            assert!(budget.has_room(25_000));
            shares.push(budget.enter(disk, 25_000));
        }
        let sum: u64 = shares.iter().map(|share| 2 * budget.buffer_bytes(*share)).sum();
        assert!(sum <= 64 << 20, "{sum}");
        while budget.has_room(25_000) && shares.len() < 100_000 {
            shares.push(budget.enter(disk, 25_000));
        }
        assert!((8_000..20_000).contains(&shares.len()), "{}", shares.len());
        shares.drain(..).for_each(|share| budget.leave(share));
        assert!(budget.has_room(25_000));
    }
}
