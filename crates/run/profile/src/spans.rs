//! Parts of a file: which pages runs touched, when first, and in which of the last two runs.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a page. All parts of files are whole pages.
pub const PAGE_BYTES: u64 = 4096;
/// Neighbouring pages that were first touched within this time are one part, in microseconds. Choice: a program that goes through a file
/// touches the next page within it, also where it waits for a disk between them.
const TOGETHER_US: u32 = 10_000;
/// The end of the largest file, in pages: the kernel counts bytes up to 2^63.
pub(crate) const PAGES_MAX: u64 = (1 << 63) / PAGE_BYTES;

/// Which of the last two recorded runs used something. Never neither of them: that is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses(u8);

impl Uses {
    /// Used in the last run, and not known in the one before.
    pub const LAST: Self = Self(0b01);

    /// After one more run. Nothing where two runs in a row did not use it.
    #[must_use]
    pub fn after(self, is_used: bool) -> Option<Self> {
        Self::from_bits((self.0 << 1 | u8::from(is_used)) & 0b11)
    }

    /// Whether the last run used it.
    #[must_use]
    pub fn in_last(self) -> bool {
        self.0 & 0b01 != 0
    }

    /// Whether both of the last two runs used it.
    #[must_use]
    pub fn in_both(self) -> bool {
        self.0 == 0b11
    }

    /// As a number: 1 for the last run, 2 for the one before, added up.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// From such a number.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        matches!(bits, 1..=3).then_some(Self(bits))
    }
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// From the first page up to, not including, the last one. Never empty.
    pub pages: Range<u64>,
    /// When a run first needed it, in microseconds since its start: the latest run that did.
    pub first_us: u32,
    /// Which runs used it.
    pub uses: Uses,
}

/// The pages that a range of bytes touches. Nothing for a range that no file can have.
pub(crate) fn pages_of(range: &Range<u64>) -> Option<Range<u64>> {
    let pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
    (range.start < range.end && pages.end <= PAGES_MAX).then_some(pages)
}

/// The pages of one file that one run touched. They are added in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// By the first page: the end, and when first touched. No two overlap.
    parts: BTreeMap<u64, (u64, u32)>,
}

impl Touched {
    /// Whether no page was touched.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds what of `pages` was not touched yet.
    pub fn add(&mut self, pages: Range<u64>, at_us: u32) {
        let mut at = pages.start;
        while at < pages.end {
            let below = self.parts.range(..=at).next_back().map_or(at, |(_, (end, _))| *end);
            if below > at {
                at = below;
                continue;
            }
            let end = self.parts.range(at..pages.end).next().map_or(pages.end, |(start, _)| *start);
            self.put(at..end, at_us);
            at = end;
        }
    }

    /// Adds untouched pages, to the part below where both were touched together.
    fn put(&mut self, pages: Range<u64>, at_us: u32) {
        match self.parts.range_mut(..pages.start).next_back() {
            Some((_, (end, first_us)))
                if *end == pages.start && at_us.saturating_sub(*first_us) <= TOGETHER_US =>
            {
                *end = pages.end;
            }
            _ => {
                self.parts.insert(pages.start, (pages.end, at_us));
            }
        }
    }
}

/// The parts of a file after one more run, which touched some pages: those are used now. The others are not, unless the run
/// could not see that.
pub(crate) fn overlay(before: &[Span], touched: &Touched, sees_all: bool) -> Vec<Span> {
    let edges = before.iter().flat_map(|span| [span.pages.start, span.pages.end]);
    let mut cuts: Vec<u64> =
        edges.chain(touched.parts.iter().flat_map(|(start, (end, _))| [*start, *end])).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut old = before.iter().peekable();
    let mut new = touched.parts.iter().peekable();
    let mut spans = Vec::new();
    for cut in cuts.windows(2) {
        let pages = cut[0]..cut[1];
        while old.next_if(|span| span.pages.end <= pages.start).is_some() {}
        while new.next_if(|(_, (end, _))| *end <= pages.start).is_some() {}
        let was = old.peek().filter(|span| span.pages.start <= pages.start);
        let is = new.peek().filter(|(start, _)| **start <= pages.start).map(|(_, (_, first_us))| *first_us);
        let uses = match was {
            Some(was) => was.uses.after(is.is_some() || !sees_all),
            None => is.map(|_| Uses::LAST),
        };
        if let (Some(uses), Some(first_us)) = (uses, is.or(was.map(|was| was.first_us))) {
            push(&mut spans, Span { pages, first_us, uses }, |last, next| {
                last.first_us.abs_diff(next.first_us) <= TOGETHER_US
            });
        }
    }
    spans
}

/// Joins neighbours whenever they were needed, up to `pages_max`.
pub(crate) fn coarsen(spans: &mut Vec<Span>, pages_max: u64) {
    let fine = std::mem::take(spans);
    for span in fine {
        push(spans, span, |last, next| next.pages.end - last.pages.start <= pages_max);
    }
}

/// Leaves out what lies at `end` and beyond.
pub(crate) fn cut_off(spans: &mut Vec<Span>, end: u64) {
    spans.retain_mut(|span| {
        span.pages.end = span.pages.end.min(end);
        !span.pages.is_empty()
    });
}

/// Adds a part behind all others, to its neighbour where that was used in the same runs and `joins` says so.
fn push(spans: &mut Vec<Span>, next: Span, joins: impl Fn(&Span, &Span) -> bool) {
    match spans.last_mut() {
        Some(last) if last.pages.end == next.pages.start && last.uses == next.uses && joins(last, &next) => {
            last.pages.end = next.pages.end;
            last.first_us = last.first_us.min(next.first_us);
        }
        _ => spans.push(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(parts: &[(Range<u64>, u32)]) -> Touched {
        let mut touched = Touched::default();
        for (pages, at_us) in parts {
            touched.add(pages.clone(), *at_us);
        }
        touched
    }

    fn spans(touched: &Touched) -> Vec<(Range<u64>, u32)> {
        overlay(&[], touched, true).into_iter().map(|span| (span.pages, span.first_us)).collect()
    }

    #[test]
    fn the_first_touch_of_a_page_wins() {
        let touched = touched(&[(4..6, 0), (0..10, 50_000), (5..12, 90_000)]);
        assert_eq!(spans(&touched), [(0..4, 50_000), (4..6, 0), (6..10, 50_000), (10..12, 90_000)]);
    }

    #[test]
    fn pages_touched_together_are_one_part() {
        let touched = touched(&[(0..1, 0), (1..2, 9_000), (2..3, 10_000), (3..4, 10_001)]);
        assert_eq!(spans(&touched), [(0..3, 0), (3..4, 10_001)]);
    }

    #[test]
    fn what_two_runs_in_a_row_did_not_touch_is_gone() {
        let first = overlay(&[], &touched(&[(0..8, 0)]), true);
        let second = overlay(&first, &touched(&[(2..4, 5)]), true);
        let uses: Vec<_> = second.iter().map(|span| (span.pages.clone(), span.uses.bits())).collect();
        assert_eq!(uses, [(0..2, 0b10), (2..4, 0b11), (4..8, 0b10)]);
        let third = overlay(&second, &touched(&[(0..1, 5)]), true);
        let uses: Vec<_> = third.iter().map(|span| (span.pages.clone(), span.uses.bits())).collect();
        assert_eq!(uses, [(0..1, 0b01), (2..4, 0b10)]);
    }
}
