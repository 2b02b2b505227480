//! What the calling thread has used.
//!
//! # Safety
//! Each function here is safe to call: the kernel fills a local.
#![allow(unsafe_code, reason = "system calls")]

use std::{mem::MaybeUninit, time::Duration};

/// What the calling thread asked of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// Blocks that they had to read for it.
    pub blocks: i64,
    /// How often it waited, for a device or anything else.
    pub waits: i64,
}

/// All of it so far.
pub fn device_use() -> DeviceUse {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure, whose zeroes are valid too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    DeviceUse { blocks: usage.ru_inblock, waits: usage.ru_nvcsw }
}

impl DeviceUse {
    /// What came since then.
    pub fn since(self, then: Self) -> Self {
        Self { blocks: self.blocks - then.blocks, waits: self.waits - then.waits }
    }
}

/// Time of processors that the calling thread took so far.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
