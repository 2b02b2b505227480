//! Requests of a machine's hosts to the thread that serves the machine. A thread writes what it asks for into a *slot* and waits
//! there: in a signal handler, where it has faulted.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use forebay_coherence::{Access, Lock, Minipage, Waiter};
use forebay_sigsafe::{general as n, sys};

use crate::{doorbell::Doorbell, engine::Ended, parts::Words};

/// Threads of a host that can wait at the same time; more wait for a slot.
pub const SLOTS: usize = 64;
/// How long a thread sleeps before it looks again.
const SLEEP_NS: i64 = 10_000_000;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// A request is in it.
const POSTED: u32 = 2;
/// The serving thread knows of it.
const SEEN: u32 = 3;
/// It is served: the minipage is there, or the call is over.
const SERVED: u32 = 4;
/// The thread tries again; the serving thread has yet to see that.
const RESUMED: u32 = 5;

/// What a thread asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// So much of a minipage, after a fault.
    Fault(Minipage, Access),
    /// The same, to access it later. No thread waits for it.
    Prefetch(Minipage, Access),
    /// Copies of a minipage on all machines. No thread waits for them.
    Push(Minipage),
    /// A lock for the machine.
    Lock(Lock),
    /// A lock for the machine, if no other one has it.
    TryLock(Lock),
    /// That the thread of this waiter waits for a lock no longer. No thread waits for that.
    Forgo(Lock, Waiter),
    /// To give a lock up. No thread waits for that.
    Unlock(Lock),
    /// To add minipages alone: the first, how many, and what is said of them.
    Add(Minipage, u32, u32),
    /// To free a minipage that a machine has added alone.
    Free(Minipage),
    /// That a minipage of this machine, which was free, is used for something new. No thread waits for that.
    Renew(Minipage),
    /// To free minipages together with all machines: the first, and how many.
    FreeTogether(Minipage, u32),
    /// All machines at the barrier, where they should say this alike.
    Arrive(u64),
}

impl Request {
    fn to_words(self) -> (u64, u64) {
        let (kind, number, word) = match self {
            Self::Fault(minipage, access) => (0, minipage.0, access as u64),
            Self::Prefetch(minipage, access) => (1, minipage.0, access as u64),
            Self::Push(minipage) => (2, minipage.0, 0),
            Self::Lock(lock) => (3, 0, lock.0),
            Self::Unlock(lock) => (4, 0, lock.0),
            Self::Arrive(word) => (5, 0, word),
            Self::TryLock(lock) => (6, 0, lock.0),
            Self::Add(first, count, what) => (7, first.0, u64::from(what) << 32 | u64::from(count)),
            Self::Free(minipage) => (8, minipage.0, 0),
            Self::Renew(minipage) => (10, minipage.0, 0),
            Self::FreeTogether(first, count) => (11, first.0, count.into()),
            // Through a slot only those forgo that wait in one, whose numbers are small.
            Self::Forgo(lock, waiter) => (9, waiter.0 as u32, lock.0),
        };
        (kind << 32 | u64::from(number), word)
    }

    const fn from_words(what: u64, word: u64) -> Self {
        let (number, access) = (what as u32, Access::from_number(word as u32));
        match what >> 32 {
            0 => Self::Fault(Minipage(number), access),
            1 => Self::Prefetch(Minipage(number), access),
            2 => Self::Push(Minipage(number)),
            3 => Self::Lock(Lock(word)),
            4 => Self::Unlock(Lock(word)),
            5 => Self::Arrive(word),
            7 => Self::Add(Minipage(number), word as u32, (word >> 32) as u32),
            8 => Self::Free(Minipage(number)),
            9 => Self::Forgo(Lock(word), Waiter(number as u64)),
            10 => Self::Renew(Minipage(number)),
            11 => Self::FreeTogether(Minipage(number), word as u32),
            _ => Self::TryLock(Lock(word)),
        }
    }

    /// The lock that is wanted.
    pub const fn lock(self) -> Option<Lock> {
        match self {
            Self::Lock(lock) | Self::TryLock(lock) => Some(lock),
            _ => None,
        }
    }

