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
/// The thread is about to try again.
const RESUMED: u32 = 5;

/// The cells of one host.
#[derive(Debug)]
pub struct Cells {
    cells: [Cell; CELLS],
    /// Cells that the progress thread has to look at.
    open: AtomicU32,
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
            closed: AtomicBool::new(false),
        }
    }

    /// Leaves a fault and waits until it is served; `false` if it never will be. In a signal handler.
    pub fn post(&self, minipage: u32, is_write: bool, bell: &Bell) -> bool {
        let Some(cell) = self.take() else { return false };
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
        // The progress thread looks at open cells for as long as there are any.
        cell.state.store(RESUMED, Release);
        true
    }

    fn take(&self) -> Option<&Cell> {
        while !self.closed.load(Relaxed) {
            let free = |cell: &&Cell| cell.state.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok();
            if let Some(cell) = self.cells.iter().find(free) {
                return Some(cell);
            }
            // SAFETY: no arguments.
            let _ = unsafe { sys!(n::__NR_sched_yield) };
        }
        None
    }

    /// Whether there is anything for the progress thread to look at, or soon will be.
    pub fn are_open(&self) -> bool {
        self.open.load(SeqCst) > 0
    }

    /// All that is new.
    pub fn look(&self, mut found: impl FnMut(Found)) {
        if !self.are_open() {
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
