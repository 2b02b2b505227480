//! Hinted pages that the original has not reached yet, in the order of the hints.
//!
//! The original's page map tells which pages it has reached. The speculator drops its own copies of those: when it touches
//! them again, later in the program, they may be worth another hint.

use core::sync::atomic::Ordering::{Relaxed, Release};

use forebay_sigsafe::{general as n, sys, ticks};

use super::fill::{BATCH, PRESENT};
use super::pages::{entries, in_core};
use super::{PAGE, State, balance, drop_pages, is_present, shadows};
use crate::speculator::{abandoned, end, hints, kernel};
use forebay_policy::lookahead::Lead;
use forebay_policy::price::{AHEAD_FREE, HINTED_US, HINTS_A_LOOK, SKIPPED_MAX};
use forebay_protocol::layout::End;

/// Stands for a page that the program has unmapped.
const GONE: usize = 0;
/// Pages hinted and not yet seen in the original's memory, at most.
const AHEAD_MAX: usize = 4096;
/// Pages that the device may have to bring yet.
const FLIGHTS_MAX: usize = 128;
/// As [`SKIPPED_MAX`], while the original is waited for: a stream that has ended may have left as many pages behind as one
/// batch has.
const SKIPPED_WAITING_MAX: usize = BATCH;
/// Runs of pages that are given back together.
const RUNS_MAX: usize = 32;
/// Stands for the calling process where a descriptor of one is wanted (Linux 6.14).
const PIDFD_SELF: isize = -10_000;
/// Entries of the original's page map that are read together.
const PEEKED: usize = 32;
/// Pages that the kernel brings together when one is missing (`page-cluster`).
const CLUSTER: usize = 8;
/// Between looks; the longer nothing comes of them, the longer.
const PAUSE_US: i64 = 100;
const PAUSE_US_MAX: i64 = 1_600;

/// The pages.
pub struct Ahead {
    pages: [usize; AHEAD_MAX],
    first: usize,
    count: usize,
    /// All that this generation hinted.
    hinted: u32,
    /// How many of them, from the oldest on, were seen to be in memory.
    landed: usize,
    unlooked: usize,
    /// The page behind the last one that the original reached, and how many it reached in a row.
    next: usize,
    row: usize,
}

impl Ahead {
    pub const fn hinted(&self) -> u32 {
        self.hinted
    }

    fn at(&self, index: usize) -> usize {
        self.pages.get((self.first + index) % AHEAD_MAX).copied().unwrap_or(0)
    }

    fn forget(&mut self, count: usize) {
        self.first = (self.first + count) % AHEAD_MAX;
        self.count -= count.min(self.count);
        self.landed -= count.min(self.landed);
    }
}

/// Counts hints.
pub fn issued(state: &mut State, count: usize) {
    state.hints.issued += count as u64;
    state.slot.counters.hints_data.fetch_add(count as u64, Relaxed);
    state.slot.counters.bytes_hinted.fetch_add((count * PAGE) as u64, Relaxed);
}

/// Adds hinted pages.
pub fn remember(state: &mut State, first: usize, count: usize) {
    issued(state, count);
    let ahead = &mut state.memory.ahead;
    for index in 0..count {
        let page = first + index * PAGE;
        state.memory.lead.add(page, HINTED_US);
        if let Some(place) = ahead.pages.get_mut((ahead.first + ahead.count) % AHEAD_MAX) {
            *place = page;
        }
        if ahead.count == AHEAD_MAX {
            ahead.first = (ahead.first + 1) % AHEAD_MAX;
        } else {
            ahead.count += 1;
        }
    }
    ahead.hinted = ahead.hinted.saturating_add(count as u32);
    ahead.unlooked += count;
    tell_hinted(state);
}

fn tell_hinted(state: &State) {
    if state.slot.generation.load(Relaxed) != state.generation {
        return;
    }
    let generation = u64::from(state.generation) << 32;
    state.slot.pages_hinted.store(generation | u64::from(state.memory.ahead.hinted), Relaxed);
}

