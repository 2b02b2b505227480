//! Whether the program has handlers that ask for the alternate stack (`SA_ONSTACK`).
//!
//! In a thread without such a stack the flag has no effect. But a thread may have one of the agent's ([`fault_threads`]), which is
//! small, and elsewhere than the program expects its handlers to run.
//!
//! So from the first such handler on, the agent lends no stack: a thread that has none of its own is not told of its faults. A stack
//! that was lent stays with its thread: a runtime may have found it by a call of its own, and use it.
//!
//! [`fault_threads`]: crate::fault_threads

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use forebay_sigsafe::general as n;

use crate::call::Call;
use crate::fault_signal::Action;
use crate::process;

/// Whether there has been such a handler.
static IS_ASKED_FOR: AtomicBool = AtomicBool::new(false);

/// Whether the program has had a handler that asks for the alternate stack.
pub fn is_asked_for() -> bool {
    IS_ASKED_FOR.load(Relaxed)
}

/// Takes note of an `rt_sigaction` that the program has made.
///
/// # Safety
/// The kernel has just carried the call out.
pub unsafe fn note(call: &Call) {
    let [_, new, old, ..] = call.arguments;
    if new == 0 || is_asked_for() {
        return;
    }
    // SAFETY: what the kernel has just read can be read.
    let flags = || unsafe { (new as *const Action).read_unaligned() }.flags;
    // The kernel may have written the action before over this one. A vfork child has actions of its own.
    if (new == old || flags() & u64::from(n::SA_ONSTACK) != 0) && !process::is_vfork_child() {
        IS_ASKED_FOR.store(true, Relaxed);
    }
}
