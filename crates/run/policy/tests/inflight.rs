//! The in-flight limit, on simulated devices.

mod support;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;

use forebay_policy::inflight::InflightLimit;
use forebay_policy::price::{IN_FLIGHT_FIRST, IN_FLIGHT_MAX};
use proptest::prelude::*;
use support::Chance;

const TICKS_PER_US: u64 = 3_000;

/// How service times scatter about their nominal value.
#[derive(Clone, Copy, Debug)]
enum Jitter {
    None,
    /// Evenly from 80 % to 120 %.
    Even,
    /// 70 % and an exponential rest; one in fifty takes ten times as long.
    Tailed,
}

/// Channels that serve requests in the order of arrival, and a speculator that keeps the limit filled.
struct Device {
    service: u64,
    jitter: Jitter,
    chance: Chance,
    /// When each channel is free.
    channels: BinaryHeap<Reverse<u64>>,
    /// Completion, issue, depth at issue of what is in flight.
    inflight: BinaryHeap<Reverse<(u64, u64, u32)>>,
    now: u64,
    issued: u64,
    limit: InflightLimit,
    /// Whether the speculator alone tells of its prefetches.
    only_seen: bool,
    /// When the read is done that the original waits for; it reads again soon after.
    original: Option<u64>,
}

impl Device {
    fn new(service_us: u64, channels: usize, jitter: Jitter, seed: u64) -> Self {
        Self {
            service: service_us * TICKS_PER_US,
            jitter,
            chance: Chance(seed),
            channels: (0..channels).map(|_| Reverse(0)).collect(),
            inflight: BinaryHeap::new(),
            now: 0,
            issued: 0,
            limit: InflightLimit::new(),
            only_seen: false,
            original: None,
        }
    }

    fn serve(&mut self) -> u64 {
        let factor = match self.jitter {
            Jitter::None => 1.0,
            Jitter::Even => 0.8 + 0.4 * self.chance.fraction(),
            Jitter::Tailed if self.chance.below(50) == 0 => 10.0,
            Jitter::Tailed => 0.7 - 0.3 * (1.0 - self.chance.fraction()).ln(),
        };
        let Reverse(free) = self.channels.pop().unwrap();
        let done = free.max(self.now) + (self.service as f64 * factor) as u64;
        self.channels.push(Reverse(done));
        done
    }

    /// A demand read with nothing else in flight.
    fn stall(&mut self) {
        let done = self.serve();
        self.limit.on_stall(done - self.now);
        self.now = done;
    }

    fn issue(&mut self) {
        while self.original.is_some_and(|done| done < self.now) {
            self.original = Some(self.serve());
        }
        let done = self.serve();
        self.issued += 1;
        let depth = self.inflight.len() as u32 + 1 + u32::from(self.original.is_some());
        self.inflight.push(Reverse((done, self.now, depth)));
    }

    /// Fills up to the limit, then lets one request complete.
    fn step(&mut self) {
        while (self.inflight.len() as u32) < self.limit.limit() {
            self.issue();
        }
        self.complete();
    }

    fn complete(&mut self) {
        if let Some(Reverse((done, issued, depth))) = self.inflight.pop() {
            self.now = done;
            if self.only_seen {
                self.limit.on_seen(done - issued, depth, 0);
            } else {
                self.limit.on_completion(done - issued, depth);
            }
        }
    }

    /// The speculator ends; the original goes on alone for a while.
    fn drain(&mut self, stalls: usize) {
        while !self.inflight.is_empty() {
            self.complete();
        }
        for _ in 0..stalls {
            self.stall();
        }
    }
}

/// Limits seen in the last half of a run, and when the limit first came within the wanted band.
struct Settled {
    least: u32,
    middle: u32,
    most: u32,
    completions: usize,
    us: u64,
}

fn settle(device: &mut Device, completions: usize, band: RangeInclusive<u32>) -> Settled {
    let start = device.now;
    let mut limits = Vec::new();
    let mut first = None;
    for step in 0..completions {
        device.step();
        limits.push(device.limit.limit());
        if band.contains(&device.limit.limit()) {
            first = first.or(Some((step + 1, (device.now - start) / TICKS_PER_US)));
        }
    }
    let mut late = limits.split_off(completions / 2);
    late.sort_unstable();
    let (completions, us) = first.unwrap_or((usize::MAX, u64::MAX));
    Settled { least: late[0], middle: late[late.len() / 2], most: late[late.len() - 1], completions, us }
}

