//! A thread that takes memory's throughput, or room in the last cache, on a processor of its own.
//!
//! The thief loads a word of each line of a range, again and again. Its twin executes the same instructions on a range of one
//! page. What a server loses beside the thief and not beside its twin, it loses to the memory that the thief takes.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_vm::{PAGE_BYTES, Pages, Words};

use crate::Error;
use crate::machine::stay_on_one_processor;

const WORD_BYTES: usize = size_of::<u64>();
const WORDS_OF_LINE: usize = 64 / WORD_BYTES;
/// Loads that are under way together.
const LANES: usize = 8;
/// Lines between two looks at whether it is over.
const LINES: usize = 4096;
/// How long is looked at what a thief takes.
const LOOK: Duration = Duration::from_millis(100);

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Thief {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    over: AtomicBool,
    lines: AtomicU64,
}

impl Thief {
    /// Takes a range of at most `bytes`, of which there is a power of two, on the last processor; its twin takes a page of that.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn start(bytes: usize, is_twin: bool) -> Result<Self, Error> {
        let bytes = (bytes / 2 + 1).next_power_of_two().max(PAGE_BYTES);
        let words = Words::zeroed(bytes, Pages::Huge)?;
        words.iter().step_by(PAGE_BYTES / WORD_BYTES).for_each(|word| word.store(1, Relaxed));
        let taken = if is_twin { PAGE_BYTES } else { bytes };
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            // Where the kernel refuses, it takes as much on any processor.
            let _ = stay_on_one_processor();
            let mut from = 0;
            while !of_thread.over.load(Relaxed) {
                black_box(walk(&words, taken / WORD_BYTES - 1, from));
                from = from.wrapping_add(LINES);
                of_thread.lines.fetch_add(LINES as u64, Relaxed);
            }
        });
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What it takes in a second, in bytes, as of now.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        let lines = || self.shared.lines.load(Relaxed);
        let (before, begun) = (lines(), Instant::now());
        thread::sleep(LOOK);
        ((lines() - before) * 64) as f64 / begun.elapsed().as_secs_f64()
    }
}

impl Drop for Thief {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The sum of the first words of so many lines from a line on, each at its place within `mask`. The mask alone decides how much
/// memory that is.
fn walk(words: &[AtomicU64], mask: usize, from: usize) -> u64 {
    let mut sums = [0u64; LANES];
    for step in (0..LINES).step_by(LANES) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let place = from.wrapping_add(step + lane).wrapping_mul(WORDS_OF_LINE) & mask;
            *sum = sum.wrapping_add(words[place].load(Relaxed));
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thief_and_its_twin_load_as_often_and_only_the_thief_leaves_its_page() {
        let own = PAGE_BYTES / WORD_BYTES;
        // What a load adds tells where it was: 1 within the first page, and a million beyond it.
        let words: Vec<AtomicU64> = (0..LINES * WORDS_OF_LINE)
            .map(|place| AtomicU64::new(if place < own { 1 } else { 1_000_000 }))
            .collect();
        assert_eq!(walk(&words, own - 1, 7 * LINES), LINES as u64);
        let within = own / WORDS_OF_LINE;
        let expected = within + (LINES - within) * 1_000_000;
        // Each line once, wherever it begins.
        for from in [0, 1, 12 * LINES + 5] {
            assert_eq!(walk(&words, words.len() - 1, from), expected as u64);
        }
    }

    #[test]
    fn a_thief_takes_something_until_it_is_dropped() {
        for is_twin in [false, true] {
            let thief = Thief::start(1 << 20, is_twin).unwrap();
            let begun = Instant::now();
            while thief.bytes_per_s() == 0.0 {
                assert!(begun.elapsed() < Duration::from_secs(60), "it takes nothing");
            }
            let shared = Arc::clone(&thief.shared);
            drop(thief);
            // Its thread had the other one.
            assert_eq!(Arc::strong_count(&shared), 1);
        }
    }
}
