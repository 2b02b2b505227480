//! The threads of the executor: which of them are at work, and when another one is to be.
//!
//! A job that asks no device takes a few microseconds, less than it takes to wake a thread. One that asks a device waits a hundred
//! times as long. Which of both a job is, is known only afterwards. So as many threads take jobs as there are processors. A thread
//! whose job takes long is taken to wait, and no longer counts. One thread stands by: it looks at short intervals whether
//! others wait, and then takes a job itself.

use std::{
    sync::atomic::{
        AtomicBool, AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    time::Duration,
};

use forebay_policy::price::JOB_WAITS_US;
use forebay_protocol::layout::Header;

/// As many reads as a fast device has in flight at once.
pub const THREADS_MAX: usize = 128;
/// Between two looks of the thread that stands by: a wait begins to count as soon as it shows.
pub const LOOKS: Duration = Duration::from_micros(JOB_WAITS_US);

/// No thread has this place.
const FREE: u64 = u64::MAX;
/// The thread has no job.
const IDLE: u64 = 0;

/// The threads.
pub struct Crew {
    /// When the thread at each place began its job, in ticks.
    begun: [AtomicU64; THREADS_MAX],
    /// Places up to the last one that was ever taken.
    used: AtomicUsize,
    threads: AtomicUsize,
    processors: usize,
    wait_ticks: u64,
    /// A thread was called, and does not run yet.
    is_called: AtomicBool,
    stands_by: AtomicBool,
}

/// A thread's place among them.
#[derive(Clone, Copy)]
pub struct Place(usize);

impl Crew {
    /// Of a machine with so many processors for this process, without a thread.
    pub fn new(header: &Header, processors: usize) -> Self {
        let ticks_per_us = header.ticks_per_second.load(Relaxed) / 1_000_000;
        Self {
            begun: [const { AtomicU64::new(FREE) }; THREADS_MAX],
            used: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            processors: processors.max(1),
            wait_ticks: ticks_per_us.max(1) * JOB_WAITS_US,
            is_called: AtomicBool::new(false),
            stands_by: AtomicBool::new(false),
        }
    }

    /// A place for one more thread; none where there are enough.
    pub fn join(&self) -> Option<Place> {
        let is_taken = |begun: &AtomicU64| begun.compare_exchange(FREE, IDLE, AcqRel, Relaxed).is_ok();
        let place = self.begun.iter().position(is_taken)?;
        self.used.fetch_max(place + 1, AcqRel);
        self.threads.fetch_add(1, AcqRel);
        Some(Place(place))
    }

    /// The thread at `place` ends.
    pub fn leave(&self, place: Place) {
        self.threads.fetch_sub(1, AcqRel);
        self.begun[place.0].store(FREE, Release);
    }

    /// As [`Self::leave`], unless no more than `kept` threads were left; whether it is so.
    pub fn leave_if_more_than(&self, kept: usize, place: Place) -> bool {
        let spare = |threads| (threads > kept).then(|| threads - 1);
        let leaves = self.threads.fetch_update(AcqRel, Acquire, spare).is_ok();
        if leaves {
            self.begun[place.0].store(FREE, Release);
        }
        leaves
    }

    /// How many there are.
    pub fn threads(&self) -> usize {
        self.threads.load(Acquire)
    }

    /// The thread begins a job.
    pub fn begin(&self, place: Place, now: u64) {
        self.begun[place.0].store(now.clamp(IDLE + 1, FREE - 1), Release);
    }

    /// It has done the job.
    pub fn end(&self, place: Place) {
        self.begun[place.0].store(IDLE, Release);
    }

    /// Whether a processor is free for another thread: what the others do is known to take long, or they do nothing.
    pub fn has_room(&self, now: u64) -> bool {
        let used = self.used.load(Acquire);
        let is_at_work = |begun: &&AtomicU64| {
            let begun = begun.load(Acquire);
            begun != FREE && begun != IDLE && now.saturating_sub(begun) < self.wait_ticks
        };
        self.begun[..used].iter().filter(is_at_work).nth(self.processors - 1).is_none()
    }

    /// Whether another thread is to be called, which the caller does then: to take a job, or to stand by.
    pub fn is_to_call(&self, now: u64) -> bool {
        let lacks = !self.stands_by.load(Acquire) || self.has_room(now);
        lacks && !self.is_called.load(Acquire) && !self.is_called.swap(true, AcqRel)
    }

    /// A thread runs that was called, or none could be.
    pub fn answer(&self) {
        self.is_called.store(false, Release);
    }

    /// Whether the caller is the one that stands by from now on.
    pub fn stand_by(&self) -> bool {
        !self.stands_by.swap(true, AcqRel)
    }

    /// It stands by no longer.
    pub fn stand_down(&self) {
        self.stands_by.store(false, Release);
    }

    /// Whether no thread has a job.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.begun.iter().all(|begun| matches!(begun.load(Acquire), FREE | IDLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;

    fn crew(processors: usize) -> Crew {
        Crew::new(Channel::create(true).unwrap().header(), processors)
    }

    #[test]
    fn as_many_are_at_work_as_there_are_processors_and_those_that_wait_do_not_count() {
        let crew = crew(2);
        let [first, second, third] = [crew.join(), crew.join(), crew.join()].map(Option::unwrap);
        let later = |times: u64| 1_000 + times * crew.wait_ticks;
        assert!(crew.has_room(later(0)));
        crew.begin(first, later(0));
        assert!(crew.has_room(later(0)));
        crew.begin(second, later(1) - 1);
        assert!(!crew.has_room(later(1) - 1) && crew.has_room(later(1)));
        crew.begin(third, later(1));
        assert!(!crew.has_room(later(1)));
        crew.end(third);
        assert!(crew.has_room(later(1)));
        crew.leave(second);
        assert_eq!(crew.threads(), 2);
    }

    #[test]
    fn one_thread_is_called_at_a_time_while_one_stands_by_only_if_there_is_room() {
        let crew = crew(1);
        let place = crew.join().unwrap();
        crew.begin(place, 1_000);
        assert!(crew.is_to_call(1_000) && !crew.is_to_call(1_000));
        crew.answer();
        assert!(crew.stand_by() && !crew.stand_by());
        assert!(!crew.is_to_call(1_000) && crew.is_to_call(1_000 + crew.wait_ticks));
        crew.answer();
        crew.stand_down();
        assert!(crew.is_to_call(1_000));
    }

    #[test]
    fn places_are_bounded_and_used_again() {
        let crew = crew(1);
        let places: Vec<Place> = std::iter::from_fn(|| crew.join()).collect();
        assert_eq!(places.len(), THREADS_MAX);
        assert!(!crew.leave_if_more_than(THREADS_MAX, places[7]));
        assert!(crew.leave_if_more_than(THREADS_MAX - 1, places[7]));
        assert_eq!(crew.join().map(|place| place.0), Some(7));
    }
}
