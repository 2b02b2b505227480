//! The role of this process, which every hook of the agent reads first.
//!
//! The role lives on a page that the kernel wipes in a forked child, so a child knows itself however it was made. A child of
//! vfork shares the page, and so the role.

use core::sync::atomic::{AtomicU32, Ordering};

use forebay_sigsafe::general::{__NR_madvise, __NR_sched_yield, MADV_KEEPONFORK, MADV_WIPEONFORK};
use forebay_sigsafe::sys;

/// Found by a forked child (and before the agent is ready). It stays so until the child first stalls: most execute
/// another program soon, and every page written to before that would be copied in vain.
const UNKNOWN: u32 = 0;
/// The program itself.
pub const ORIGINAL: u32 = 1;
/// A copy that runs ahead.
pub const SPECULATOR: u32 = 2;
/// The agent does nothing: terminal.
pub const OFF: u32 = 3;
/// A forked child, one of whose threads is making it an original of its own.
const BEGINNING: u32 = 4;
/// How often the others look whether it has.
const BEGINNING_YIELDS_MAX: u32 = 10_000;

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

/// Whether this thread is the one that makes the forked child an original of its own. The others return when that is done,
/// or takes too long.
pub fn claim_forked_child() -> bool {
    let claimed = PAGE.role.compare_exchange(UNKNOWN, BEGINNING, Ordering::Acquire, Ordering::Acquire);
    let mut role = claimed.err().unwrap_or(ORIGINAL);
    for _ in 0..BEGINNING_YIELDS_MAX {
        if role != BEGINNING {
            break;
        }
        // SAFETY: no arguments.
        let _ = unsafe { sys!(__NR_sched_yield) };
        role = PAGE.role.load(Ordering::Acquire);
    }
    claimed.is_ok()
}

/// A forked child stays what it was: it cannot become an original of its own.
pub fn give_up_forked_child() {
    PAGE.role.store(UNKNOWN, Ordering::Release);
}

/// A forked child becomes an original of its own.
pub fn begin_forked_child() {
    PAGE.role.store(ORIGINAL, Ordering::Release);
}

/// What this process is.
#[inline(always)]
pub fn current() -> u32 {
    PAGE.role.load(Ordering::Relaxed)
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

/// The children of this process have its role.
pub fn keep_in_children() {
    // SAFETY: the page is a whole page of this library's memory.
    let _ = unsafe { sys!(__NR_madvise, &raw const PAGE, size_of::<Page>(), MADV_KEEPONFORK) };
}
