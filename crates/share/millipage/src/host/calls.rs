//! Calls in quick succession: a wake-up of the progress thread after each would take longer than the call.

use std::{
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
    time::Instant,
};

/// Within this time, in nanoseconds, the next call is made where calls follow each other, and is waited for.
const GAP_NS: u32 = 50_000;

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
        self.begin_at(self.now_ns());
    }

    fn begin_at(&self, now_ns: u64) {
        let is_dense = self.since_last_ns(now_ns) < GAP_NS.into();
        self.is_dense.store(is_dense, SeqCst);
    }

    /// A call has ended.
    pub fn note_end(&self) {
        self.end_at(self.now_ns());
    }

    fn end_at(&self, now_ns: u64) {
        self.ended_ns.store(now_ns, Relaxed);
    }

    /// Whether the progress thread looks by itself whether there was a next one.
    pub fn are_awaited(&self) -> bool {
        self.is_dense.load(SeqCst) && self.are_awaited.load(SeqCst)
    }

    /// For how many nanoseconds the progress thread is to wait for the next one, if it `may`.
    pub fn await_next(&self, may: bool) -> Option<u32> {
        self.await_at(self.now_ns(), may)
    }

    fn await_at(&self, now_ns: u64, may: bool) -> Option<u32> {
        let is_due = may && self.is_dense.load(SeqCst) && self.since_last_ns(now_ns) < GAP_NS.into();
        self.are_awaited.store(is_due, SeqCst);
        is_due.then_some(GAP_NS)
    }

    fn since_last_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.ended_ns.load(Relaxed))
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_NS: u64 = 100 * GAP_NS as u64;
    const SHORT_NS: u64 = GAP_NS as u64 / 10;

    #[test]
    fn a_call_that_waits_long_does_not_make_the_next_one_unexpected() {
        let calls = Calls::new();
        let mut now_ns = LONG_NS;
        for wait_ns in [SHORT_NS, LONG_NS, LONG_NS] {
            calls.end_at(now_ns);
            now_ns += SHORT_NS;
            calls.begin_at(now_ns);
            now_ns += wait_ns;
        }
        calls.end_at(now_ns);
        assert_eq!(calls.await_at(now_ns + SHORT_NS, true), Some(GAP_NS));
        assert!(calls.are_awaited());
        assert_eq!(calls.await_at(now_ns + SHORT_NS, false), None);
        assert!(!calls.are_awaited());
    }

    #[test]
    fn no_wait_for_calls_that_are_far_between() {
        let calls = Calls::new();
        calls.end_at(LONG_NS);
        calls.begin_at(2 * LONG_NS);
        calls.end_at(2 * LONG_NS + SHORT_NS);
        assert_eq!(calls.await_at(2 * LONG_NS + 2 * SHORT_NS, true), None);
        assert!(!calls.are_awaited());
    }

    #[test]
    fn the_wait_for_a_next_call_has_an_end() {
        let calls = Calls::new();
        calls.end_at(LONG_NS);
        calls.begin_at(LONG_NS + SHORT_NS);
        calls.end_at(LONG_NS + 2 * SHORT_NS);
        assert_eq!(calls.await_at(LONG_NS + 2 * SHORT_NS + u64::from(GAP_NS), true), None);
        assert!(!calls.are_awaited());
    }
}
