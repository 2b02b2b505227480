//! Whether this program may have a speculator: by what it does, how it is confined, and what memory control says.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::{GO, HOLD, Header, Off};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{prctl, sys};

use super::PROBES;
use super::end::dismiss;
use super::quiet::wait_for_hints;
use super::slow::{Private, exclusive};
use crate::status::Status;
use crate::{fault_watch, role, session};

/// No speculator may be, because of something that the program does: a copy of it would keep what it must give back when it
/// does, such as locks of open files, or huge pages of the system's pool.
static DISABLED: AtomicBool = AtomicBool::new(false);

/// Counts an agent that goes to Off, and goes there.
pub fn turn_off(reason: Off) {
    count_off(reason);
    fault_watch::turn_off();
    role::turn_off();
}

/// Counts an agent that goes to Off.
pub fn count_off(reason: Off) {
    if let Some(counter) = session::header().and_then(|header| header.agents_off.get(reason as usize)) {
        counter.fetch_add(1, Relaxed);
    }
}

/// Whether the process runs under more seccomp filters than the supervisor.
pub fn is_confined(header: &Header) -> bool {
    // SAFETY: the call takes a number.
    if unsafe { sys!(n::__NR_prctl, prctl::PR_GET_SECCOMP) } == 0 {
        return false;
    }
    let filters = Status::read().and_then(|status| status.number(b"Seccomp_filters"));
    filters.is_none_or(|count| count > header.seccomp_filters.load(Relaxed).into())
}

/// Rules speculators out for the rest of this program.
pub fn disable(reason: Off, private: Option<&mut Private>) {
    if DISABLED.swap(true, Relaxed) {
        return;
    }
    PROBES.store(0, Relaxed);
    count_off(reason);
    fault_watch::turn_off();
    dismiss(private);
}

/// The same outside the slow path. What is hinted is read when this returns.
pub fn disable_everywhere(reason: Off) {
    if !DISABLED.load(Relaxed) {
        exclusive(|private| disable(reason, private));
        wait_for_hints();
    }
}

/// Whether speculation pauses for a trial.
pub fn is_held() -> bool {
    session::header().is_some_and(|header| header.control.load(Relaxed) == HOLD)
}

/// Whether there can be a speculator of this program, now or later.
pub fn may_ever_speculate(header: &Header) -> bool {
    header.enabled.load(Relaxed) != 0 && !DISABLED.load(Relaxed)
}

/// Whether nothing but the policy speaks against a speculator.
pub fn may_speculate() -> bool {
    let may = |header: &Header| header.control.load(Relaxed) == GO && header.held_by_quota.load(Relaxed) == 0;
    !DISABLED.load(Relaxed) && session::header().is_some_and(may)
}
