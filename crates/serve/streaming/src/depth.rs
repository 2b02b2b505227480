//! How large the buffers of a stream are: what memory saves of the disk's time.
//!
//! # The arithmetic
//!
//! A disk takes `L + B / R` to read `B` bytes at once: `L` to get there, `R` bytes per second from there on; both are
//! measured at every read ([`Device`]). A stream of `r` bytes per second with buffers of `B` bytes reads `r / B` times a
//! second, so it takes of every second of the disk
//!
//! ```text
//!   u = r (L / B + 1 / R)
//! ```
//!
//! One byte more in its buffers saves `r L / B^2` of that. Let the sum of memory be `M = h (B1 + B2 + ...)`, where each stream
//! holds the bytes of `h` buffers. The sum of all `u` is least where that saving is the same for all streams; otherwise a byte
//! would save more elsewhere:
//!
//! ```text
//!   B = M / h * sqrt(r L) / (sqrt(r1 L1) + sqrt(r2 L2) + ...)
//! ```
//!
//! So a stream of four times the rate has buffers twice as large. Files in the page cache, where `L` is small, leave the memory
//! to files on a slow disk. There is a bound on either side:
//!
//! - No less than the stream takes while a slow read lasts, or it drains its other buffers earlier. That is `r` times the time
//!   that one read in a hundred exceeds, times two for the queue before it.
//! - No more than is of use: where a stream takes a ten-thousandth of the disk's time only, a stall can hardly be saved.
//!
//! # How many buffers a stream holds
//!
//! With one, `h = 1`: it is a stream's own, from when it is read until all of it has been sent. With two it would be 2, if the second were
//! filled while the first is full, and given back as a whole. But a second buffer is of no use before it can be missed. It is
//! asked for `lead` before the first is empty, time enough for a slow read, and buffers are given back in `p` parts as they
//! are sent. So a stream's memory is a saw: from a buffer and `r lead` down to `r lead`, a part at a time, which is
//!
//! ```text
//!   B (p + 1) / 2p + r lead
//! ```
//!
//! on average. Streams begin at any time, so their sum is hardly more than that. For `s` streams its standard deviation is that
//! of a saw, `B sqrt(s / 12)`, and one of those is left free. A hundred streams hold 0.59 buffers each of two in eight parts:
//! less than of one. [`Pool`](crate::pool::Pool) keeps the sum within bounds even when many streams are at their peaks: then
//! smaller buffers are filled.
//!
//! There is room for another stream as long as each stream can hold that much of buffers of a tenth of a second. A part of such
//! a buffer is a picture at least.
//!
//! `L` has what it costs to hand a buffer to a thread and back, too, or there would be no end of small ones where files are
//! in memory.

/// The least buffer, in bytes.
pub const BYTES_MIN: u64 = 4 << 10;
/// The largest.
pub const BYTES_MAX: u64 = 8 << 20;
/// The least time that a buffer lasts, in seconds, and that it is asked for before the others are empty where memory is not
/// short: for timers and threads that are late.
const SECONDS_MIN: f64 = 0.1;
/// The longest. What a client that seeks or leaves had in its buffers was read in vain.
const SECONDS_MAX: f64 = 4.0;
/// How long before the others are empty a buffer is asked for at least, in seconds, where memory is short and reads are fast.
const LEAD_MIN: f64 = 0.03;
/// Pictures in a second, of most films.
const PICTURES_PER_SECOND: f64 = 25.0;
/// The share of a disk's time that a stream may take without being given more memory.
const SHARE_MIN: f64 = 0.0001;
/// What it takes to hand a buffer over and back, in seconds.
const HANDOVER_S: f64 = 25e-6;
/// Parts of a buffer where memory is short: more save little.
pub const PARTS: u64 = 8;
/// What the kernel reads of a file with one request to a disk, wherever in a page it begins: a request has 128 pages (the
/// kernel's `BLK_MAX_SEGMENTS`).
const REQUEST_BYTES: u64 = 127 << 12;
/// Standard deviations of what streams hold together that are left free.
const DEVIATIONS: f64 = 1.0;
/// How much of the memory may be what streams have left when they ask for a buffer, as a part of it.
const LEAD_PART: f64 = 0.125;
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
    fn default() -> Self {
        Self { mean_s: 0.01, mean_bytes: 65536.0, covariance: 0.0, variance: 0.0, slow_s: 0.03, reads: 0 }
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
    buffers: usize,
    devices: Vec<Load>,
    streams: usize,
    /// What all streams hold at least, by what each has.
    least: Least,
}