/// Runs a device with many seeds, with and without demand stalls before.
fn check(service_us: u64, channels: usize, jitter: Jitter, within: (RangeInclusive<u32>, usize, u64)) {
    let (band, completions_max, us_max) = within;
    for seed in 0..20 {
        let mut device = Device::new(service_us, channels, jitter, seed);
        for _ in 0..seed % 3 {
            device.stall();
        }
        let settled = settle(&mut device, (channels * 60).max(400), band.clone());
        let what = format!(
            "{service_us} us, {channels} channels, {jitter:?}, seed {seed}: {} {} {}, in band after {} completions, {} us",
            settled.least, settled.middle, settled.most, settled.completions, settled.us
        );
        assert!(band.contains(&settled.middle), "{what}");
        assert!(settled.least * 2 >= *band.start() && settled.most <= band.end() * 2, "{what}");
        assert!(settled.completions <= completions_max && settled.us <= us_max, "{what}");
    }
}

#[test]
fn a_local_disk_settles_near_its_sixteen_channels() {
    check(75, 16, Jitter::None, (22..=35, 100, 1_000));
    check(75, 16, Jitter::Even, (20..=34, 100, 1_000));
    check(75, 16, Jitter::Tailed, (16..=40, 150, 2_000));
}

#[test]
fn a_cloud_volume_settles_near_its_many_channels() {
    check(1_000, 128, Jitter::None, (170..=256, 900, 10_000));
    check(1_000, 128, Jitter::Even, (170..=256, 900, 14_000));
    check(1_000, 128, Jitter::Tailed, (150..=256, 1_500, 20_000));
}

#[test]
fn four_spindles_settle_within_a_few_requests() {
    check(12_000, 4, Jitter::None, (5..=9, 8, 60_000));
    check(12_000, 4, Jitter::Even, (5..=9, 15, 60_000));
    check(12_000, 4, Jitter::Tailed, (5..=12, 20, 150_000));
}

/// What was not seen to queue may serve more than it was asked for; what was is taken as it is.
#[test]
fn a_device_without_a_queue_is_taken_to_serve_a_batch_at_once() {
    for jitter in [Jitter::None, Jitter::Even] {
        for seed in 0..200 {
            let mut wide = Device::new(1_000, 128, jitter, seed);
            let mut narrow = Device::new(12_000, 4, jitter, seed);
            for _ in 0..60 {
                wide.stall();
                wide.step();
                narrow.step();
            }
            let wide = wide.limit.may_serve_at_once();
            assert!(wide >= 32, "{jitter:?}, seed {seed}: {wide}");
            for _ in 0..100 {
                narrow.step();
                assert_eq!(
                    Some(narrow.limit.may_serve_at_once()),
                    narrow.limit.serves_at_once(),
                    "seed {seed}"
                );
            }
        }
    }
    assert_eq!(InflightLimit::new().may_serve_at_once(), 32);
}

/// Whether more than two prefetches at once do not help.
fn is_saturated(limit: &InflightLimit) -> bool {
    limit.serves_at_once() == Some(1)
}

#[test]
fn a_saturated_device_is_known_before_nine_requests_were_issued() {
    for jitter in [Jitter::None, Jitter::Even] {
        for seed in 0..200 {
            for stalls in 0..3 {
                let mut device = Device::new(1_000, 1, jitter, seed);
                for _ in 0..stalls {
                    device.stall();
                }
                while !is_saturated(&device.limit) {
                    device.step();
                }
                assert!(device.issued <= 8, "{jitter:?}, seed {seed}: {} issued", device.issued);
                for _ in 0..500 {
                    device.step();
                    assert!(is_saturated(&device.limit), "{jitter:?}, seed {seed}");
                }
            }
        }
    }
}

