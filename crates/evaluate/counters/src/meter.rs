//! The thread that samples.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::error::{Error, Refused};
use crate::readings::{Counter, Interval, Readings};
use crate::record::Record;
use crate::sheet::{Sheet, Source};
use crate::sources::sources;
use crate::target::{Options, Target};

/// The shortest interval.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// The longest interval.
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// Counts from its start to its stop, on a thread of its own. Dropped, it ends without a result.
#[derive(Debug)]
pub struct Meter {
    refused: Vec<Refused>,
    shared: Arc<Mutex<Record>>,
    /// Hangs up to end the thread.
    running: Sender<()>,
    /// Gives the processor time that the thread took.
    thread: JoinHandle<f64>,
}

/// A meter that has opened its counters and has not begun to count.
pub struct Ready {
    sources: Vec<Box<dyn Source>>,
    interval: Duration,
    refused: Vec<Refused>,
}

impl Ready {
    /// Takes the first sample and starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(self) -> Result<Meter, Error> {
        let Self { mut sources, interval, mut refused } = self;
        let mut sheet = Sheet::default();
        sources.iter_mut().for_each(|source| source.sample(&mut sheet));
        let started = Instant::now();
        let (had, missing) = sheet.survey();
        refused.extend(missing);
        let (places, counters): (Vec<usize>, Vec<Counter>) = had.into_iter().unzip();
        let first = chosen(&sheet.take(), &places);

        let shared = Arc::new(Mutex::new(Record::new(interval.as_secs_f64(), counters, first)));
        let (running, hung_up) = mpsc::channel::<()>();
        let record = Arc::clone(&shared);
        let mut sampler = Sampler { sources, sheet, places, record, started };
        let work = move || sampler.run(interval, &hung_up);
        let thread =
            thread::Builder::new().name("forebay-results".into()).spawn(work).map_err(Error::Thread)?;
        Ok(Meter { refused, shared, running, thread })
    }
}

impl Meter {
    /// Opens the counters. That can take the kernel a second on a busy machine, so it is apart from the start for those who
    /// measure what is short.
    ///
    /// # Errors
    /// The target is not there or cannot be looked at, or the interval makes no sense.
    pub fn open(target: &Target, options: &Options) -> Result<Ready, Error> {
        let interval = options.interval;
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
            return Err(Error::Interval { asked: interval, min: INTERVAL_MIN, max: INTERVAL_MAX });
        }
        let mut refused = Vec::new();
        let sources = sources(target, options, &mut refused)?;
        Ok(Ready { sources, interval, refused })
    }

    /// Opens the counters, takes the first sample and starts the thread.
    ///
    /// # Errors
    /// As of [`Meter::open`] and [`Ready::start`].
    pub fn start(target: &Target, options: &Options) -> Result<Self, Error> {
        Self::open(target, options)?.start()
    }

    /// The counters that could not be had, and what to do about it.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The counters that are had, in the order of an interval's values.
    #[must_use]
    pub fn counters(&self) -> Vec<Counter> {
        lock(&self.shared).counters().to_vec()
    }

    /// The interval of this number, counted from 0; `None` while it is not over, or 10,000 intervals later.
    #[must_use]
    pub fn interval(&self, number: usize) -> Option<Interval> {
        lock(&self.shared).interval(number)
    }

    /// Takes the last sample, and tells what came of all.
    ///
    /// # Panics
    /// The thread that samples did.
    #[must_use]
    pub fn stop(self) -> Readings {
        drop(self.running);
        let own_cpu_seconds = self.thread.join().expect("sampling does not panic");
        lock(&self.shared).readings(own_cpu_seconds)
    }
}

/// What the thread works with.
struct Sampler {
    sources: Vec<Box<dyn Source>>,
    sheet: Sheet,
    /// Places on the sheet of the counters that are had.
    places: Vec<usize>,
    record: Arc<Mutex<Record>>,
    started: Instant,
}

impl Sampler {
    /// Samples until the other end hangs up, and tells the processor time that it took.
    fn run(&mut self, interval: Duration, hung_up: &Receiver<()>) -> f64 {
        let mut due = self.started;
        loop {
            due = next(due, interval);
            let wait = due.saturating_duration_since(Instant::now());
            let goes_on = hung_up.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
            self.sample();
            if !goes_on {
                return thread_cpu_seconds();
            }
        }
    }

    fn sample(&mut self) {
        let Self { sources, sheet, places, record, started } = self;
        sources.iter_mut().for_each(|source| source.sample(sheet));
        let now = started.elapsed().as_secs_f64();
        let sample = chosen(&sheet.take(), places);
        lock(record).add(now, &sample);
    }
}

fn chosen(values: &[f64], places: &[usize]) -> Vec<f64> {
    places.iter().map(|&place| values[place]).collect()
}

/// When the next sample is due, on the schedule that `due` is on; what is past is left out.
fn next(due: Instant, interval: Duration) -> Instant {
    let next = due + interval;
    let now = Instant::now();
    if next >= now { next } else { now + interval }
}

fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Nobody panics with the lock held, so what is behind it is whole.
fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}
