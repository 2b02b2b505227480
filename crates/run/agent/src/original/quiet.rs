//! Times in which neither this process's speculators nor the executor have anything open.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use forebay_protocol::layout::{CELL_FREE, CELL_READY, Header};
use forebay_sigsafe::ticks;

use super::end::dismiss;
use super::slow;
use crate::{process, session, spawn};

/// So often is waited at most until the executor has nothing open. Choice: a second together, as for the hints of one process.
const QUIETS_MAX: u32 = 20;
/// Time that the executor has to let go of files: reads of a slow device, some of them in line.
const HINT_PAUSES_MAX: u32 = 10_000;
/// The longest time for which the executor begins nothing, unless it is asked again. Choice: its reads of a slow device end within it,
/// and a process that is killed meanwhile holds up little.
const QUIET_MS: u64 = 50;
/// After so many of them the executor is called, in case a file was opened meanwhile.
const HINT_PAUSES_TO_CALL: u32 = 10;
/// After these the supervisor is asked to look.
const HINT_PAUSES_TO_WAKE: u32 = 200;

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
            wait_for_hints();
        }
        // A hint that was held for another one's folder is no job before that one is done.
        header.quiet_until.store(quiet_end(header), SeqCst);
        session::call_in();
        wait_for_jobs(header);
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
    wait_for_hints();
    for _ in 0..QUIETS_MAX {
        header.quiet_until.store(quiet_end(header), SeqCst);
        session::call_in();
        if wait_for_jobs(header) {
            break;
        }
    }
    header.quiet_until.store(quiet_end(header), SeqCst);
}

/// Waits until the executor has no file open for the process, or for the parent whose child this is.
#[inline(never)]
pub fn wait_for_hints() {
    let Some(header) = session::header() else { return };
    // The slot of a process that ends is closed already.
    let slot = session::slot();
    // Those that the executor has not taken yet are withdrawn: their speculators are gone.
    for cell in slot.map_or(&[][..], |slot| &slot.paths) {
        let _ = cell.state.compare_exchange(CELL_READY, CELL_FREE, SeqCst, Relaxed);
    }
    let tell = |until| {
        if let Some(slot) = slot {
            slot.quiet_until.store(until, SeqCst);
        }
    };
    for pauses in 0..HINT_PAUSES_MAX {
        if session::hints_under_way() == 0 {
            break;
        }
        if pauses.is_multiple_of(HINT_PAUSES_TO_CALL) {
            tell(quiet_end(header));
            session::call_in();
        }
        process::pause();
        // A killed executor finishes nothing: its supervisor sees that, or has been killed, too.
        if (pauses + 1).is_multiple_of(HINT_PAUSES_TO_WAKE) && !session::wake_supervisor() {
            break;
        }
    }
    tell(0);
}

/// When a time ends for which the executor begins nothing, from now on.
fn quiet_end(header: &Header) -> u64 {
    ticks().saturating_add(header.ticks_per_second.load(Relaxed) / 1_000 * QUIET_MS)
}

/// Waits, while it begins no other, until the executor has done its jobs, and has no file open ahead: of all processes, of programs'
/// loaders, and of a replay. One that waits for a file system which does not answer is not waited for. Whether that is so now.
#[inline(never)]
fn wait_for_jobs(header: &Header) -> bool {
    let mut pauses = 0u32;
    let has_any = || header.jobs_begun.load(SeqCst) != 0 || header.opened_count.load(Relaxed) != 0;
    while has_any() && ticks() < header.quiet_until.load(Relaxed) {
        process::pause();
        pauses += 1;
        if pauses.is_multiple_of(HINT_PAUSES_TO_WAKE) && !session::wake_supervisor() {
            break;
        }
    }
    !has_any()
}