/// What a stream holds at least, or several of them.
#[derive(Clone, Copy, Debug, Default)]
struct Least {
    /// On average.
    bytes: f64,
    /// Its variance.
    variance: f64,
}

/// A disk, and the streams from it.
#[derive(Clone, Debug, Default)]
struct Load {
    device: Device,
    /// Of each stream's rate the square root, added up.
    roots: f64,
    /// Their rates.
    bytes_per_second: f64,
}

/// How a stream's next buffer should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    /// How large, in bytes.
    pub bytes: u64,
    /// How large the parts are in which it is given back.
    pub part_bytes: u64,
    /// How long before the others are empty it is to be asked for, at most.
    pub lead_ns: u64,
}

impl Default for Depth {
    /// Of a stream that nothing is known of.
    fn default() -> Self {
        Self { bytes: BYTES_MIN, part_bytes: BYTES_MIN, lead_ns: 0 }
    }
}

/// A stream's share of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    device: usize,
    bytes_per_second: f64,
}

impl Budget {
    /// `bytes` of memory for streams of so many buffers.
    pub fn new(bytes: u64, buffers: usize) -> Self {
        let buffers = buffers.max(1);
        Self { bytes, buffers, devices: Vec::new(), streams: 0, least: Least::default() }
    }

    /// Has it be another sum; buffers that there are stay as they are.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Another disk: its number.
    pub fn add_device(&mut self) -> usize {
        self.devices.push(Load::default());
        self.devices.len() - 1
    }

    /// What was measured of a disk.
    pub fn device(&mut self, device: usize) -> Option<&mut Device> {
        self.devices.get_mut(device).map(|load| &mut load.device)
    }

    /// Whether there is room for a stream of so many bytes per second, in place of one that there is. For no more than that one
    /// has, there is always room.
    pub fn has_room(&self, bytes_per_second: u64, instead_of: Option<Share>) -> bool {
        let (wanted, had) = (bytes_per_second as f64, instead_of.map_or(0.0, |share| share.bytes_per_second));
        let buffers = self.least.without(self.least(had)).with(self.least(wanted)).in_all();
        let leads = self.devices.iter().map(|load| load.bytes_per_second * self.lead_min_s(&load.device));
        // The device of the new stream is not known.
        let slowest = self.devices.iter().map(|load| self.lead_min_s(&load.device)).fold(0.0, f64::max);
        let leads = leads.sum::<f64>() + (wanted - had) * slowest;
        wanted <= had || buffers + leads <= self.bytes as f64
    }

    /// What a stream holds at least, beside what it has left when it asks for a buffer.
    fn least(&self, bytes_per_second: f64) -> Least {
        if bytes_per_second == 0.0 {
            return Least::default();
        }
        let buffer = (bytes_per_second * SECONDS_MIN).max(BYTES_MIN as f64);
        if self.buffers == 1 {
            return Least { bytes: buffer, variance: 0.0 };
        }
        let pictures = SECONDS_MIN * PICTURES_PER_SECOND;
        let parts = (buffer / BYTES_MIN as f64).min(pictures).min(PARTS as f64);
        let others = (self.buffers - 2) as f64 * buffer;
        Least { bytes: others + buffer * of_two(parts), variance: buffer * buffer / 12.0 }
    }

