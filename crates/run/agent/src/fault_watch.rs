//! This process's entry in the header: which of its page faults shall cause a signal. The supervisor reads it.

use core::sync::atomic::{AtomicU32, Ordering};

use forebay_protocol::layout::{Header, WATCHED_THREADS, WISH_NEVER, Watched, WatchedThread};

use crate::{process, session};

const NONE: u32 = u32::MAX;
/// How long the supervisor gets to take an event back.
const CLOSE_PAUSES_MAX: u32 = 10_000;

/// This process's entry in the header.
static ENTRY: AtomicU32 = AtomicU32::new(NONE);

/// Finds or takes an entry for the process.
pub fn claim(header: &Header, process: u32) -> Option<(u32, &Watched)> {
    let own = |entry: &Watched| entry.pid.load(Ordering::Relaxed) == process;
    let free =
        |entry: &Watched| entry.pid.compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let at = header.watched.iter().position(own).or_else(|| header.watched.iter().position(free))?;
    Some((at as u32, header.watched.get(at)?))
}

/// This process's entry, if it wishes for signals.
pub fn entry() -> Option<&'static Watched> {
    session::header()?.watched.get(ENTRY.load(Ordering::Relaxed) as usize)
}

/// What the header has for this process's threads, if it wishes for signals.
pub fn threads() -> Option<&'static [WatchedThread; WATCHED_THREADS]> {
    session::header()?.watched_threads.get(ENTRY.load(Ordering::Relaxed) as usize)
}

/// The entry is this process's, which has a handler now and wishes to be told. No thread has joined yet.
pub fn begin(header: &Header, index: u32, entry: &Watched) {
    for thread in header.watched_threads.get(index as usize).into_iter().flatten() {
        thread.ready.store(0, Ordering::Relaxed);
    }
    // An image before this one may have wished otherwise.
    entry.wish.store(0, Ordering::Relaxed);
    entry.image.fetch_add(1, Ordering::Release);
    ENTRY.store(index, Ordering::Relaxed);
}

/// This process gives its entry up. Whether it, or the process that it is a child of, had one.
pub fn forget() -> bool {
    ENTRY.swap(NONE, Ordering::Relaxed) != NONE
}

/// Whether this process, or the one that it is a child of, is to be told of its faults.
pub fn is_on() -> bool {
    ENTRY.load(Ordering::Relaxed) != NONE
}

/// Wishes for a signal at one fault in `period`; not where none are wanted at all.
pub fn wish_for_one_in(period: u32) {
    if let Some(entry) = entry() {
        let wish = entry.wish.load(Ordering::Relaxed);
        if wish != WISH_NEVER && wish != period {
            let _ = entry.wish.compare_exchange(wish, period, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Turns the signals off: they will never be of use.
pub fn turn_off() {
    if let Some(entry) = entry() {
        entry.wish.store(WISH_NEVER, Ordering::Relaxed);
    }
}

/// Waits until the supervisor has taken events back.
pub fn wait_until(are_closed: impl Fn() -> bool) {
    for paused in 0..CLOSE_PAUSES_MAX {
        if are_closed() {
            break;
        }
        if paused == 0 {
            let _ = session::wake_supervisor();
        }
        process::pause();
    }
}
