//! What this process, or thread, has used of the machine.

use core::mem::MaybeUninit;

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

/// The processor time of a usage, in microseconds.
pub const fn processor_us(usage: &n::rusage) -> u64 {
    microseconds(usage.ru_utime) + microseconds(usage.ru_stime)
}

/// A time of a usage, in microseconds.
const fn microseconds(time: n::__kernel_old_timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
}

/// What `RUSAGE_SELF` or `RUSAGE_THREAD` has used.
#[inline(always)]
pub fn of(whose: i32) -> n::rusage {
    let mut usage = MaybeUninit::<n::rusage>::zeroed();
    // SAFETY: the call fills the structure, whose zeroes are valid too.
    unsafe {
        let _ = sys!(n::__NR_getrusage, whose, usage.as_mut_ptr());
        usage.assume_init()
    }
}
