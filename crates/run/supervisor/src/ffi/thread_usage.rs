//! What the calling thread has used.
//!
//! # Safety
//! The function here is safe to call: the kernel fills a local.
#![allow(unsafe_code, reason = "a system call")]

use std::mem::MaybeUninit;

/// Blocks that devices had to read for the calling thread so far.
pub fn blocks_read() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure, whose zeroes are valid too.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_inblock
    }
}
