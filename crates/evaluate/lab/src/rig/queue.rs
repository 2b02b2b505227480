//! Requests that wait until a device of a given latency would have served them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::thread::ClockId;
use rustix::time::Timespec;

use super::schedule::Schedule;
use crate::{Latency, sys};

/// A completion due this soon is answered together with the one that woke the thread: a 50th of the shortest latency,
/// and less than the way back through FUSE and the loop device adds. It spares most of the wake-ups under load.
const TOGETHER_NS: u64 = 20_000;

/// Shared by the thread that takes requests, the one that answers them, and the one that gives orders.
pub(super) struct Queue<A> {
    slow: AtomicBool,
    waiting: Mutex<Waiting<A>>,
    changed: Condvar,
}

struct Waiting<A> {
    schedule: Schedule,
    /// In the order in which they are due.
    answers: VecDeque<(u64, A)>,
    closed: bool,
}

impl<A> fmt::Debug for Queue<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("slow", &self.slow).finish_non_exhaustive()
    }
}

impl<A> Queue<A> {
    /// A queue that lets answers through until [`set_slow`](Self::set_slow).
    pub(super) fn new(latency: Latency) -> Self {
        Self {
            slow: AtomicBool::new(false),
            waiting: Mutex::new(Waiting {
                schedule: Schedule::new(latency),
                answers: VecDeque::with_capacity(1024),
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Requests that arrive from now on take the latency, or none.
    pub(super) fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
    }

    pub(super) fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    /// Takes an answer that is given when its time has come. Gives it back where it is to be given now.
    pub(super) fn admit(&self, answer: A) -> Option<A> {
        if !self.is_slow() {
            return Some(answer);
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
        None
    }

    /// Lets the completing thread give an answer now.
    pub(super) fn hasten(&self, answer: A) {
        self.lock().answers.push_front((0, answer));
        self.changed.notify_one();
    }

    /// The completing thread: gives each answer when it is due, until [`close`](Self::close).
    pub(super) fn complete(&self, mut give: impl FnMut(A)) {
        sys::become_prompt();
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
                give(answer);
            }
        }
    }

    /// No more requests will come: ends [`complete`](Self::complete) after the last answer.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Requests will come again.
    pub(super) fn reopen(&self) {
        self.lock().closed = false;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<A>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