/// Whether to skip a page, because the original would reach it too soon.
pub fn skips(state: &mut State, page: usize) -> bool {
    let ticks_per_us = (state.header.ticks_per_second.load(Relaxed) / 1_000_000).max(1);
    let memory = &mut state.memory;
    let (shadows, pages, stall_us) = (&memory.shadows, memory.original_pages, memory.stall_us);
    let has_come = |page| shadows.original_page(page).is_none_or(|original| is_present(pages, original));
    let mut dropped = Dropped::new();
    let skips = memory.lead.is_short(ticks() / ticks_per_us, stall_us, has_come, |page| dropped.add(page));
    dropped.flush();
    memory.given_back += dropped.pages;
    state.slot.pages_skipped.fetch_add(dropped.pages, Relaxed);
    if skips {
        memory.lead.add(page, stall_us);
    }
    skips
}

/// Waits while there are too many pages that the original has not reached, or that the device has not brought.
pub fn keep_in_bounds(state: &mut State) {
    if state.memory.ahead.unlooked >= HINTS_A_LOOK {
        look(state, SKIPPED_MAX);
    }
    while state.memory.ahead.count - state.memory.ahead.landed > FLIGHTS_MAX && !land(state) {
        kernel::pause(PAUSE_US);
        look(state, SKIPPED_MAX);
    }
    let mut pause = PAUSE_US;
    while state.memory.ahead.count >= room(state) {
        look(state, SKIPPED_WAITING_MAX);
        if state.memory.ahead.count < room(state) {
            break;
        }
        hints::await_original(state);
        kernel::pause(pause);
        pause = (pause * 2).min(PAUSE_US_MAX);
    }
}

/// Pages that may be hinted and not yet used.
fn room(state: &State) -> usize {
    let horizon = state.header.horizon_bytes.load(Relaxed) as usize / PAGE;
    horizon.min(balance(state).ahead_max() as usize).clamp(AHEAD_FREE as usize, AHEAD_MAX / 2)
}

/// Whether the oldest page that may be in flight has landed, with half of those that are.
fn land(state: &mut State) -> bool {
    let middle = state.memory.ahead.landed + FLIGHTS_MAX / 2;
    let page = state.memory.ahead.at(middle);
    let landed = match state.memory.shadows.region(page, |_| true) {
        Some(region) if region.file >= 0 => kernel::is_resident(region.file, region.offset_of(page)),
        Some(region) => {
            let [residency] = in_core::<1>(region.shadow_of(page), 1);
            residency & 1 != 0
        }
        None => true,
    };
    if landed {
        state.memory.ahead.landed = middle;
    }
    landed
}

/// A part of the original's page map.
struct Peek {
    from: usize,
    len: usize,
    map: [u64; PEEKED],
}

impl Peek {
    /// The entry of `page`, after which that of `next` will be wanted.
    fn entry(&mut self, pages: isize, page: usize, next: usize) -> u64 {
        if !(self.from..self.from + self.len * PAGE).contains(&page) {
            self.from = page;
            if next == page + PAGE {
                self.map = entries::<PEEKED>(pages, page);
                self.len = PEEKED;
            } else {
                [self.map[0]] = entries::<1>(pages, page);
                self.len = 1;
            }
        }
        self.map.get((page - self.from) / PAGE).copied().unwrap_or(0)
    }
}

/// Pages to give back, together.
struct Dropped {
    runs: [n::iovec; RUNS_MAX],
    len: usize,
    pages: u64,
}

impl Dropped {
    fn new() -> Self {
        Self { runs: [n::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; RUNS_MAX], len: 0, pages: 0 }
    }

    fn add(&mut self, page: usize) {
        if page == GONE {
            return;
        }
        self.pages += 1;
        if let Some(run) = self.len.checked_sub(1).and_then(|last| self.runs.get_mut(last))
            && run.iov_base as usize + run.iov_len as usize == page
        {
            run.iov_len += PAGE as u64;
            return;
        }
        if self.len == RUNS_MAX {
            self.flush();
        }
        if let Some(run) = self.runs.get_mut(self.len) {
            *run = n::iovec { iov_base: page as *mut _, iov_len: PAGE as u64 };
            self.len += 1;
        }
    }

    /// Where the kernel does not take them all at once, one after the other.
    fn flush(&mut self) {
        let runs = self.runs.get(..self.len).unwrap_or_default();
        // SAFETY: advice on this process's own registered ranges.
        let together = unsafe {
            sys!(n::__NR_process_madvise, PIDFD_SELF, runs.as_ptr(), runs.len(), n::MADV_DONTNEED, 0)
        };
        if together < 0 {
            for run in runs {
                drop_pages(run.iov_base as usize, run.iov_len as usize / PAGE);
            }
        }
        self.len = 0;
    }
}

