//! The end of the program's image, and of the speculator that was forked from it.

use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::Slot;
use forebay_sigsafe::{general as n, ticks};

use super::outcome::{abandon, finish, settle_end};
use super::quiet::wait_for_hints;
use super::slow::{self, Private};
use super::{PROBES, opened};
use crate::{process, session, spawn, usage};

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
    wait_for_hints();
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
    wait_for_hints();
}

#[inline(never)]
fn settle_figures(slot: &Slot) {
    let usage = usage::of(n::RUSAGE_SELF as i32);
    slot.counters.footprint_bytes.store((usage.ru_maxrss as u64) << 10, Relaxed);
    slot.counters.reclaims.store(usage.ru_minflt as u64, Relaxed);
    slot.counters.faults.store(usage.ru_majflt as u64, Relaxed);
}
