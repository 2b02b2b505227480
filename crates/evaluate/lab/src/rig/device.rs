//! The slow device itself: its clock, and the requests that wait for their time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use rustix::thread::ClockId;
use rustix::time::Timespec;

use super::Stats;
use super::memory::Memory;
use super::schedule::Schedule;
use crate::{Latency, sys};

/// A completion due this soon is answered together with the one that woke the thread: a 50th of the shortest latency,
/// and less than the way back through FUSE and the loop device adds. It spares most of the wake-ups under load.
const TOGETHER_NS: u64 = 20_000;

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
    slow: AtomicBool,
    waiting: Mutex<Waiting>,
    changed: Condvar,
    counters: Counters,
}

#[derive(Debug)]
struct Waiting {
    schedule: Schedule,
    /// In the order in which they are due.
    answers: VecDeque<(u64, Answer)>,
    closed: bool,
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
        Self {
            slow: AtomicBool::new(false),
            waiting: Mutex::new(Waiting {
                schedule: Schedule::new(latency),
                answers: VecDeque::with_capacity(1024),
                closed: false,
            }),
            changed: Condvar::new(),
            counters: Counters::default(),
        }
    }

    /// Requests that arrive from now on take the latency, or none.
    pub(crate) fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
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
        if !self.slow.load(Ordering::Relaxed) {
            let mut buffer = Vec::new();
            self.give(answer, memory, &mut buffer);
            return;
        }
        let mut waiting = self.lock();
        let due_ns = waiting.schedule.admit(now_ns());
        let was_empty = waiting.answers.is_empty();
        waiting.answers.push_back((due_ns, answer));
        drop(waiting);
        if was_empty {
            // Otherwise the other thread already waits for one that is due no later.
            self.changed.notify_one();
        }
    }

    /// The completing thread: answers each request when it is due, until [`close`](Self::close).
    pub(super) fn complete(&self, memory: &Memory) {
        sys::become_prompt();
        let mut buffer = Vec::new();
        let mut due = Vec::new();
        loop {
            let mut waiting = self.lock();
            let first_due_ns = loop {
                if let Some((due_ns, _)) = waiting.answers.front() {
                    break *due_ns;
                }
                if waiting.closed {
                    return;
                }
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            };
            let until_ns = now_ns() + TOGETHER_NS;
            while waiting.answers.front().is_some_and(|(due_ns, _)| *due_ns <= until_ns) {
                due.extend(waiting.answers.pop_front());
            }
            drop(waiting);
            if due.is_empty() {
                sleep_until(first_due_ns);
            }
            for (_, answer) in due.drain(..) {
                self.give(answer, memory, &mut buffer);
            }
        }
    }

    /// No more requests will come: ends [`complete`](Self::complete) after the last answer.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
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

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn sleep_until(at_ns: u64) {
    let at = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
    // Too short a sleep, by a signal, is noticed by the caller, who looks at the clock again.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at);
}
