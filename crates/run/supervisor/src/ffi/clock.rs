//! The processor's time-stamp counter, beside the kernel's clock.
//!
//! Both are read before `main` too: the longer the time between two readings, the more exact the counter's rate.
//!
//! # Safety
//! Each function here is safe to call: it reads a register and a clock.
#![allow(unsafe_code, reason = "an instruction, a system call and a function that runs before main")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

static CAPTURED: AtomicBool = AtomicBool::new(false);
static START_TICKS: AtomicU64 = AtomicU64::new(0);
static START_NANOSECONDS: AtomicU64 = AtomicU64::new(0);

extern "C" fn before_main() {
    let (ticks, nanoseconds) = simultaneous();
    START_TICKS.store(ticks, Relaxed);
    START_NANOSECONDS.store(nanoseconds, Relaxed);
    CAPTURED.store(true, Relaxed);
}

/// The time-stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads a register.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// CLOCK_MONOTONIC_RAW, in nanoseconds.
fn raw_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The counter and the clock at the same moment: the least interrupted of three attempts.
pub fn simultaneous() -> (u64, u64) {
    let attempt = || {
        let before = ticks();
        let nanoseconds = raw_nanoseconds();
        let after = ticks();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), nanoseconds)
    };
    let (_, ticks, nanoseconds) = (0..3).map(|_| attempt()).min_by_key(|one| one.0).expect("three attempts");
    (ticks, nanoseconds)
}

/// [`simultaneous`] as it was when the process started.
pub fn simultaneous_at_start() -> Option<(u64, u64)> {
    CAPTURED.load(Relaxed).then(|| (START_TICKS.load(Relaxed), START_NANOSECONDS.load(Relaxed)))
}
