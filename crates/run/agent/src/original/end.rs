//! The end of the program's image, and of the speculator that was forked from it.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use forebay_protocol::layout::Slot;
use forebay_sigsafe::{general as n, ticks};

use super::outcome::{abandon, finish, settle_end};
use super::slow::{self, Private};
use super::{PROBES, opened};
use crate::{process, session, spawn, usage};

/// So often is waited at most until the executor has nothing open. Choice: a second together, as for the hints of one process.
const QUIETS_MAX: u32 = 20;

/// The program's image ends: by exec, or with the process. What comes next may unmount what the executor has open for it.
pub fn leave_image() {
    let Some(slot) = session::slot() else { return };
    if !process::is_own() {
        return;
    }
    slow::exclusive(dismiss);
    settle_figures(slot);
    PROBES.store(0, Relaxed);
    opened::end_reading();
    session::close();
    spawn::wait_for_hints();
}

/// Ends the speculator and waits until it is gone: it holds copies of descriptors and of the working directory. Without the
/// slow path's state, nothing is learned of what came of it.
pub fn dismiss(private: Option<&mut Private>) {
    let Some(slot) = session::slot() else { return };
    // The program's memory ends, so what these pages were good for stays unknown.
    slot.unconsumed_count.store(0, Relaxed);
    let Some(private) = private else {
        let _ = abandon(slot);
        spawn::wait_for_end(slot);
        return;
    };
    finish(slot, private);
    let begun = ticks();
    spawn::wait_for_end(slot);
    settle_end(slot, private, ticks().saturating_sub(begun));
}

/// Ends the speculator, and waits until what it has open is closed, also by the executor.
pub fn give_back() {
    slow::exclusive(dismiss);
    spawn::wait_for_hints();
}

/// What `act` gives while neither a speculator of this process nor the executor has anything open. `None` without a session.
pub fn in_quiet<R>(act: impl FnOnce() -> R) -> Option<R> {
    let header = session::header()?;
    let mut given = None;
    // Another thread's stall would fork anew, so the slow path is kept until the end.
    slow::exclusive(|private| {
        if spawn::may_be_left() {
            dismiss(private);
        }
        // Those of this process are waited for longer than all others, which are no concern of a process without a slot.
        if session::slot().is_some() {
            spawn::wait_for_hints();
        }
        // A hint that was held for another one's folder is no job before that one is done.
        header.quiet_until.store(spawn::quiet_end(header), SeqCst);
        session::call_in();
        spawn::wait_for_jobs(header);
        given = Some(act());
        header.quiet_until.store(0, SeqCst);
        session::ring(header);
    });
    given
}

/// A program without an agent comes next, which may unmount what the executor has open: it begins nothing for a moment, and opens no
/// more files ahead for a replay.
pub fn quieten() {
    let Some(header) = session::header() else { return };
    if let Some(taker) = header.replay.taker() {
        header.replay.end_taking(taker.slot);
    }
    spawn::wait_for_hints();
    for _ in 0..QUIETS_MAX {
        header.quiet_until.store(spawn::quiet_end(header), SeqCst);
        session::call_in();
        if spawn::wait_for_jobs(header) {
            break;
        }
    }
    header.quiet_until.store(spawn::quiet_end(header), SeqCst);
}

#[inline(never)]
fn settle_figures(slot: &Slot) {
    let usage = usage::of(n::RUSAGE_SELF as i32);
    slot.counters.footprint_bytes.store((usage.ru_maxrss as u64) << 10, Relaxed);
    slot.counters.reclaims.store(usage.ru_minflt as u64, Relaxed);
    slot.counters.faults.store(usage.ru_majflt as u64, Relaxed);
}
