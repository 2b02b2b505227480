//! What this process, or thread, has used of the machine.

use core::mem::MaybeUninit;

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

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