    /// A stream from a disk that begins.
    pub fn enter(&mut self, device: usize, bytes_per_second: u64) -> Share {
        let share = Share { device, bytes_per_second: bytes_per_second.max(1) as f64 };
        self.least = self.least.with(self.least(share.bytes_per_second));
        self.streams += 1;
        if let Some(load) = self.devices.get_mut(device) {
            load.roots += share.bytes_per_second.sqrt();
            load.bytes_per_second += share.bytes_per_second;
        }
        share
    }

    /// One that ends.
    pub fn leave(&mut self, share: Share) {
        self.least = self.least.without(self.least(share.bytes_per_second));
        self.streams = self.streams.saturating_sub(1);
        if let Some(load) = self.devices.get_mut(share.device) {
            load.roots = (load.roots - share.bytes_per_second.sqrt()).max(0.0);
            load.bytes_per_second = (load.bytes_per_second - share.bytes_per_second).max(0.0);
        }
    }

    /// How its next buffer should be, as things stand; of so many bytes if it is fixed.
    pub fn depth(&self, share: Share, fixed_bytes: Option<u64>) -> Depth {
        let Some(Load { device, .. }) = self.devices.get(share.device) else { return Depth::default() };
        let best = self.best_bytes(share);
        let wanted = best.min(self.useful_bytes(share)).max(share.bytes_per_second * SECONDS_MIN);
        let bytes = fixed_bytes.unwrap_or((wanted as u64).clamp(BYTES_MIN, BYTES_MAX));
        // Where there is memory for all of them, nothing is to be saved.
        let is_enough = self.buffers as f64 * bytes as f64 <= best * self.held_buffers();
        if is_enough && wanted < best {
            let bytes = fixed_bytes.unwrap_or(rounded(bytes));
            return Depth { bytes, part_bytes: bytes, lead_ns: u64::MAX };
        }
        let bytes = fixed_bytes.unwrap_or(whole_requests(bytes));
        let lead_ns = (self.lead_s(device) * 1e9) as u64;
        Depth { bytes, part_bytes: (bytes / PARTS).max(BYTES_MIN), lead_ns }
    }

    /// What saves most of the disks' time. Where memory is short, it is shared so, down to what no stream can do without.
    fn best_bytes(&self, share: Share) -> f64 {
        let root = |load: &Load| load.device.latency_s().sqrt();
        let all: f64 = self.devices.iter().map(|load| load.roots * root(load)).sum();
        let own = self.devices.get(share.device).map_or(0.0, root) * share.bytes_per_second.sqrt();
        self.shared_bytes() / self.held_buffers() * own / all.max(1e-9)
    }

    /// More than this is of no use.
    fn useful_bytes(&self, share: Share) -> f64 {
        let Some(Load { device, .. }) = self.devices.get(share.device) else { return 0.0 };
        let rate = share.bytes_per_second;
        let of_use = (rate * device.latency_s() / SHARE_MIN).min(rate * SECONDS_MAX);
        let least = rate * (2.0 * device.slow_s()).clamp(SECONDS_MIN, SECONDS_MAX);
        of_use.max(least)
    }

    /// What is left of the memory beside what streams have when they ask for a buffer.
    fn shared_bytes(&self) -> f64 {
        let is_asked_before = self.buffers > 1;
        let loads = self.devices.iter().filter(|_| is_asked_before);
        let left: f64 = loads.map(|load| load.bytes_per_second * self.lead_s(&load.device)).sum();
        (self.bytes as f64 - left).max(self.bytes as f64 / 2.0)
    }

    /// How many buffers a stream holds on average, and what is left free for chance.
    fn held_buffers(&self) -> f64 {
        if self.buffers == 1 {
            return 1.0;
        }
        let free = DEVIATIONS / (12.0 * self.streams.max(1) as f64).sqrt();
        (self.buffers - 2) as f64 + (of_two(PARTS as f64) + free).min(2.0)
    }

