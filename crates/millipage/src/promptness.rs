//! Has the progress thread run when there is something to do, although the program computes on the same processor.

use std::mem;

/// The shortest that the kernel grants (sched_setattr(2)).
const SLICE_NS: u64 = 100_000;

/// Asks for short slices of time: a thread that wakes comes before one that has asked for longer ones, which otherwise runs
/// for some milliseconds yet. Before Linux 6.12 that changes nothing.
pub fn ask_for_short_slices() {
    // SAFETY: zeros are values of all fields; the kernel fills the attributes of this thread, and takes them back with one
    // changed.
    unsafe {
        let mut attributes: libc::sched_attr = mem::zeroed();
        attributes.size = size_of::<libc::sched_attr>() as u32;
        let (me, flags) = (0, 0);
        if libc::syscall(libc::SYS_sched_getattr, me, &raw mut attributes, attributes.size, flags) == 0
            && attributes.sched_policy == libc::SCHED_OTHER as u32
        {
            attributes.sched_runtime = SLICE_NS;
            libc::syscall(libc::SYS_sched_setattr, me, &raw const attributes, flags);
        }
    }
}
