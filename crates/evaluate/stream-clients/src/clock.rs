//! Two clocks: one for what is to be done, and the kernel's, by which packets are stamped.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of a clock that nobody sets.
pub(crate) fn now_ns() -> i64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of the clock that the kernel stamps packets by.
pub(crate) fn stamp_ns() -> i64 {
    ns(clock_gettime(ClockId::Realtime))
}

pub(crate) fn ns(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
