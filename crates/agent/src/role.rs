//! What this process is to the agent. Every hook reads the role first.
//!
//! The role lives on a page that the kernel wipes in a forked child, so that a child knows itself however it was
//! made; a child made by vfork shares the page and so the role.

use core::sync::atomic::{AtomicU32, Ordering};

use forebay_sigsafe::general::{__NR_madvise, MADV_WIPEONFORK};
use forebay_sigsafe::sys;

use crate::entry::Call;
use crate::{original, speculator};

/// Found by a forked child (and before the agent is ready). It stays so until the child first stalls: most execute
/// another program soon, and every page written to before that would be copied in vain.
const UNKNOWN: u32 = 0;
/// The program itself.
pub const ORIGINAL: u32 = 1;
/// A copy that runs ahead.
const SPECULATOR: u32 = 2;
/// The agent does nothing any more: terminal.
const OFF: u32 = 3;

#[repr(C, align(4096))]
pub struct Page {
    role: AtomicU32,
    rest: [u8; 4092],
}

/// Begins with the role.
pub static PAGE: Page = Page { role: AtomicU32::new(UNKNOWN), rest: [0; 4092] };

/// Becomes the original; `false` where the kernel cannot wipe pages on fork.
pub fn begin_original() -> bool {
    // SAFETY: the page is a whole page of this library's zero-initialised memory, whose only word is set below.
    let result = unsafe { sys!(__NR_madvise, &raw const PAGE, size_of::<Page>(), MADV_WIPEONFORK) };
    if result == 0 {
        PAGE.role.store(ORIGINAL, Ordering::Relaxed);
    }
    result == 0
}

/// A forked child becomes an original of its own.
pub fn begin_forked_child() {
    PAGE.role.store(ORIGINAL, Ordering::Relaxed);
}

/// Becomes the speculator.
pub fn begin_speculator() {
    PAGE.role.store(SPECULATOR, Ordering::Relaxed);
}

/// Whether this is the speculator.
pub fn is_speculator() -> bool {
    PAGE.role.load(Ordering::Relaxed) == SPECULATOR
}

/// Whether this is the program itself, and not a child of it that has not stalled yet.
pub fn is_original() -> bool {
    PAGE.role.load(Ordering::Relaxed) == ORIGINAL
}

/// Never does anything again in this process.
pub fn turn_off() {
    PAGE.role.store(OFF, Ordering::Relaxed);
}

/// Carries out a system call of the program as its role demands.
///
/// # Safety
/// `call` holds the registers of a call that the program is making just now.
#[inline(always)]
pub unsafe fn dispatch(call: &Call) -> isize {
    // SAFETY: (all arms) the caller's.
    match PAGE.role.load(Ordering::Relaxed) {
        // SAFETY: above.
        ORIGINAL => unsafe { original::call(call) },
        // SAFETY: above.
        SPECULATOR => unsafe { speculator::call(call) },
        // SAFETY: above.
        OFF => unsafe { call.execute() },
        // SAFETY: above.
        _ => unsafe { original::call_of_forked_child(call) },
    }
}
