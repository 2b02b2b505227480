//! Records what the threads of a host do, for a projection ([`forebay_coherence::trace`]): faults and calls, and the
//! computing time between them.

use std::sync::{
    Mutex, PoisonError,
    atomic::{
        AtomicBool, AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use forebay_coherence::trace::{Event, Shared, Trace};
use forebay_sigsafe::{general as n, sys};

/// Written by one thread, in signal handlers too.
pub struct Recorder {
    /// The thread, by its number.
    thread: AtomicU64,
    /// Processor time that it had used when it last went on.
    since_ns: AtomicU64,
    events: Box<[AtomicU64]>,
    /// How many events there were; those beyond the room are lost.
    count: AtomicUsize,
    /// Other threads have done something as well.
    has_others: AtomicBool,
    /// A host has allocated memory alone.
    is_alone: AtomicBool,
    /// Hosts have freed memory, and others may have the numbers of its minipages.
    has_freed: AtomicBool,
    minipages: Mutex<Vec<Shared>>,
}

/// Where the kind of an event begins in its 64 bits.
const KIND_SHIFT: u32 = 60;

impl Recorder {
    pub fn new(events_max: usize) -> Self {
        Self {
            thread: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            events: (0..events_max).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicUsize::new(0),
            has_others: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
            has_freed: AtomicBool::new(false),
            minipages: Mutex::default(),
        }
    }

    /// From now on, what this thread does. Minipages that are there stay known.
    pub fn begin(&self) {
        self.count.store(0, Relaxed);
        self.has_others.store(false, Relaxed);
        self.thread.store(this_thread(), Release);
        self.go_on();
    }

    /// All that the thread, which is this one, has done so far; or why that is not known, with a remedy.
    pub fn trace(&self) -> Result<Trace, String> {
        self.push_computed();
        if self.has_others.load(Relaxed) || self.thread.load(Relaxed) != this_thread() {
            return Err("several threads were at work; let one thread of each host use it".into());
        }
        if self.is_alone.load(Relaxed) {
            return Err(
                "a host allocated memory alone, of which others do not know; let all hosts allocate it"
                    .into(),
            );
        }
        if self.has_freed.load(Relaxed) {
            return Err("hosts freed memory, of which a projection does not know; let them keep it".into());
        }
        let (count, room) = (self.count.load(Acquire), self.events.len());
        if count > room {
            return Err(format!("there was room for {room} events, and there were {count}; give more room"));
        }
        let events = self.events[..count].iter().map(|word| unpacked(word.load(Relaxed))).collect();
        let minipages = self.minipages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Trace { minipages, hosts: vec![events] })
    }

    /// A minipage was allocated.
    pub fn add(&self, minipage: Shared) {
        self.minipages.lock().unwrap_or_else(PoisonError::into_inner).push(minipage);
    }

    /// This host has allocated memory alone, or come to such memory. In a signal handler too.
    pub fn note_alone(&self) {
        self.is_alone.store(true, Relaxed);
    }

    /// Hosts have freed memory together.
    pub fn note_freed(&self) {
        self.has_freed.store(true, Relaxed);
    }

    /// The thread has come to something. In a signal handler too.
    pub fn note(&self, event: Event) {
        if self.thread.load(Acquire) == this_thread() {
            self.push_computed();
            self.push(event);
        } else {
            self.has_others.store(true, Relaxed);
        }
    }

    /// The thread computes again. In a signal handler too.
    pub fn go_on(&self) {
        if self.thread.load(Relaxed) == this_thread() {
            self.since_ns.store(used_ns(), Relaxed);
        }
    }

    fn push_computed(&self) {
        self.push(Event::Compute(used_ns().saturating_sub(self.since_ns.load(Relaxed))));
    }

    fn push(&self, event: Event) {
        let place = self.count.fetch_add(1, Relaxed);
        if let Some(word) = self.events.get(place) {
            word.store(packed(event), Release);
        }
    }
}

/// 36 years of computing fit.
fn packed(event: Event) -> u64 {
    let (kind, value) = match event {
        Event::Compute(nanoseconds) => (0, nanoseconds),
        Event::Read(minipage) => (1, minipage.into()),
        Event::Write(minipage) => (2, minipage.into()),
        Event::PrefetchRead(minipage) => (3, minipage.into()),
        Event::PrefetchWrite(minipage) => (4, minipage.into()),
        Event::Push(minipage) => (5, minipage.into()),
        Event::Lock(lock) => (6, lock.into()),
        Event::Unlock(lock) => (7, lock.into()),
        Event::Barrier(barrier) => (8, barrier.into()),
    };
    kind << KIND_SHIFT | value
}

const fn unpacked(word: u64) -> Event {
    let number = word as u32;
    match word >> KIND_SHIFT {
        0 => Event::Compute(word),
        1 => Event::Read(number),
        2 => Event::Write(number),
        3 => Event::PrefetchRead(number),
        4 => Event::PrefetchWrite(number),
        5 => Event::Push(number),
        6 => Event::Lock(number),
        7 => Event::Unlock(number),
        _ => Event::Barrier(number),
    }
}

fn this_thread() -> u64 {
    // SAFETY: no arguments.
    unsafe { sys!(n::__NR_gettid) as u64 }
}

/// Processor time that this thread has used.
fn used_ns() -> u64 {
    let mut time = n::__kernel_timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to a local.
    let _ = unsafe { sys!(n::__NR_clock_gettime, n::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