#[test]
fn speculators_that_come_and_go_keep_the_estimate() {
    for (service_us, channels, band) in
        [(75, 16, 18..=40), (1_000, 128, 150..=256), (12_000, 4, 5..=10), (1_000, 1, 1..=2)]
    {
        for seed in 0..10 {
            let mut device = Device::new(service_us, channels, Jitter::Tailed, seed);
            let mut limits = Vec::new();
            for _ in 0..60 {
                device.drain(3);
                for _ in 0..channels * 12 {
                    device.step();
                }
                limits.push(device.limit.limit());
            }
            let mut late = limits.split_off(20);
            late.sort_unstable();
            let middle = late[late.len() / 2];
            assert!(band.contains(&middle), "{service_us} us, {channels} channels, seed {seed}: {late:?}");
        }
    }
}

#[test]
fn a_device_that_becomes_slower_or_narrower_is_learned_anew() {
    let mut device = Device::new(75, 16, Jitter::Even, 1);
    settle(&mut device, 1_000, 20..=34);
    device.service *= 16;
    for _ in 0..20 {
        device.drain(3);
        settle(&mut device, 200, 0..=0);
    }
    assert!((18..=40).contains(&device.limit.limit()), "slower: {}", device.limit.limit());

    device.drain(0);
    let free = device.now;
    device.channels = [Reverse(free)].into();
    settle(&mut device, 60, 0..=0);
    assert!(is_saturated(&device.limit), "narrower: {}", device.limit.limit());

    device.drain(3);
    let free = device.now;
    device.channels = vec![Reverse(free); 16].into();
    for _ in 0..10 {
        device.drain(1);
        settle(&mut device, 40, 0..=0);
    }
    assert!((18..=40).contains(&device.limit.limit()), "wide again: {}", device.limit.limit());
}

/// Requests that join others under way look as if the device were quicker, and then all that follow as if they had queued.
#[test]
fn a_limit_that_fell_for_nothing_recovers_beside_an_original_that_always_waits() {
    for (service_us, channels, jitter, band) in [
        (1_000, 128, Jitter::Even, 4..=256),
        (1_000, 128, Jitter::Tailed, 8..=256),
        (75, 16, Jitter::Even, 4..=48),
        (12_000, 4, Jitter::Even, 3..=12),
        (1_000, 1, Jitter::Even, 1..=2),
    ] {
        for seed in 0..20 {
            let mut device = Device::new(service_us, channels, jitter, seed);
            for _ in 0..4 {
                device.limit.on_stall(service_us * TICKS_PER_US / 8);
            }
            for _ in 0..60 {
                device.limit.on_completion(service_us * TICKS_PER_US, device.limit.limit() + 1);
            }
            assert_eq!(device.limit.limit(), 1);
            device.original = Some(0);
            let settled = settle(&mut device, 600, band.clone());
            let what = format!("{channels} channels, {jitter:?}, seed {seed}: {}", settled.middle);
            assert!(band.contains(&settled.middle), "{what}");
        }
    }
}

/// The original's first wait was short, for something else or for the rest of a read that was under way, and it tells of no other.
#[test]
fn one_short_wait_of_the_original_does_not_bind_those_that_are_only_seen() {
    for (service_us, channels, band) in [(1_000, 128, 64..=256), (75, 16, 12..=48), (1_000, 1, 1..=3)] {
        for seed in 0..20 {
            let mut device = Device::new(service_us, channels, Jitter::Even, seed);
            device.only_seen = true;
            device.limit.on_stall(service_us * TICKS_PER_US / 20);
            let mut limits = Vec::new();
            for _ in 0..60 {
                device.drain(0);
                settle(&mut device, 20, 0..=0);
                limits.push(device.limit.limit());
            }
            let mut late = limits.split_off(40);
            late.sort_unstable();
            let middle = late[late.len() / 2];
            assert!(band.contains(&middle), "{channels} channels, seed {seed}: {limits:?} {late:?}");
        }
    }
}