    const fn is_waited_for(self) -> bool {
        !matches!(
            self,
            Self::Prefetch(..) | Self::Push(_) | Self::Unlock(_) | Self::Forgo(..) | Self::Renew(_)
        )
    }
}

/// What the serving thread finds in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A thread asks for something.
    Asked { slot: usize, request: Request },
    /// A thread that was woken after a fault is about to try again.
    Resumed(Minipage),
}

/// The slots of one host, all 0 at first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slots {
    slots: [Slot; SLOTS],
    /// Slots that are not free.
    open: AtomicU32,
    /// The serving thread wants to be woken when a thread resumes.
    needs_resumption: AtomicU32,
    /// Not 0 when nothing is served any more.
    closed: AtomicU32,
}

#[derive(Debug)]
#[repr(C)]
struct Slot {
    state: AtomicU32,
    /// How a call ended.
    ended: AtomicU32,
    /// Not 0 where the thread may sleep.
    asleep: AtomicU32,
    unused: u32,
    what: AtomicU64,
    word: AtomicU64,
}

// SAFETY: atomic words, and space between them.
unsafe impl Words for Slots {}

impl Slots {
    /// Asks after a fault, and waits until the minipage is there; `false` if it never will be. Calls `serve` with the slot, and
    /// what tells whether that is served, which tries to serve it and tells whether it has begun to. Calls `resume` when the
    /// minipage is there. In a signal handler.
    pub fn fault(
        &self,
        request: Request,
        doorbell: &Doorbell,
        serve: impl FnOnce(usize, &dyn Fn() -> bool) -> bool,
        resume: impl FnOnce(),
    ) -> bool {
        let Some((index, slot)) = self.take(doorbell) else { return false };
        self.write(slot, request);
        slot.state.store(SEEN, SeqCst);
        if !serve(index, &|| slot.is_served() || self.is_closed()) {
            slot.state.store(POSTED, SeqCst);
            doorbell.ring();
        }
        while !slot.is_served() {
            if self.is_closed() {
                return false;
            }
            slot.sleep();
        }
        resume();
        // Mostly no host waits for that, and the serving thread sees it when it next wakes.
        slot.state.store(RESUMED, SeqCst);
        if self.needs_resumption.load(SeqCst) != 0 {
            doorbell.ring();
        }
        true
    }

    /// Asks for what a call waits for, and waits until that is there or `is_lost`, which is told the slot.
    pub fn call(
        &self,
        request: Request,
        doorbell: &Doorbell,
        mut is_lost: impl FnMut(usize) -> bool,
    ) -> Ended {
        let Some((index, slot)) = self.post(request, doorbell) else { return Ended::Lost };
        while !slot.is_served() {
            if self.is_closed() || is_lost(index) {
                // The slot stays taken: nothing is served any more.
                return Ended::Lost;
            }
            slot.sleep();
        }
        let ended = Ended::from_number(slot.ended.load(Relaxed));
        self.free(slot);
        ended
    }

    /// Asks for what no thread waits for.
    pub fn tell(&self, request: Request, doorbell: &Doorbell) {
        // Where nothing is served any more, so be it.
        let _ = self.post(request, doorbell);
    }

    fn post(&self, request: Request, doorbell: &Doorbell) -> Option<(usize, &Slot)> {
        let (index, slot) = self.take(doorbell)?;
        self.write(slot, request);
        slot.state.store(POSTED, SeqCst);
        doorbell.ring();
        Some((index, slot))
    }

    fn write(&self, slot: &Slot, request: Request) {
        let (what, word) = request.to_words();
        slot.what.store(what, Relaxed);
        slot.word.store(word, Relaxed);
        self.open.fetch_add(1, SeqCst);
    }

    fn take(&self, doorbell: &Doorbell) -> Option<(usize, &Slot)> {
        while !self.is_closed() {
            let free = |(_, slot): &(usize, &Slot)| {
                slot.state.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok()
            };
            if let Some(taken) = self.slots.iter().enumerate().find(free) {
                return Some(taken);
            }
            // Some may be free as soon as the serving thread looks.
            self.needs_resumption.store(1, SeqCst);
            doorbell.ring();
            // SAFETY: no arguments.
            let _ = unsafe { sys!(n::__NR_sched_yield) };
        }
        None
    }