    /// How long before its other buffers are empty a stream asks for one: longer than a slow read and the queue before it take,
    /// but where memory is short, not as long as would cost all of it.
    fn lead_s(&self, device: &Device) -> f64 {
        let rates: f64 = self.devices.iter().map(|load| load.bytes_per_second).sum();
        let affordable = self.bytes as f64 * LEAD_PART / rates.max(1.0);
        let wanted = (2.0 * device.slow_s()).clamp(SECONDS_MIN, SECONDS_MAX);
        wanted.min(affordable).max(self.lead_min_s(device))
    }

    /// The same, however short memory is: what a slow read takes, if that is not very long. One buffer is missed anyway.
    fn lead_min_s(&self, device: &Device) -> f64 {
        if self.buffers == 1 { 0.0 } else { device.slow_s().clamp(LEAD_MIN, SECONDS_MIN) }
    }
}

impl Least {
    fn with(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, variance: self.variance + other.variance }
    }

    fn without(self, other: Self) -> Self {
        let less = |one: f64, other: f64| (one - other).max(0.0);
        Self { bytes: less(self.bytes, other.bytes), variance: less(self.variance, other.variance) }
    }

    /// With what is left free for chance.
    fn in_all(self) -> f64 {
        self.bytes + DEVIATIONS * self.variance.sqrt()
    }
}

/// How many of two buffers a stream holds on average that are given back in so many parts.
fn of_two(parts: f64) -> f64 {
    (parts + 1.0) / (2.0 * parts)
}

/// A little more than some requests would be another one.
fn whole_requests(bytes: u64) -> u64 {
    if bytes < REQUEST_BYTES { bytes } else { bytes / REQUEST_BYTES * REQUEST_BYTES }
}

