//! Whether the program has handlers that ask for the alternate stack (`SA_ONSTACK`).
//!
//! In a thread without such a stack the flag has no effect. But a thread may have one of the agent's ([`fault_threads`]), which is
//! small, and elsewhere than the program expects its handlers to run.
//!
//! # Rule
//!
//! From the first such handler on, the agent lends no stack: only threads with a stack of their own are told of their faults. The
//! thread that sets the handler gives the agent's stack back at once, and another thread at its next call of those at which
//! threads join.
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

/// The program has made `call`, an `rt_sigaction`. Whether that has set the first action that asks for the alternate stack.
///
/// # Safety
/// The kernel has just carried the call out.
pub unsafe fn is_asked_first(call: &Call) -> bool {
    let [_, new, old, ..] = call.arguments;
    if new == 0 || is_asked_for() {
        return false;
    }
    // SAFETY: what the kernel has just read can be read.
    let flags = || unsafe { (new as *const Action).read_unaligned() }.flags;
    // It may have written the action before over this one. A vfork child has actions of its own.
    let asks = (new == old || flags() & u64::from(n::SA_ONSTACK) != 0) && !process::is_vfork_child();
    asks && !IS_ASKED_FOR.swap(true, Relaxed)
}
