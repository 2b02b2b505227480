//! The original: its calls go through verbatim, and those that wait for a device are noticed.
//!
//! The fast path is a class look-up and a word that tells whether the thread left its processor. More happens in three cases
//! only. After a stall some calls are timed. While a speculator lives, calls are compared with its log. While the fork policy
//! is armed, the next read is probed, so that the speculator is forked while the device works.
//!
//! The program may have called on a stack of a page. So rare code is not inlined: its frame is there only while it is needed.

mod calls;
mod eligibility;
mod end;
mod fault;
mod fork;
mod opened;
mod outcome;
mod quiet;
mod size;
mod slow;
mod speculation;
mod stall;
mod track;
mod unconsumed;
mod visibility;

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use forebay_protocol::layout::Header;

pub use self::calls::{
    confine, control, is_harmless, look_up, on_lock, on_mapping, on_untimed_read, read, seek,
};
pub use self::eligibility::{count_off, disable_everywhere, is_confined, may_ever_speculate};
pub use self::end::leave_image;
pub use self::fault::on_fault;
pub use self::opened::end_reading;
pub use self::quiet::{in_quiet, quieten};
pub use self::visibility::{shows_copies, stop_replay, watches_files};
use crate::{process, session, spawn, timing};

/// Generation of the speculator whose log is compared; 0 for none.
static LIVE: AtomicU32 = AtomicU32::new(0);
/// Thread that the speculator is a copy of.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Probes left: while there are any, reads are probed for a coming stall.
static PROBES: AtomicU32 = AtomicU32::new(0);

/// Starts as the original; `false` where the slow path is in use, as in a copy of a process that was in it.
pub fn begin(header: &Header) -> bool {
    let Some(mut private) = slow::enter() else { return false };
    timing::begin(header.stall_ticks_min.load(Relaxed));
    private.begin(header.ticks_per_second.load(Relaxed));
    process::begin();
    true
}

/// Starts in a forked child, whose state is that of its parent.
pub fn begin_forked_child(header: &Header) -> bool {
    if !begin(header) {
        return false;
    }
    LIVE.store(0, Relaxed);
    PROBES.store(0, Relaxed);
    track::begin_process();
    opened::begin_process();
    session::forget_slot();
    spawn::forget();
    true
}
