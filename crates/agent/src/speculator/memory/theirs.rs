//! What the original copies because of this speculator, and of its checkpoint, which end where that is more than they are
//! worth.
//!
//! The original looks at that too, but only where it waits for something: until then it may copy thousands of pages, each
//! of which drives something out where memory is short.

use core::sync::atomic::Ordering::Relaxed;

use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{general as n, sys, text, ticks};
use forebay_speculation::copies::{self, Faults};

use crate::spawn::Forked;
use crate::speculator::{State, kernel};
use crate::status::Status;

/// Between looks, as a part of a second.
const INTERVAL_PART: u64 = 1_000;
/// Room for `/proc/<pid>/stat` up to what is wanted of it.
const STAT_BYTES: usize = 256;
/// Fields of it behind the name of the program, from 0.
const MINOR: usize = 7;
const MAJOR: usize = 9;

/// The original as it was forked, and where it can be looked at.
pub struct Theirs {
    forked: Forked,
    began: u64,
    looked: u64,
    /// `/proc/<pid>/stat` and `/proc/<pid>/status` of the original.
    stat: isize,
    status: isize,
}

/// The speculation begins. From the jail the files can be read, but not opened.
pub fn begin(state: &mut State, forked: &Forked) {
    let open = |name: &[u8]| {
        let mut path = PathBuffer::<40>::new();
        let _ = path.push(b"/proc/") && path.push_number(state.process.into()) && path.push(name);
        // SAFETY: a terminated path.
        unsafe { sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_RDONLY | n::O_CLOEXEC) }
    };
    let (stat, status) = (open(b"/stat"), open(b"/status"));
    let now = ticks();
    state.memory.theirs = Theirs { forked: *forked, began: now, looked: now, stat, status };
}

/// Whether the original has copied no more pages than that is worth, as far as it is known now.
pub fn are_in_credit(state: &mut State) -> bool {
    let now = ticks();
    let theirs = &mut state.memory.theirs;
    if now.wrapping_sub(theirs.looked) < state.header.ticks_per_second.load(Relaxed) / INTERVAL_PART {
        return true;
    }
    theirs.looked = now;
    let Some((minor, major)) = faults(theirs.stat) else { return true };
    let Forked { faults: before, hinted, .. } = theirs.forked;
    let ticks = before.ticks.saturating_add(now.wrapping_sub(theirs.began));
    let hinted = state.slot.counters.hints_data.load(Relaxed).saturating_sub(hinted);
    let copied = |pages| copies::copied(&before, &Faults { minor, major, pages, ticks }, hinted);
    let (credit, status) = (super::credit(state), state.memory.theirs.status);
    // By what it has grown meanwhile it may as well be less.
    let pages = || Status::read_from(status).map_or(before.pages, |status| status.anonymous_pages());
    credit.covers_copies(copied(before.pages)) || credit.covers_copies(copied(pages()))
}

/// Page faults of the original so far that did not wait, and that did.
fn faults(stat: isize) -> Option<(u64, u64)> {
    let mut bytes = [0u8; STAT_BYTES];
    // SAFETY: a buffer as large as the call is told.
    let read = unsafe { kernel::read_waiting(stat, bytes.as_mut_ptr() as usize, STAT_BYTES, 0) };
    let text = bytes.get(..usize::try_from(read).ok()?)?;
    // The name is in parentheses, and may contain some.
    let rest = text.rsplit(|&byte| byte == b')').next()?.strip_prefix(b" ")?;
    let field = |index| rest.split(|&byte| byte == b' ').nth(index).and_then(text::parse_decimal);
    Some((field(MINOR)?.0, field(MAJOR)?.0))
}
