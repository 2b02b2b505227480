//! Time, as all of the server counts it.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a clock that never jumps.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Nanoseconds since 1970, as other machines count.
pub(crate) fn unix_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    (time.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.max(0) as u64)
}
