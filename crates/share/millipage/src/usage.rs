//! Counts what a host did, and where its threads spent their time.

use std::{
    ops::AddAssign,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use forebay_coherence::Counts;
use forebay_coherence::trace::Event;
use forebay_sigsafe::ticks;

/// What a host did, and where its time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Faults, requests and what came of them.
    pub counts: Counts,
    /// What went over the wire.
    pub traffic: Traffic,
    /// Where the time went.
    pub times: Times,
}

/// Messages between this host and others. A message to itself takes no wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages that were sent.
    pub messages_sent: u64,
    /// Bytes in them: what they say, and contents.
    pub bytes_sent: u64,
    /// Messages that were received.
    pub messages_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
}

/// Where time went: that of the program's threads, added up, but for the last two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// In faults that wanted to read, from the signal's handler on.
    pub read_faults: Duration,
    /// In faults that wanted to write.
    pub write_faults: Duration,
    /// At barriers, also those within other calls.
    pub barriers: Duration,
    /// Taking and giving up locks.
    pub locks: Duration,
    /// In calls that ask for what is needed later, or push it.
    pub prefetches: Duration,
    /// That the progress thread was at work.
    pub service: Duration,
    /// That passed.
    pub elapsed: Duration,
}

impl Times {
    /// What is left for the program itself, where it has one thread.
    #[must_use]
    pub fn computing(&self) -> Duration {
        let waiting = self.read_faults + self.write_faults + self.barriers + self.locks + self.prefetches;
        self.elapsed.saturating_sub(waiting)
    }
}

impl Usage {
    /// Each figure with its name; times in microseconds.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let (traffic, times) = (&self.traffic, &self.times);
        let microseconds = |time: Duration| time.as_micros() as u64;
        let mut named = self.counts.named().to_vec();
        named.extend([
            ("messages sent", traffic.messages_sent),
            ("bytes sent", traffic.bytes_sent),
            ("messages received", traffic.messages_received),
            ("bytes received", traffic.bytes_received),
            ("us in read faults", microseconds(times.read_faults)),
            ("us in write faults", microseconds(times.write_faults)),
            ("us at barriers", microseconds(times.barriers)),
            ("us for locks", microseconds(times.locks)),
            ("us for prefetches", microseconds(times.prefetches)),
            ("us of service", microseconds(times.service)),
            ("us in all", microseconds(times.elapsed)),
        ]);
        named
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.counts += more.counts;
        self.traffic += more.traffic;
        self.times += more.times;
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        self.messages_sent += more.messages_sent;
        self.bytes_sent += more.bytes_sent;
        self.messages_received += more.messages_received;
        self.bytes_received += more.bytes_received;
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, more: Self) {
        self.read_faults += more.read_faults;
        self.write_faults += more.write_faults;
        self.barriers += more.barriers;
        self.locks += more.locks;
        self.prefetches += more.prefetches;
        self.service += more.service;
        self.elapsed += more.elapsed;
    }
}

/// What a thread does other than compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    ReadFault,
    WriteFault,
    Barrier,
    Lock,
    Prefetch,
    Service,
}

const ACTIVITIES: usize = Activity::Service as usize + 1;

impl Activity {
    pub const fn of(event: Event) -> Option<Self> {
        match event {
            Event::Compute(_) => None,
            Event::Read(_) => Some(Self::ReadFault),
            Event::Write(_) => Some(Self::WriteFault),
            Event::PrefetchRead(_) | Event::PrefetchWrite(_) | Event::Push(_) => Some(Self::Prefetch),
            Event::Lock(_) | Event::Unlock(_) => Some(Self::Lock),
            Event::Barrier(_) => Some(Self::Barrier),
        }
    }
}

/// Adds time up, in ticks of the time-stamp counter: by any thread, and in signal handlers.
#[derive(Debug)]
pub struct Clock {
    ticks: [AtomicU64; ACTIVITIES],
    /// When the times were last taken.
    taken: AtomicU64,
    /// The same moment twice: they tell how long a tick is.
    begun: (Instant, u64),
}

impl Clock {
    pub fn new() -> Self {
        let begun = (Instant::now(), ticks());
        Self { ticks: Default::default(), taken: AtomicU64::new(begun.1), begun }
    }

    /// Does something, and adds the time that it took. In a signal handler too.
    pub fn time<R>(&self, activity: Option<Activity>, act: impl FnOnce() -> R) -> R {
        let begun = ticks();
        let result = act();
        if let Some(activity) = activity {
            self.add(activity, begun);
        }
        result
    }

    /// Adds the time since `begun`.
    pub fn add(&self, activity: Activity, begun: u64) {
        self.ticks[activity as usize].fetch_add(ticks().wrapping_sub(begun), Relaxed);
    }

    /// The times since they were last taken.
    pub fn take(&self) -> Times {
        let now = ticks();
        let tick_ns = self.begun.0.elapsed().as_nanos() as f64 / now.wrapping_sub(self.begun.1).max(1) as f64;
        let time = |ticks: u64| Duration::from_nanos((ticks as f64 * tick_ns) as u64);
        let spent = |activity: Activity| time(self.ticks[activity as usize].swap(0, Relaxed));
        Times {
            read_faults: spent(Activity::ReadFault),
            write_faults: spent(Activity::WriteFault),
            barriers: spent(Activity::Barrier),
            locks: spent(Activity::Lock),
            prefetches: spent(Activity::Prefetch),
            service: spent(Activity::Service),
            elapsed: time(now.wrapping_sub(self.taken.swap(now, Relaxed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn time_goes_to_what_it_was_spent_on_and_the_rest_is_computing() {
        const NAP: Duration = Duration::from_millis(20);
        let clock = Clock::new();
        clock.time(Activity::of(Event::Barrier(0)), || sleep(NAP));
        clock.time(Activity::of(Event::Unlock(0)), || sleep(NAP / 2));
        sleep(NAP);
        let times = clock.take();
        assert!(times.barriers >= NAP && times.locks >= NAP / 2, "{times:?}");
        assert!(times.computing() >= NAP, "{times:?}");
        assert_eq!(times.read_faults + times.write_faults + times.prefetches + times.service, Duration::ZERO);
        assert_eq!(clock.take().barriers, Duration::ZERO);
    }
}
