//! A thread that the kernel runs as soon as it wakes.

use forebay_sigsafe::{general as n, sys};

/// `struct sched_attr` of sched_setattr(2), in its first version.
#[derive(Default)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Of a normal thread, how long it wants to run at a time, in nanoseconds.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Has the calling thread run at once when it wakes, where others compute on all processors: it asks for the shortest turns
/// that there are, and the scheduler has threads with shorter turns go first (from Linux 6.12). It gets no more time, and
/// needs no right for that. Else others would wait for it for milliseconds.
pub fn run_at_once() {
    const SHORTEST_TURN_NS: u64 = 100_000;
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>();
    // SAFETY: the kernel writes to a local of that size.
    if unsafe { sys!(n::__NR_sched_getattr, 0, &raw mut attributes, size, 0) } == 0 {
        attributes.runtime = SHORTEST_TURN_NS;
        // SAFETY: and reads it. Where the kernel refuses, the thread runs as it did.
        let _ = unsafe { sys!(n::__NR_sched_setattr, 0, &raw const attributes, 0) };
    }
}
