//! Private memory of the speculator, and its limit.
//!
//! Each new page, and each copy of an inherited one, takes a minor page fault. Their number bounds the private pages, and is
//! free to read. Most of them may be shared pages. So the pages are counted, at the cost of a walk by the kernel, only where
//! the bound exceeds the limit.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::balance::limit_where_short;
use forebay_policy::price::SPENT_PART;
use forebay_protocol::layout::End;
use forebay_sigsafe::{general as n, sys, text, ticks};

use super::PAGE;
use crate::speculator::{State, end, kernel, usage};

/// Room for `/proc/self/smaps_rollup`.
const ROLLUP_BYTES: usize = 2048;
const PAGE_KIB: u64 = 4;

/// What is known of it, in pages.
pub struct PrivatePages {
    /// Its own when that was last known, and the faults and copies until then.
    known: u64,
    seen: u64,
    /// Its own that its checkpoint has too.
    shared: u64,
    began: u64,
    spent: u64,
    /// Memory that the program has added.
    added_bytes: u64,
}

/// Nothing is its own yet.
pub fn begin(state: &mut State) {
    state.memory.private =
        PrivatePages { known: 0, seen: 0, shared: 0, began: ticks(), spent: 0, ..state.memory.private };
}

/// Memory that it may have.
pub fn limit_bytes(state: &State) -> u64 {
    limit_pages(state) * PAGE as u64
}

fn limit_pages(state: &State) -> u64 {
    let pages = state.header.memory_bytes_max.load(Relaxed) / PAGE as u64;
    if super::is_short(state) { limit_where_short(pages) } else { pages }
}

/// Counts memory that the program adds; ends a speculator that takes too much.
pub fn account(state: &mut State, bytes: usize) {
    state.memory.private.added_bytes = state.memory.private.added_bytes.saturating_add(bytes as u64);
    if state.memory.private.added_bytes > limit_bytes(state) {
        end(state, End::Memory);
    }
}

/// The program has given memory back.
pub fn release(state: &mut State, bytes: usize) {
    state.memory.private.subtract(bytes);
}

impl PrivatePages {
    /// The program has so much less than it added.
    pub fn subtract(&mut self, bytes: usize) {
        self.added_bytes = self.added_bytes.saturating_sub(bytes as u64);
    }
}

/// Ends this process where it has more memory of its own than it may.
pub fn keep_in_limit(state: &mut State, usage: &n::rusage) {
    let limit = limit_pages(state);
    if bound(state, usage) > limit && count(state, usage).is_some_and(|own| own > limit) {
        end(state, End::Memory);
    }
}

/// Pages that appeared in this process, by faults that did not wait and by copies that were supplied.
fn appeared(state: &State, usage: &n::rusage) -> u64 {
    usage.ru_minflt as u64 + state.memory.supplied.bytes() / PAGE as u64
}

/// As many as are its own at most.
fn bound(state: &State, usage: &n::rusage) -> u64 {
    let own = &state.memory.private;
    own.known.saturating_add(appeared(state, usage).saturating_sub(own.seen))
}

/// As many as were its own at once, at most, by the faults of all its life.
pub fn peak_private_pages(state: &State, usage: &n::rusage) -> u64 {
    (usage.ru_minflt as u64).saturating_sub(state.memory.given_back()).min(limit_pages(state))
}

/// Counts those that are its own, unless that would take too long.
fn count(state: &mut State, usage: &n::rusage) -> Option<u64> {
    let before = ticks();
    let own = &state.memory.private;
    if own.spent > before.wrapping_sub(own.began) / SPENT_PART {
        return None;
    }
    let pages = exclusive_pages().map_or(bound(state, usage), |pages| pages + own.shared);
    let seen = appeared(state, usage);
    let own = &mut state.memory.private;
    (own.known, own.seen) = (pages, seen);
    own.spent += ticks().wrapping_sub(before);
    Some(pages)
}

/// A checkpoint is about to have all of it too, as if it were not this process's own.
pub fn share(state: &mut State) {
    let usage = usage();
    let limit = limit_pages(state);
    let pages = bound(state, &usage);
    let counted = if pages > limit / 2 { count(state, &usage) } else { None };
    let pages = counted.unwrap_or(pages);
    state.memory.private =
        PrivatePages { known: pages, seen: appeared(state, &usage), shared: pages, ..state.memory.private };
}

/// The checkpoint is gone.
pub fn unshare(state: &mut State) {
    state.memory.private.shared = 0;
}

/// In the checkpoint that carries on: it has what the process had that it is a copy of.
pub fn take_over(state: &mut State) {
    let seen = appeared(state, &usage());
    state.memory.private = PrivatePages { seen, shared: 0, began: ticks(), spent: 0, ..state.memory.private };
}

/// Changed pages that no other process has.
fn exclusive_pages() -> Option<u64> {
    let mut bytes = [0u8; ROLLUP_BYTES];
    // SAFETY: a terminated path, and a buffer as large as the call is told.
    let read = unsafe {
        let flags = n::O_RDONLY | n::O_CLOEXEC;
        let file = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/smaps_rollup".as_ptr(), flags);
        let read = kernel::read_waiting(file, bytes.as_mut_ptr() as usize, ROLLUP_BYTES, 0);
        kernel::close(file);
        read
    };
    let text = bytes.get(..usize::try_from(read).ok()?)?;
    let value = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Private_Dirty:"))?;
    let digits = value.get(value.iter().position(u8::is_ascii_digit)?..)?;
    text::parse_decimal(digits).map(|(kib, _)| kib / PAGE_KIB)
}
