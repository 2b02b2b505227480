//! Where handlers of the program run that ask for the alternate stack (`SA_ONSTACK`).
//!
//! In a thread without such a stack the flag has no effect. But a thread may have one of the agent's ([`fault_threads`]), which is
//! small, and elsewhere than the program expects its handlers to run.
//!
//! # Rule
//!
//! As long as no thread of the program has had an alternate stack of its own, the kernel gets the program's actions without the flag.
//! With the first one it gets the flags after all. From then on only threads with a stack of their own are told of their faults.
//! Another thread gives the agent's stack back at its next call of those at which threads join. The program is told of the flags that
//! it has set.
//!
//! [`fault_threads`]: crate::fault_threads

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use forebay_sigsafe::{general as n, sys};

use crate::call::Call;
use crate::fault_signal::Action;
use crate::process;

const ON_STACK: u64 = n::SA_ONSTACK as u64;
const SIGNALS: usize = 64;

/// Whether all calls of the program on its actions and stacks are seen.
static IS_SEEN: AtomicBool = AtomicBool::new(false);
/// Whether a thread of the program has had a stack of its own.
static HAS_OWN: AtomicBool = AtomicBool::new(false);
/// Signals whose actions the kernel has without the program's flag.
static WITHOUT_FLAG: AtomicU64 = AtomicU64::new(0);

/// The program starts, and its calls on actions and stacks are seen.
pub fn begin() {
    IS_SEEN.store(true, Relaxed);
}

/// Whether a thread of the program has had a stack of its own.
pub fn has_own() -> bool {
    HAS_OWN.load(Relaxed)
}

/// A thread of the program has a stack of its own now.
pub fn on_own() {
    if HAS_OWN.swap(true, Relaxed) {
        return;
    }
    let signals = WITHOUT_FLAG.swap(0, Relaxed);
    for signal in (1..=SIGNALS).filter(|&signal| signals & bit(signal) != 0) {
        let mut action = MaybeUninit::<Action>::zeroed();
        // SAFETY: the calls fill and read a local, whose zeroes are valid too.
        unsafe {
            if sys!(n::__NR_rt_sigaction, signal, 0, action.as_mut_ptr(), 8) == 0 {
                (*action.as_mut_ptr()).flags |= ON_STACK;
                let _ = sys!(n::__NR_rt_sigaction, signal, action.as_ptr(), 0, 8);
            }
        }
    }
}

/// Makes an `rt_sigaction` of the program.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn action_call(call: &Call) -> isize {
    let [signal, new, old, ..] = call.arguments;
    let bit = bit(signal);
    let was_without = WITHOUT_FLAG.load(Relaxed) & bit != 0;
    // SAFETY: (all) the caller's; what the kernel has read and written can be read and written again.
    unsafe {
        let result = call.execute();
        if result != 0 {
            return result;
        }
        if new != 0 && new != old {
            let action = (new as *const Action).read_unaligned();
            if was_without || action.flags & ON_STACK != 0 {
                set(signal, action);
            }
        }
        if old != 0 && was_without {
            let mut shown = (old as *const Action).read_unaligned();
            shown.flags |= ON_STACK;
            (old as *mut Action).write_unaligned(shown);
        }
        result
    }
}

/// The program has set an action, which has the flag or follows one that the kernel has without it.
#[cold]
#[inline(never)]
fn set(signal: usize, mut action: Action) {
    // A vfork child has actions of its own.
    if process::is_vfork_child() {
        return;
    }
    if action.flags & ON_STACK == 0 || has_own() || !IS_SEEN.load(Relaxed) {
        WITHOUT_FLAG.fetch_and(!bit(signal), Relaxed);
        return;
    }
    action.flags &= !ON_STACK;
    // SAFETY: the call reads a local. The kernel has just taken the same action with the flag.
    if unsafe { sys!(n::__NR_rt_sigaction, signal, &raw const action, 0, 8) } == 0 {
        WITHOUT_FLAG.fetch_or(bit(signal), Relaxed);
    }
}

const fn bit(signal: usize) -> u64 {
    if signal == 0 || signal > SIGNALS { 0 } else { 1 << (signal - 1) }
}
