//! Pages that the original copies because of the speculator and its checkpoint, which end where these cost too much.
//!
//! The original looks at them too, but only at a stall. Until then it may copy thousands of pages, each of which evicts
//! another page where memory is short.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::copies::{self, Faults};
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{general as n, sys, text, ticks};

use crate::snapshot::Forked;
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
pub struct OriginalCopies {
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
        let _ = path.push(b"/proc/") && path.push_number(state.original.process.into()) && path.push(name);
        // SAFETY: a terminated path.
        unsafe { sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_RDONLY | n::O_CLOEXEC) }
    };
    let (stat, status) = (open(b"/stat"), open(b"/status"));
    let now = ticks();
    state.memory.copies = OriginalCopies { forked: *forked, began: now, looked: now, stat, status };
}

/// Whether the original has copied no more pages than that is worth, as far as it is known now.
pub fn are_covered(state: &mut State) -> bool {
    let now = ticks();
    let looked = &mut state.memory.copies.looked;
    if now.wrapping_sub(*looked) < state.header.ticks_per_second.load(Relaxed) / INTERVAL_PART {
        return true;
    }
    *looked = now;
    let balance = super::balance(state);
    Copies::until(state, now).is_none_or(|copies| {
        // By what it has grown meanwhile it may as well be less.
        balance.covers_copies(copies.at_most())
            || copies.without_growth(state).is_some_and(|copies| balance.covers_copies(copies))
    })
}

/// This process and its checkpoint end: tells how many pages the original has copied until now. After that its first
/// writes copy none.
pub fn tell_copied(state: &State) {
    let is_newest = || state.slot.generation.load(Relaxed) == state.generation;
    if !is_newest() {
        return;
    }
    let copied = Copies::until(state, ticks()).and_then(|copies| copies.without_growth(state));
    if let Some(copied) = copied.filter(|_| is_newest()) {
        let copied = copied.min(u32::MAX.into());
        state.slot.pages_copied.store(u64::from(state.generation) << 32 | copied, Relaxed);
    }
}

/// What is known of the pages that the original has copied since it was forked.
struct Copies {
    before: Faults,
    now: Faults,
    hinted: u64,
}

impl Copies {
    fn until(state: &State, now: u64) -> Option<Self> {
        let copies = &state.memory.copies;
        let Forked { faults: before, hinted, .. } = copies.forked;
        if copies.began == 0 {
            return None;
        }
        let (minor, major) = faults(copies.stat)?;
        let ticks = before.ticks.saturating_add(now.wrapping_sub(copies.began));
        let hinted = state.slot.counters.hints_data.load(Relaxed).saturating_sub(hinted);
        Some(Self { before, now: Faults { minor, major, ticks, ..before }, hinted })
    }

    /// If it has not grown meanwhile.
    fn at_most(&self) -> u64 {
        copies::first_writes(&self.before, &self.now, self.hinted)
    }

    /// `None` where that cannot be known now.
    fn without_growth(&self, state: &State) -> Option<u64> {
        let pages = Status::read_from(state.memory.copies.status)?.anonymous_pages();
        Some(copies::first_writes(&self.before, &Faults { pages, ..self.now }, self.hinted))
    }
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
