//! Which process this is.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

use crate::role;

/// Process that the original's state is of; another one running this code is a vfork child, which only passes through.
static PROCESS: AtomicU32 = AtomicU32::new(0);

const PAUSE_NS: i64 = 100_000;

/// This process is the original from now on.
pub fn begin() {
    PROCESS.store(id(), Relaxed);
}

/// The process that the original's state is of.
pub fn original() -> u32 {
    PROCESS.load(Relaxed)
}

/// This process's id.
pub fn id() -> u32 {
    // SAFETY: no arguments.
    unsafe { sys!(n::__NR_getpid) as u32 }
}

/// Whether the calling thread is its process's main one.
pub fn is_main_thread() -> bool {
    // SAFETY: no arguments.
    unsafe { sys!(n::__NR_getpid) == sys!(n::__NR_gettid) }
}

/// Whether the original's state is of this process, and not of one whose memory it has.
pub fn is_own() -> bool {
    id() == original()
}

/// Whether this process shares the memory of the original's, and is another.
pub fn is_vfork_child() -> bool {
    role::is_original() && !is_own()
}

/// Sleeps for a moment, 100 us.
pub fn pause() {
    let pause = n::__kernel_timespec { tv_sec: 0, tv_nsec: PAUSE_NS };
    // SAFETY: the call reads a local.
    let _ = unsafe { sys!(n::__NR_nanosleep, &raw const pause, 0) };
}