/// Less by a quarter at most, where that costs nothing: memory is found again where sizes are few.
fn rounded(bytes: u64) -> u64 {
    let step = 1 << (u64::BITS - bytes.leading_zeros()).saturating_sub(3);
    bytes / step * step
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
        let mut budget = Budget::new(1 << 20, 1);
        let (slow, fast) = (budget.add_device(), budget.add_device());
        *budget.device(slow).expect("a disk") = measured(0.03, 1e9);
        *budget.device(fast).expect("a disk") = measured(0.003, 1e9);
        let shares: Vec<_> = [(slow, 300_000), (slow, 75_000), (fast, 300_000)]
            .map(|(disk, rate)| budget.enter(disk, rate))
            .into();
        let sizes: Vec<f64> = shares.iter().map(|share| budget.best_bytes(*share)).collect();
        assert!((sizes[0] / sizes[1] - 2.0).abs() < 0.01, "{sizes:?}");
        assert!((sizes[0] / sizes[2] - 10f64.sqrt()).abs() < 0.3, "{sizes:?}");
        let sum: f64 = sizes.iter().sum();
        assert!((budget.held_buffers() * sum / f64::from(1 << 20) - 1.0).abs() < 0.01, "{sizes:?}");
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
    fn two_buffers_are_larger_than_one_of_the_same_memory() {
        let depth = |buffers, streams| {
            let mut budget = Budget::new(72 << 20, buffers);
            let disk = budget.add_device();
            *budget.device(disk).expect("a disk") = measured(0.012, 1e9);
            let shares: Vec<_> = (0..streams).map(|_| budget.enter(disk, 500_000)).collect();
            budget.depth(shares[0], None)
        };
        for streams in [100, 200] {
            let (one, two, three) = (depth(1, streams), depth(2, streams), depth(3, streams));
            assert!(two.bytes as f64 > 1.2 * one.bytes as f64, "{one:?} {two:?}");
            assert!(three.bytes < one.bytes && three.bytes * 2 > one.bytes, "{one:?} {three:?}");
            assert_eq!((one.part_bytes, two.part_bytes), (one.bytes / PARTS, two.bytes / PARTS));
        }
        // Of few, two may be full at the same time.
        assert!(depth(2, 36).bytes <= depth(1, 36).bytes * 3 / 2);
    }

    #[test]
    fn files_in_memory_take_no_more_than_is_of_use() {
        let mut budget = Budget::new(1 << 30, 2);
        let disk = budget.add_device();
        *budget.device(disk).expect("a disk") = measured(20e-6, 5e9);
        let share = budget.enter(disk, 500_000);
        let bytes = budget.depth(share, None).bytes;
        assert!((150_000..300_000).contains(&bytes), "{bytes}");
    }

    fn streams_with_room(buffers: usize, latency_s: f64, bytes_per_second: u64) -> usize {
        let mut budget = Budget::new(72 << 20, buffers);
        let disk = budget.add_device();
        *budget.device(disk).expect("a disk") = measured(latency_s, 1e9);
        while budget.has_room(bytes_per_second, None) {
            let _ = budget.enter(disk, bytes_per_second);
        }
        let share = Share { device: disk, bytes_per_second: bytes_per_second as f64 };
        let depth = budget.depth(share, None);
        let lead = bytes_per_second as f64 * depth.lead_ns as f64 / 1e9;
        let held = depth.bytes as f64 * budget.held_buffers() + lead;
        assert!(buffers == 1 || budget.streams as f64 * held <= f64::from(72 << 20), "{depth:?}");
        budget.streams
    }

    /// A second buffer is there for a short time: it must not cost as many streams as if it were always there.
    #[test]
    fn nearly_as_many_streams_have_room_with_two_buffers_as_with_one_and_fewer_with_more() {
        for (rate, of_one) in [(25_000, 0.8), (125_000, 0.85), (500_000, 0.95), (2_500_000, 0.95)] {
            let [one, two, three] = [1, 2, 3].map(|buffers| streams_with_room(buffers, 0.001, rate));
            let is_nearly = two as f64 >= of_one * one as f64;
            assert!(is_nearly && two <= one && three < two, "{rate}: {one} {two} {three}");
        }
        let (fast, slow) = (streams_with_room(2, 0.001, 500_000), streams_with_room(2, 0.06, 500_000));
        assert!(slow < fast * 9 / 10, "a slow read lasts longer than they have left: {slow} {fast}");
    }

    #[test]
    fn who_wants_no_more_than_they_have_has_room_and_who_wants_more_needs_it() {
        for rate in [20_000, 73_000, 82_000, 500_000] {
            let mut budget = Budget::new(8 << 20, 2);
            let disk = budget.add_device();
            let mut last = budget.enter(disk, rate);
            while budget.has_room(rate, None) {
                last = budget.enter(disk, rate);
            }
            for part in 1..=10 {
                assert!(budget.has_room(rate * part / 10, Some(last)), "{rate} {part}");
            }
            assert!(!budget.has_room(rate * 10, Some(last)));
        }
    }

    #[test]
    fn thousands_of_small_streams_fit_and_more_are_refused() {
        let mut budget = Budget::new(64 << 20, 2);
        let disk = budget.add_device();
        let mut shares = Vec::new();
        for _ in 0..5000 {
            assert!(budget.has_room(25_000, None));
            shares.push(budget.enter(disk, 25_000));
        }
        let depth = budget.depth(shares[0], None);
        let one = depth.bytes as f64 * budget.held_buffers() + 25_000.0 * depth.lead_ns as f64 / 1e9;
        assert!(5000.0 * one <= f64::from(64 << 20), "{depth:?}");
        while budget.has_room(25_000, None) && shares.len() < 100_000 {
            shares.push(budget.enter(disk, 25_000));
        }
        assert!((8_000..20_000).contains(&shares.len()), "{}", shares.len());
        shares.drain(..).for_each(|share| budget.leave(share));
        assert!(budget.has_room(25_000, None));
    }
}
