//! Calls that follow each other: to wake the progress thread after each, for nothing, would take longer than the call.

use std::{
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
    time::{Duration, Instant},
};

/// Within this time the next call is made where calls follow each other, and is waited for.
const GAP: Duration = Duration::from_micros(50);

/// The calls of a host's threads in which they looked for messages.
#[derive(Debug)]
pub struct Calls {
    begun: Instant,
    /// When the last one ended, in nanoseconds since the beginning.
    ended_ns: AtomicU64,
    /// It followed another one.
    is_dense: AtomicBool,
    /// The progress thread waits for the next one.
    are_awaited: AtomicBool,
}

impl Calls {
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            ended_ns: AtomicU64::new(0),
            is_dense: AtomicBool::new(false),
            are_awaited: AtomicBool::new(false),
        }
    }

    /// A call has begun: whether soon after the last one, however long either of them waits.
    pub fn note_begin(&self) {
        let since_ns = self.now_ns().saturating_sub(self.ended_ns.load(Relaxed));
        self.is_dense.store(since_ns < GAP.as_nanos() as u64, SeqCst);
    }

    /// A call has ended.
    pub fn note_end(&self) {
        self.ended_ns.store(self.now_ns(), Relaxed);
    }

    /// Whether the progress thread looks by itself whether there was a next one.
    pub fn are_awaited(&self) -> bool {
        self.is_dense.load(SeqCst) && self.are_awaited.load(SeqCst)
    }

    /// For how many nanoseconds the progress thread is to wait for the next one, if it is.
    pub fn await_next(&self) -> Option<u32> {
        let since_ns = self.now_ns().saturating_sub(self.ended_ns.load(Relaxed));
        let gap_ns = GAP.as_nanos() as u64;
        let is_due = self.is_dense.load(SeqCst) && since_ns < gap_ns;
        self.are_awaited.store(is_due, SeqCst);
        is_due.then_some(gap_ns as u32)
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }
}
