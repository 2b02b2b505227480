//! When a device with a fixed latency and bounded parallelism completes each request. Pure arithmetic.

use std::collections::VecDeque;

use crate::Latency;

/// Completion times of a device that serves requests in the order in which they come.
///
/// All requests take equally long, so the channel that is free first is always the one taken longest ago: completion
/// times never decrease, and the last `in_parallel` of them are all the state there is.
#[derive(Debug)]
pub(super) struct Schedule {
    per_request_ns: u64,
    in_parallel: usize,
    busy_until_ns: VecDeque<u64>,
}

impl Schedule {
    pub(super) fn new(latency: Latency) -> Self {
        Self {
            per_request_ns: u64::try_from(latency.per_request.as_nanos()).unwrap_or(u64::MAX),
            in_parallel: latency.in_parallel.max(1),
            busy_until_ns: VecDeque::with_capacity(latency.in_parallel),
        }
    }

    /// Takes a request that arrives at `now_ns` and returns when it completes.
    pub(super) fn admit(&mut self, now_ns: u64) -> u64 {
        let free_at_ns = if self.busy_until_ns.len() < self.in_parallel {
            now_ns
        } else {
            self.busy_until_ns.pop_front().unwrap_or(now_ns).max(now_ns)
        };
        let completes_at_ns = free_at_ns.saturating_add(self.per_request_ns);
        self.busy_until_ns.push_back(completes_at_ns);
        completes_at_ns
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn schedule(per_request_ns: u64, in_parallel: usize) -> Schedule {
        Schedule::new(Latency { per_request: Duration::from_nanos(per_request_ns), in_parallel })
    }

    #[test]
    fn a_lone_request_takes_the_latency_however_long_the_device_was_idle() {
        let mut device = schedule(100, 4);
        for now in [0, 1_000, 1_500, 90_000] {
            assert_eq!(device.admit(now), now + 100);
        }
    }

    #[test]
    fn requests_beyond_the_parallelism_wait_for_a_channel() {
        let mut device = schedule(100, 2);
        assert_eq!([0, 10, 20, 30, 40].map(|now| device.admit(now)), [100, 110, 200, 210, 300]);
    }

    #[test]
    fn never_more_at_once_than_channels_and_never_out_of_order() {
        for in_parallel in [1, 3, 128] {
            let mut device = schedule(100, in_parallel);
            let mut random = 7u64;
            let (mut now, mut completions) = (0, Vec::new());
            for _ in 0..2_000 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                now += random >> 58;
                completions.push(device.admit(now));
            }
            assert!(completions.is_sorted());
            for window in completions.windows(in_parallel + 1) {
                assert!(window[in_parallel] - window[0] >= 100, "{in_parallel}: {window:?}");
            }
        }
    }
}
