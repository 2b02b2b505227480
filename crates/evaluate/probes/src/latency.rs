//! Latency of memory: each load tells where the next one goes, to every line of a working set once, in random order.
//!
//! On huge pages translations hardly count, and the curve is that of the caches. What translations cost is seen where one line
//! of each of many small pages is visited, beside as many lines that lie together.

use std::hint::black_box;

use forebay_vm::{HUGE_PAGE_BYTES, PAGE_BYTES, Pages, Ring, Words};

use crate::memory::{Passes, check_free};
use crate::{Case, Error, Setting, size};

const LINE_BYTES: usize = 64;
const WORD_BYTES: usize = size_of::<u64>();
const LATENCY: (&str, &str) = ("latency", "ns");
/// Loads between two looks at the clock.
const LOADS: usize = 4096;
/// The largest number of pages of which translations are measured.
const PAGES_MAX: usize = 16_384;

/// The curve of the caches, and the two of translations.
pub fn cases(setting: &Setting) -> Result<Vec<Case>, Error> {
    check_free(setting.bytes_max)?;
    let steps = if setting.quick { 2 } else { 4 };
    let mut cases = Vec::new();
    for bytes in sizes(PAGE_BYTES, setting.bytes_max, steps) {
        let case = format!("{}/huge pages", size(bytes));
        let places =
            move || (0..bytes / LINE_BYTES).map(|line| (line * LINE_BYTES / WORD_BYTES) as u32).collect();
        cases.push(case_of("latency", case, bytes, Pages::Huge, places));
    }
    for pages in sizes(16 * PAGE_BYTES, (PAGES_MAX * PAGE_BYTES).min(setting.bytes_max), steps) {
        let pages = pages / PAGE_BYTES;
        // A line later on each page, so that all parts of a cache are used alike.
        let apart = move || {
            (0..pages)
                .map(|page| ((page * PAGE_BYTES + page % 64 * LINE_BYTES) / WORD_BYTES) as u32)
                .collect()
        };
        let together = move || (0..pages).map(|line| (line * LINE_BYTES / WORD_BYTES) as u32).collect();
        let subject = "latency of a line";
        cases.push(case_of(
            subject,
            format!("{pages} lines/a page each"),
            pages * PAGE_BYTES,
            Pages::Small,
            apart,
        ));
        cases.push(case_of(
            subject,
            format!("{pages} lines/together"),
            pages * LINE_BYTES,
            Pages::Small,
            together,
        ));
    }
    Ok(cases)
}

/// Whole pages from `least` to `most`, in steps that are so many to the double.
fn sizes(least: usize, most: usize, steps: i32) -> Vec<usize> {
    let at = |step: i32| {
        (least as f64 * 2f64.powf(f64::from(step) / f64::from(steps))) as usize / PAGE_BYTES * PAGE_BYTES
    };
    let mut sizes: Vec<usize> = (0..).map(at).take_while(|bytes| *bytes < most).chain([most]).collect();
    sizes.dedup();
    sizes
}

/// The memory is had at the first sample, and goes with the case.
fn case_of(
    subject: &str,
    case: String,
    bytes: usize,
    pages: Pages,
    places: impl Fn() -> Vec<u32> + 'static,
) -> Case {
    let mut chase: Option<Ring> = None;
    let mut passes = Passes::default();
    Case::new(subject, case, LATENCY, move || {
        if chase.is_none() {
            let words = Words::zeroed(bytes.next_multiple_of(HUGE_PAGE_BYTES), pages)?;
            let mut order = places();
            fastrand::Rng::with_seed(1).shuffle(&mut order);
            let mut ring = Ring::new(words, &order);
            // Once around, so that what can be in a cache is.
            black_box(ring.follow(order.len()));
            chase = Some(ring);
        }
        let ring = chase.as_mut().expect("it was made above");
        let seconds = passes.seconds(&mut || {
            black_box(ring.follow(LOADS));
        });
        Ok(seconds * 1e9 / LOADS as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_pages_that_grow_to_the_largest() {
        let sizes = sizes(4096, 1 << 20, 4);
        assert!(sizes.windows(2).all(|two| two[0] < two[1]) && sizes.iter().all(|bytes| bytes % 4096 == 0));
        assert_eq!((sizes[0], sizes[sizes.len() - 1]), (4096, 1 << 20));
    }
}