#[test]
fn completions_noticed_late_do_not_look_like_a_queue() {
    let mut limit = InflightLimit::new();
    for _ in 0..4 {
        limit.on_stall(75 * TICKS_PER_US);
    }
    let mut limits = Vec::new();
    for round in 0..400 {
        for depth in 1..=limit.limit().min(16) {
            limit.on_completion((150 + round % 7) * TICKS_PER_US, depth);
        }
        limits.push(limit.limit());
    }
    assert!(limits.iter().all(|&limit| limit > 2), "{limits:?}");
    assert!(limits.split_off(50).iter().all(|&limit| limit >= 16), "{limits:?}");
}

#[test]
fn the_base_is_the_time_of_a_request_alone() {
    let mut device = Device::new(1_000, 8, Jitter::Tailed, 5);
    for _ in 0..30 {
        device.drain(3);
        settle(&mut device, 100, 0..=0);
    }
    let us = device.limit.base_ticks() / TICKS_PER_US;
    assert!((800..=1_200).contains(&us), "{us} us");
}

fn words() -> [AtomicU64; 4] {
    [const { AtomicU64::new(0) }; 4]
}

#[test]
fn zeroed_memory_is_a_device_of_which_nothing_is_known() {
    assert_eq!(InflightLimit::load(&words()), InflightLimit::new());
    assert_eq!(InflightLimit::new().limit(), IN_FLIGHT_FIRST);
    assert!(!is_saturated(&InflightLimit::new()));
}

#[derive(Clone, Debug)]
enum Sample {
    Completion(u64, u32),
    Stall(u64),
}

fn sample() -> impl Strategy<Value = Sample> {
    prop_oneof![
        (any::<u64>(), any::<u32>()).prop_map(|(latency, depth)| Sample::Completion(latency, depth)),
        (0..10_000_000u64, 0..300u32).prop_map(|(latency, depth)| Sample::Completion(latency, depth)),
        any::<u64>().prop_map(Sample::Stall),
        (0..10_000_000u64).prop_map(Sample::Stall),
    ]
}

proptest! {
    #[test]
    fn any_samples_from_any_state_keep_the_limit_in_bounds_and_storable(
        state in any::<[u64; 4]>(), samples in prop::collection::vec(sample(), 0..100),
    ) {
        let memory = state.map(AtomicU64::new);
        let mut limit = InflightLimit::load(&memory);
        for sample in samples {
            match sample {
                Sample::Completion(latency, depth) => limit.on_completion(latency, depth),
                Sample::Stall(duration) => limit.on_stall(duration),
            }
            prop_assert!((1..=IN_FLIGHT_MAX).contains(&limit.limit()));
            let _ = (is_saturated(&limit), limit.base_ticks());
            limit.store(&memory);
            prop_assert_eq!(InflightLimit::load(&memory), limit);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_limit_recovers_from_any_state(state in any::<[u64; 4]>(), seed in any::<u64>()) {
        let mut device = Device::new(1_000, 16, Jitter::Even, seed);
        device.limit = InflightLimit::load(&state.map(AtomicU64::new));
        for _ in 0..150 {
            device.drain(3);
            settle(&mut device, 60, 0..=0);
        }
        prop_assert!((16..=48).contains(&device.limit.limit()), "{}", device.limit.limit());
    }
}

#[test]
fn without_a_stall_of_the_originals_prefetches_tell_enough() {
    for (service_us, channels, band) in
        [(1_000, 64, 48..=160), (75, 16, 12..=40), (12_000, 4, 4..=12), (1_000, 1, 1..=4)]
    {
        for seed in 0..20 {
            let mut device = Device::new(service_us, channels, Jitter::Even, seed);
            device.only_seen = true;
            let settled = settle(&mut device, (channels * 60).max(400), band.clone());
            let what = format!("{channels} channels: {} {} {}", settled.least, settled.middle, settled.most);
            assert!(band.contains(&settled.middle), "{what}");
        }
    }
}

#[test]
fn what_the_original_tells_replaces_what_was_seen() {
    let mut limit = InflightLimit::new();
    limit.on_seen(50_000, 1, 0);
    assert_ne!(limit.base_ticks(), 0);
    let words = [const { AtomicU64::new(0) }; 4];
    limit.store(&words);
    assert_eq!(InflightLimit::load(&words), limit);
    limit.on_stall(3_000_000);
    assert!((2_900_000..3_100_000).contains(&limit.base_ticks()), "{}", limit.base_ticks());
}