/// Forgets all hinted pages, also those that the original has not reached.
pub fn forget_all(state: &mut State) {
    let mut dropped = Dropped::new();
    for index in 0..state.memory.ahead.count {
        dropped.add(state.memory.ahead.at(index));
    }
    dropped.flush();
    state.memory.given_back += dropped.pages;
    let ahead = &mut state.memory.ahead;
    ahead.forget(ahead.count);
    ahead.hinted = 0;
    ahead.unlooked = 0;
    tell_hinted(state);
    tell_passed(state);
    state.memory.lead = Lead::new();
}

/// The program has unmapped a range: hints of pages there do not count.
pub fn unmapped(state: &mut State, start: usize, length: usize) {
    let ahead = &mut state.memory.ahead;
    for index in 0..ahead.count {
        if let Some(page) = ahead.pages.get_mut((ahead.first + index) % AHEAD_MAX)
            && (start..start.saturating_add(length)).contains(page)
        {
            *page = GONE;
        }
    }
}

/// This process ends, and nothing carries on: tells the pages that the original has yet to reach.
pub fn tell_unconsumed(state: &State) {
    if state.slot.generation.load(Relaxed) != state.generation {
        return;
    }
    let ahead = &state.memory.ahead;
    let (mut next, mut row, mut count) = (ahead.next, ahead.row, 0);
    for index in 0..ahead.count {
        let page = ahead.at(index);
        let Some(original) = state.memory.shadows.original_page(page).filter(|_| page != GONE) else {
            continue;
        };
        row = if next == page { row + 1 } else { 0 };
        next = page + PAGE;
        if !row.is_multiple_of(CLUSTER) {
            continue;
        }
        let Some(place) = state.slot.unconsumed.get(count) else { break };
        place.store(original as u64, Relaxed);
        count += 1;
    }
    state.slot.unconsumed_count.store(u64::from(state.generation) << 32 | count as u64, Release);
}

fn tell_passed(state: &State) {
    if state.slot.generation.load(Relaxed) != state.generation {
        return;
    }
    let ahead = &state.memory.ahead;
    let (generation, hinted) = (u64::from(state.generation) << 32, u64::from(ahead.hinted));
    state.slot.pages_passed.store(generation | hinted.saturating_sub(ahead.count as u64), Relaxed);
}

/// Forgets the hinted pages that the original has reached, and before each of them up to `skipped_max` that it skipped.
fn look(state: &mut State, skipped_max: usize) {
    state.memory.ahead.unlooked = 0;
    shadows::find_made(state);
    let (mut used, mut clustered) = (0, 0);
    let mut peek = Peek { from: 0, len: 0, map: [0; PEEKED] };
    let mut dropped = Dropped::new();
    'next: while state.memory.ahead.count > 0 {
        if state.memory.ahead.at(0) == GONE {
            state.memory.ahead.forget(1);
            continue;
        }
        for skipped in 0..skipped_max.min(state.memory.ahead.count) {
            let page = state.memory.ahead.at(skipped);
            let shadows = &state.memory.shadows;
            let Some(original) = shadows.original_page(page) else { continue };
            let next = shadows.original_page(state.memory.ahead.at(skipped + 1)).unwrap_or(GONE);
            if peek.entry(state.memory.original_pages, original, next) & PRESENT != 0 {
                state.slot.counters.hints_wrong.fetch_add(skipped as u64, Relaxed);
                for index in 0..=skipped {
                    dropped.add(state.memory.ahead.at(index));
                }
                let ahead = &mut state.memory.ahead;
                ahead.forget(skipped + 1);
                ahead.row = if ahead.next == page { ahead.row + 1 } else { 0 };
                ahead.next = page + PAGE;
                clustered += u64::from(!ahead.row.is_multiple_of(CLUSTER));
                used += 1;
                continue 'next;
            }
        }
        break;
    }
    dropped.flush();
    state.memory.given_back += dropped.pages;
    tell_passed(state);
    if used > 0 {
        state.slot.counters.hints_used.fetch_add(used, Relaxed);
        state.slot.counters.hints_clustered.fetch_add(clustered, Relaxed);
        state.slot.pages_used.fetch_add(used - clustered, Relaxed);
        state.hints.consumed();
        state.memory.confidence.used += used;
    }
    if abandoned(state) {
        end(state, End::Abandoned);
    }
}
