//! Sequential reads: hints go on in the stride of the kernel's readahead.
//!
//! A program that reads a file in sequence hardly waits: the kernel reads a window ahead of it. A speculator that only hinted what
//! it reads would replace these windows by smaller requests just ahead of the program. So the speculator hints whole windows
//! there, further ahead than the kernel, and as far as the file was read in sequence so far.
//!
//! Where the kernel's own window is large it reads as far ahead as hints would, and a program that goes on in sequence is left to that.
//! The speculator does not look at the data either. A read of the page at which the next window is due starts one in the reader's
//! stride, and the program would have none there.
//!
//! One such window is one hint, of the read that enters it. Other reads within it are none: the kernel would have brought that data
//! too.

use forebay_policy::price::{READ_AHEAD_FAR_KIB, SEQUENCE_WINDOWS_MAX, SEQUENCE_WINDOWS_MIN};
use forebay_protocol::layout::file_system;

use super::State;
use super::descriptors::{File, FileIndex};
use super::hints;
use super::memory;
use super::reads::{self, CHUNK_BYTES};
use crate::residency;

/// What is hinted ahead at first, and at most.
const AHEAD_MIN: u64 = SEQUENCE_WINDOWS_MIN * CHUNK_BYTES;
const AHEAD_MAX: u64 = SEQUENCE_WINDOWS_MAX * CHUNK_BYTES;

/// A part of a file that is read in sequence.
#[derive(Clone, Copy)]
pub struct Run {
    start: u64,
    end: u64,
    hinted: u64,
}

impl Run {
    /// Nothing was read.
    pub const NONE: Self = Self { start: u64::MAX, end: u64::MAX, hinted: 0 };
}

/// How a read stands to what was hinted in sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stride {
    /// It lies beyond that.
    Outside,
    /// It enters a window that was hinted.
    Enters,
    /// It lies within one.
    Within,
    /// It goes on where the kernel reads far ahead.
    Left,
}

/// Takes note of a read, and hints what follows where it goes on in sequence.
pub fn follow(state: &mut State, index: FileIndex, offset: u64, count: u64) -> Stride {
    let Some(file) = state.descriptors.at(index) else { return Stride::Outside };
    let end = offset.saturating_add(count);
    if offset != file.run.end {
        file.run = Run { start: offset, end, hinted: 0 };
        return Stride::Outside;
    }
    file.run.end = end;
    let (file, run) = (*file, file.run);
    let reads_far = residency::has(hints::entry(state, file.device), file_system::READS_FAR_AHEAD);
    if reads_far && end.saturating_sub(run.start) >= READ_AHEAD_FAR_KIB << 10 {
        return Stride::Left;
    }
    advance(state, index, file, end);
    if end > run.hinted {
        return Stride::Outside;
    }
    let windows = |position: u64| (position - run.start).div_ceil(CHUNK_BYTES);
    if windows(end) == windows(offset) { Stride::Within } else { Stride::Enters }
}

/// Hints what follows `end`, as far as that has not been done.
fn advance(state: &mut State, index: FileIndex, file: File, end: u64) {
    let run = file.run;
    let ahead = (end - run.start).clamp(AHEAD_MIN, AHEAD_MAX);
    let mut from = run.hinted.max(end);
    // Half a stride at a time, so that windows stay whole.
    if run.hinted < end.saturating_add(ahead / 2) {
        let until = end.saturating_add(ahead).min(file.size);
        while from < until {
            let chunk = CHUNK_BYTES.min(file.size - from);
            if !is_resident(state, file, from, chunk) {
                hints::make_room(state, file.device);
                reads::request(state, file, from, chunk);
            }
            from += chunk;
        }
    }
    if let Some(file) = state.descriptors.at(index) {
        file.run.hinted = from;
    }
}

/// Whether a range of a file is in memory, as far as the kernel tells.
fn is_resident(state: &State, file: File, offset: u64, length: u64) -> bool {
    let real = file.real as isize;
    if residency::has(hints::entry(state, file.device), file_system::REFUSES_NOWAIT) {
        return residency::of(real, offset, length) == Some(true);
    }
    memory::is_cached(real, offset, length)
}
