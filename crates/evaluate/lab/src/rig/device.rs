//! The slow device itself: the requests that wait for their time, and what it has served.

use std::sync::atomic::{AtomicU64, Ordering};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};

use super::Stats;
use super::memory::Memory;
use super::queue::Queue;
use crate::Latency;

/// A request that has been taken, and what its answer needs.
#[derive(Debug)]
pub(super) enum Answer {
    Read { reply: ReplyData, offset: u64, size: usize },
    Write { reply: ReplyWrite, size: usize },
    Flush { reply: ReplyEmpty },
}

/// Shared by the thread that takes requests, the one that answers them, and the one that gives orders. It holds no
/// descriptor (the memory does), since those threads do not share theirs.
#[derive(Debug)]
pub(crate) struct Device {
    queue: Queue<Answer>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
}

impl Device {
    /// A device that answers at once until [`set_slow`](Self::set_slow).
    pub(crate) fn new(latency: Latency) -> Self {
        Self { queue: Queue::new(latency), counters: Counters::default() }
    }

    /// Requests that arrive from now on take the latency, or none.
    pub(crate) fn set_slow(&self, slow: bool) {
        self.queue.set_slow(slow);
    }

    pub(crate) fn stats(&self) -> Stats {
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            reads: read(&counters.reads),
            writes: read(&counters.writes),
            flushes: read(&counters.flushes),
            bytes_read: read(&counters.bytes_read),
            bytes_written: read(&counters.bytes_written),
            in_flight_max: read(&counters.in_flight_max),
            ..Stats::default()
        }
    }

    pub(crate) fn reset_stats(&self) {
        let counters = &self.counters;
        for counter in [
            &counters.reads,
            &counters.writes,
            &counters.flushes,
            &counters.bytes_read,
            &counters.bytes_written,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        counters.in_flight_max.store(counters.in_flight.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Takes a request: answers it when its time has come, or now if the device is not slow.
    pub(super) fn admit(&self, answer: Answer, memory: &Memory) {
        self.counters.arrived(&answer);
        if let Some(answer) = self.queue.admit(answer) {
            self.give(answer, memory, &mut Vec::new());
        }
    }

    /// The completing thread: answers each request when it is due, until [`close`](Self::close).
    pub(super) fn complete(&self, memory: &Memory) {
        let mut buffer = Vec::new();
        self.queue.complete(|answer| self.give(answer, memory, &mut buffer));
    }

    /// No more requests will come: ends [`complete`](Self::complete) after the last answer.
    pub(super) fn close(&self) {
        self.queue.close();
    }

    fn give(&self, answer: Answer, memory: &Memory, buffer: &mut Vec<u8>) {
        // Before the answer, after which the next request may already be on its way.
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        match answer {
            Answer::Read { reply, offset, size } => {
                if buffer.len() < size {
                    buffer.resize(size, 0);
                }
                match memory.read(&mut buffer[..size], offset) {
                    Ok(()) => reply.data(&buffer[..size]),
                    Err(error) => reply.error(error.into()),
                }
            }
            Answer::Write { reply, size } => match u32::try_from(size) {
                Ok(size) => reply.written(size),
                Err(_) => reply.error(Errno::EINVAL),
            },
            Answer::Flush { reply } => reply.ok(),
        }
    }
}

impl Counters {
    fn arrived(&self, answer: &Answer) {
        let add = |counter: &AtomicU64, amount: usize| counter.fetch_add(amount as u64, Ordering::Relaxed);
        match answer {
            Answer::Read { size, .. } => {
                add(&self.reads, 1);
                add(&self.bytes_read, *size);
            }
            Answer::Write { size, .. } => {
                add(&self.writes, 1);
                add(&self.bytes_written, *size);
            }
            Answer::Flush { .. } => {
                add(&self.flushes, 1);
            }
        }
        let in_flight = add(&self.in_flight, 1) + 1;
        self.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
    }
}
