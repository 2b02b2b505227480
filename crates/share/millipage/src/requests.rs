//! Fault slots: a faulting thread posts its fault in one, and waits there in the signal handler.

use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use forebay_sigsafe::{general as n, sys};

use crate::doorbell::Doorbell;

/// Threads of a host that can wait in faults at the same time; more wait for a slot.
const SLOTS: usize = 64;
/// How long a thread sleeps in a fault before it looks again.
const SLEEP_NS: i64 = 10_000_000;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// A fault is in it.
const POSTED: u32 = 2;
/// The progress thread knows of it.
const SEEN: u32 = 3;
/// The minipage is there.
const SERVED: u32 = 4;
/// The thread tries again; the progress thread has yet to see that.
const RESUMED: u32 = 5;

/// The slots of one host.
#[derive(Debug)]
pub struct FaultSlots {
    slots: [FaultSlot; SLOTS],
    /// FaultSlots that are not free.
    open: AtomicU32,
    /// The progress thread wants to be woken when a thread resumes.
    needs_resumption: AtomicBool,
    /// Set when no more faults will be served.
    closed: AtomicBool,
}

#[derive(Debug)]
struct FaultSlot {
    state: AtomicU32,
    /// Minipage in the high half, 1 for a write.
    fault: AtomicU64,
}

/// What the progress thread finds in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A thread wants to read or write a minipage.
    Fault { slot: usize, minipage: u32, is_write: bool },
    /// A thread that was woken is about to try again.
    Resumed { minipage: u32 },
}

impl FaultSlots {
    pub const fn new() -> Self {
        Self {
            slots: [const { FaultSlot { state: AtomicU32::new(FREE), fault: AtomicU64::new(0) } }; SLOTS],
            open: AtomicU32::new(0),
            needs_resumption: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Leaves a fault and waits until it is served; `false` if it never will be. In a signal handler.
    pub fn post(&self, minipage: u32, is_write: bool, doorbell: &Doorbell) -> bool {
        let Some(slot) = self.take(doorbell) else { return false };
        slot.fault.store(u64::from(minipage) << 32 | u64::from(is_write), Relaxed);
        self.open.fetch_add(1, SeqCst);
        slot.state.store(POSTED, SeqCst);
        doorbell.ring();
        loop {
            let state = slot.state.load(Acquire);
            if state == SERVED {
                break;
            }
            if self.closed.load(Relaxed) {
                return false;
            }
            futex(&slot.state, n::FUTEX_WAIT, state);
        }
        // Mostly no host waits for that, and the progress thread sees it when it next wakes.
        slot.state.store(RESUMED, SeqCst);
        if self.needs_resumption.load(SeqCst) {
            doorbell.ring();
        }
        true
    }

    fn take(&self, doorbell: &Doorbell) -> Option<&FaultSlot> {
        while !self.closed.load(Relaxed) {
            let free = |slot: &&FaultSlot| slot.state.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok();
            if let Some(slot) = self.slots.iter().find(free) {
                return Some(slot);
            }
            // Some may be free as soon as the progress thread looks.
            self.needs_resumption.store(true, SeqCst);
            doorbell.ring();
            // SAFETY: no arguments.
            let _ = unsafe { sys!(n::__NR_sched_yield) };
        }
        None
    }

    /// Whether there is anything that the progress thread should look at now.
    pub fn has_events(&self) -> bool {
        let needs_resumption = self.needs_resumption.load(SeqCst);
        self.any(|state| state == POSTED || state == RESUMED && needs_resumption)
    }

    /// Whether a thread waits for its fault to be served.
    pub fn has_waiters(&self) -> bool {
        self.any(|state| state == POSTED || state == SEEN)
    }

    fn any(&self, is_meant: impl Fn(u32) -> bool) -> bool {
        self.open.load(SeqCst) > 0 && self.slots.iter().any(|slot| is_meant(slot.state.load(SeqCst)))
    }

    /// Has the doorbell ring when a thread resumes, or no more.
    pub fn need_resumption(&self, needed: bool) {
        self.needs_resumption.store(needed, SeqCst);
    }

    /// All that is new.
    pub fn look(&self, mut found: impl FnMut(Found)) {
        if self.open.load(SeqCst) == 0 {
            return;
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let state = slot.state.load(Acquire);
            let fault = slot.fault.load(Relaxed);
            let minipage = (fault >> 32) as u32;
            if state == POSTED {
                slot.state.store(SEEN, Relaxed);
                found(Found::Fault { slot: index, minipage, is_write: fault & 1 != 0 });
            } else if state == RESUMED {
                slot.state.store(FREE, Release);
                self.open.fetch_sub(1, SeqCst);
                found(Found::Resumed { minipage });
            }
        }
    }

    /// Lets the thread that waits in a slot try again.
    pub fn wake(&self, slot: usize) {
        if let Some(slot) = self.slots.get(slot) {
            slot.state.store(SERVED, Release);
            futex(&slot.state, n::FUTEX_WAKE, 1);
        }
    }

    /// Ends service: every post fails from here on.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        self.slots.iter().for_each(|slot| futex(&slot.state, n::FUTEX_WAKE, 1));
    }
}

/// Waits while the word is `value`, for some time at most, or wakes so many that do. In a signal handler too.
pub fn futex(word: &AtomicU32, operation: u32, value: u32) {
    let limit = n::__kernel_timespec { tv_sec: 0, tv_nsec: SLEEP_NS };
    // SAFETY: the call reads the word and a local.
    let _ = unsafe {
        sys!(n::__NR_futex, word.as_ptr(), operation | n::FUTEX_PRIVATE_FLAG, value, &raw const limit)
    };
}