    fn free(&self, slot: &Slot) {
        slot.state.store(FREE, Release);
        self.open.fetch_sub(1, SeqCst);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Relaxed) != 0
    }

    /// Whether there is anything that the serving thread should look at now.
    pub fn has_events(&self) -> bool {
        let needs_resumption = self.needs_resumption.load(SeqCst) != 0;
        self.any(|slot, state| state == POSTED || state == RESUMED && needs_resumption && slot.is_fault())
    }

    /// Whether a thread waits in a fault.
    pub fn has_faults(&self) -> bool {
        self.any(|slot, state| (state == POSTED || state == SEEN) && slot.is_fault())
    }

    /// Whether a thread waits for anything.
    pub fn has_waiters(&self) -> bool {
        self.any(|_, state| state == POSTED || state == SEEN)
    }

    fn any(&self, is_meant: impl Fn(&Slot, u32) -> bool) -> bool {
        self.open.load(SeqCst) > 0 && self.slots.iter().any(|slot| is_meant(slot, slot.state.load(SeqCst)))
    }

    /// Has the doorbell ring when a thread resumes, or no more.
    pub fn need_resumption(&self, needed: bool) {
        self.needs_resumption.store(needed.into(), SeqCst);
    }

    /// All that is new.
    pub fn look(&self, mut found: impl FnMut(Found)) {
        if self.open.load(SeqCst) == 0 {
            return;
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let state = slot.state.load(Acquire);
            let request = slot.request();
            if state == POSTED {
                slot.state.store(SEEN, Relaxed);
                if !request.is_waited_for() {
                    self.free(slot);
                }
                found(Found::Asked { slot: index, request });
            } else if state == RESUMED {
                self.free(slot);
                if let Request::Fault(minipage, _) = request {
                    found(Found::Resumed(minipage));
                }
            }
        }
    }

    /// Frees the slots of threads that try again, where what is `found` so is seen to. In a signal handler.
    pub fn look_at_resumed(&self, mut found: impl FnMut(Minipage) -> bool) {
        if self.open.load(SeqCst) == 0 {
            return;
        }
        for slot in self.slots.iter().filter(|slot| slot.state.load(Acquire) == RESUMED) {
            if let Request::Fault(minipage, _) = slot.request()
                && found(minipage)
            {
                self.free(slot);
            }
        }
    }

    /// Lets the thread that waits in a slot go on.
    pub fn wake(&self, slot: usize, ended: Ended) {
        if let Some(slot) = self.slots.get(slot) {
            slot.ended.store(ended as u32, Relaxed);
            slot.state.store(SERVED, SeqCst);
            if slot.asleep.load(SeqCst) != 0 {
                futex(&slot.state, n::FUTEX_WAKE, 1);
            }
        }
    }

    /// Ends service: no request is served from here on.
    pub fn close(&self) {
        self.closed.store(1, SeqCst);
        self.slots.iter().for_each(|slot| futex(&slot.state, n::FUTEX_WAKE, 1));
    }
}

impl Slot {
    fn request(&self) -> Request {
        Request::from_words(self.what.load(Relaxed), self.word.load(Relaxed))
    }

    fn is_fault(&self) -> bool {
        matches!(self.request(), Request::Fault(..))
    }

    fn is_served(&self) -> bool {
        self.state.load(Acquire) == SERVED
    }

    /// Sleeps until it may be served.
    fn sleep(&self) {
        self.asleep.store(1, SeqCst);
        let state = self.state.load(SeqCst);
        if state != SERVED {
            futex(&self.state, n::FUTEX_WAIT, state);
        }
        self.asleep.store(0, SeqCst);
    }
}

/// Waits while the word is `value`, for some time at most, or wakes so many that do, in any process. In a signal handler too.
pub fn futex(word: &AtomicU32, operation: u32, value: u32) {
    let limit = n::__kernel_timespec { tv_sec: 0, tv_nsec: SLEEP_NS };
    // SAFETY: the call reads the word and a local.
    let _ = unsafe { sys!(n::__NR_futex, word.as_ptr(), operation, value, &raw const limit) };
}
