//! Where threads leave their faults, and wait in the signal handler.

use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use forebay_sigsafe::{general as n, sys};

use crate::bell::Bell;

/// Threads of a host that can wait in faults at the same time; more wait for a cell.
const CELLS: usize = 64;
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

/// The cells of one host.
#[derive(Debug)]
pub struct Cells {
    cells: [Cell; CELLS],
    /// Cells that are not free.
    open: AtomicU32,
    /// The progress thread wants to be woken when a thread resumes.
    needs_resumption: AtomicBool,
    /// Nobody will serve a fault any more.
    closed: AtomicBool,
}

#[derive(Debug)]
struct Cell {
    state: AtomicU32,
    /// Minipage in the high half, 1 for a write.
    fault: AtomicU64,
}

/// What the progress thread finds in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A thread wants to read or write a minipage.
    Fault { cell: usize, minipage: u32, is_write: bool },
    /// A thread that was woken is about to try again.
    Resumed { minipage: u32 },
}

impl Cells {
    pub const fn new() -> Self {
        Self {
            cells: [const { Cell { state: AtomicU32::new(FREE), fault: AtomicU64::new(0) } }; CELLS],
            open: AtomicU32::new(0),
            needs_resumption: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Leaves a fault and waits until it is served; `false` if it never will be. In a signal handler.
    pub fn post(&self, minipage: u32, is_write: bool, bell: &Bell) -> bool {
        let Some(cell) = self.take(bell) else { return false };
        cell.fault.store(u64::from(minipage) << 32 | u64::from(is_write), Relaxed);
        self.open.fetch_add(1, SeqCst);
        cell.state.store(POSTED, SeqCst);
        bell.ring();
        loop {
            let state = cell.state.load(Acquire);
            if state == SERVED {
                break;
            }
            if self.closed.load(Relaxed) {
                return false;
            }
            futex(&cell.state, n::FUTEX_WAIT, state);
        }
        // Mostly nobody waits for that, and the progress thread sees it when it next wakes.
        cell.state.store(RESUMED, SeqCst);
        if self.needs_resumption.load(SeqCst) {
            bell.ring();
        }
        true
    }

    fn take(&self, bell: &Bell) -> Option<&Cell> {
        while !self.closed.load(Relaxed) {
            let free = |cell: &&Cell| cell.state.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok();
            if let Some(cell) = self.cells.iter().find(free) {
                return Some(cell);
            }
            // Some may be free as soon as the progress thread looks.
            self.needs_resumption.store(true, SeqCst);
            bell.ring();
            // SAFETY: no arguments.
            let _ = unsafe { sys!(n::__NR_sched_yield) };
        }
        None
    }

    /// Whether there is anything that the progress thread should look at now.
    pub fn have_news(&self) -> bool {
        let needs_resumption = self.needs_resumption.load(SeqCst);
        self.any(|state| state == POSTED || state == RESUMED && needs_resumption)
    }

    /// Whether a thread waits for its fault to be served.
    pub fn are_waited_in(&self) -> bool {
        self.any(|state| state == POSTED || state == SEEN)
    }

    fn any(&self, is_meant: impl Fn(u32) -> bool) -> bool {
        self.open.load(SeqCst) > 0 && self.cells.iter().any(|cell| is_meant(cell.state.load(SeqCst)))
    }

    /// Has the bell ring when a thread resumes, or no more.
    pub fn need_resumption(&self, needed: bool) {
        self.needs_resumption.store(needed, SeqCst);
    }

    /// All that is new.
    pub fn look(&self, mut found: impl FnMut(Found)) {
        if self.open.load(SeqCst) == 0 {
            return;
        }
        for (index, cell) in self.cells.iter().enumerate() {
            let state = cell.state.load(Acquire);
            let fault = cell.fault.load(Relaxed);
            let minipage = (fault >> 32) as u32;
            if state == POSTED {
                cell.state.store(SEEN, Relaxed);
                found(Found::Fault { cell: index, minipage, is_write: fault & 1 != 0 });
            } else if state == RESUMED {
                cell.state.store(FREE, Release);
                self.open.fetch_sub(1, SeqCst);
                found(Found::Resumed { minipage });
            }
        }
    }

    /// Lets the thread that waits in a cell try again.
    pub fn wake(&self, cell: usize) {
        if let Some(cell) = self.cells.get(cell) {
            cell.state.store(SERVED, Release);
            futex(&cell.state, n::FUTEX_WAKE, 1);
        }
    }

    /// Serves nobody any more.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        self.cells.iter().for_each(|cell| futex(&cell.state, n::FUTEX_WAKE, 1));
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
