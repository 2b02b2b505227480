//! Clients that make requests over HTTP: as fast as the server answers, or by a schedule that does not wait for answers.
//!
//! Latency is from when a request was to be made. A server that is late so cannot delay the requests that would show it.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use crate::experiments::{Connections, Generator, Rate};
use hdrhistogram::Histogram;

use super::asking::Asking;
use super::http::{Request, Site};

/// Latencies are told with three digits.
const DIGITS: u8 = 3;
/// Longer ones count as this: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Who asks for what.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) site: Site,
    /// They are made in no order.
    pub(super) requests: Vec<Request>,
    pub(super) number: u16,
    pub(super) rate: Rate,
    pub(super) connections: Connections,
    /// The load of this server that this is: each has an order of its own, so that together they ask for everything.
    pub(super) load: u64,
}

/// The part of the time that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

impl Window {
    /// How long of it lies between two moments.
    pub(super) fn seconds_between(&self, from: Instant, to: Instant) -> f64 {
        to.min(self.end).saturating_duration_since(from.max(self.begin)).as_secs_f64()
    }

    pub(super) fn has(&self, moment: Instant) -> bool {
        moment >= self.begin && moment < self.end
    }
}

/// What came of it within the window.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Of answers that were refusals, and of connections that broke.
    pub(super) errors: u64,
    /// The first failure, within the window or before it.
    pub(super) first_error: Option<String>,
    /// Requests that the schedule had.
    pub(super) intended: Option<f64>,
    /// Seconds of all requests that were under way, together.
    pub(super) under_way_s: f64,
    /// From when a request was to be made to its answer, in nanoseconds.
    pub(super) latency_ns: Histogram<u64>,
    pub(super) generator: Generator,
}

impl Answers {
    pub(super) fn none() -> Self {
        Self {
            requests: 0,
            bytes: 0,
            errors: 0,
            first_error: None,
            intended: None,
            under_way_s: 0.0,
            latency_ns: Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS)
                .expect("these bounds are allowed"),
            generator: Generator { threads: 0.0, processor_s: 0.0, queued_s: 0.0 },
        }
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.intended = self.intended.zip(other.intended).map(|(one, two)| one + two);
        self.under_way_s += other.under_way_s;
        self.latency_ns.add(other.latency_ns).expect("both have the same bounds");
        self.generator.threads += other.generator.threads;
        self.generator.processor_s += other.generator.processor_s;
        self.generator.queued_s += other.generator.queued_s;
    }
}

impl Clients {
    /// Asks from now on until the end of the window, or until `stop` is set. A sentence where the server cannot be asked.
    pub(super) fn run(&self, window: Window, stop: &AtomicBool) -> Result<Answers, String> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // Half of the processors are left to the server.
        let threads = (processors / 2).clamp(1, usize::from(self.number));
        thread::scope(|scope| {
            let start =
                |number: usize| scope.spawn(move || Asking::new(self, number, threads, window).run(stop));
            let running: Vec<_> = (0..threads).map(start).collect();
            let mut ended = running.into_iter().map(|thread| thread.join().expect("clients do not panic"));
            let mut answers = ended.next().expect("one thread")?;
            for more in ended {
                answers.add(more?);
            }
            Ok(answers)
        })
    }
}

#[cfg(test)]
mod tests;
