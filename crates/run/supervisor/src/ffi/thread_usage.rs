//! What the calling thread has used.
//!
//! # Safety
//! Each function here is safe to call: the kernel fills a local.
#![allow(unsafe_code, reason = "system calls")]

use std::{mem::MaybeUninit, time::Duration};

/// Blocks that devices had to read for the calling thread so far.
pub fn blocks_read() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure, whose zeroes are valid too.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_inblock
    }
}

/// Time of processors that the calling thread took so far.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
