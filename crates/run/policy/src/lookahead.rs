//! The lookahead distance of a speculator: how far it is ahead of the original among pages of memory, in time.
//!
//! # Model
//!
//! The original touches the pages in the order in which the speculator touched them. From a hinted page to the next the
//! original takes at least [`HINTED_US`], and from another page a stall:
//!
//! ```text
//!     lead = stalls * skipped + HINTED_US * hinted        of pages that the original has not touched yet
//! ```
//!
//! A hint for a page that the original touches at the same moment does harm. The second of the two waits for up to two ticks of
//! the kernel's clock, until the first has put the page into the swap cache. A hint takes the kernel some microseconds, and
//! sometimes hundreds when it must find room for the page. So while the lead is shorter than [`LEAD_US_MIN`], the speculator
//! *skips* pages: the original waits for them, and the speculator gets ahead meanwhile.
//!
//! A speculator may take several times the original's work for a prefetched page. Skipping then makes both equally fast. A lead
//! that is long enough is checked again when it can have become too short, because each look at a page of the original costs
//! time. Where a few stalls take as long, a skipped page costs more than it gains, and none is skipped.
//!
//! A speculator that *waits alone*, page by page without another request beside it, waits for what the original waits for. It
//! never gets a lead.

use crate::price::{AHEAD_FREE, HINTED_US, LEAD_STALLS_MIN, LEAD_US_MIN, SKIPPED_MAX};

/// Pages that are remembered: such as take the original longer than the shortest lead that matters.
const PAGES: usize = 256;

/// Waits alone, in a row, after which a speculator has no prospect of a lead: another one would hint as many pages twice.
const WAITS_ALONE_MAX: u32 = 2 * AHEAD_FREE as u32;

const _: () = assert!(PAGES as u32 * HINTED_US > LEAD_US_MIN);

/// Whether the lead is of interest where stalls take so long.
#[must_use]
pub const fn matters(stall_us: u32) -> bool {
    stall_us.saturating_mul(LEAD_STALLS_MIN) <= LEAD_US_MIN
}

/// How far requests to a remote file system may be ahead of a program that came so far, `followed`, in the time `elapsed`: it
/// should come to all of them within `kept`, because the kernel forgets their answers after that.
#[must_use]
pub const fn near(followed: u64, elapsed: u64, kept: u64) -> u64 {
    let elapsed = if elapsed == 0 { 1 } else { elapsed };
    (kept as u128 * followed as u128 / elapsed as u128) as u64
}

/// Pages that the original has not come to, as far as is known.
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    /// Each page, and what it takes the original to pass it.
    pages: [(usize, u32); PAGES],
    first: usize,
    count: usize,
    us: u32,
    /// It cannot be short before.
    long_until_us: u64,
}

impl Lead {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { pages: [(0, 0); PAGES], first: 0, count: 0, us: 0, long_until_us: 0 }
    }

    /// Whether the original, which waits `stall_us` for a page, would be at the next one too soon, at `now_us`. Looks no further
    /// than the answer takes at which pages the original has come to, and tells `passed` those of them that were left out.
    pub fn is_short(
        &mut self,
        now_us: u64,
        stall_us: u32,
        has_come: impl Fn(usize) -> bool,
        mut passed: impl FnMut(usize),
    ) -> bool {
        if !matters(stall_us) {
            return false;
        }
        if now_us < self.long_until_us {
            return false;
        }
        while self.us >= LEAD_US_MIN {
            match self.come_to(&has_come) {
                0 => {
                    self.long_until_us = now_us.saturating_add(u64::from(self.us - LEAD_US_MIN) + 1);
                    return false;
                }
                count => self.forget(count, &mut passed),
            }
        }
        true
    }

    /// How many of the pages the original has come to, from the oldest on, as one or two of them tell.
    fn come_to(&self, has_come: impl Fn(usize) -> bool) -> usize {
        let has_come = |index| self.at(index).is_some_and(&has_come);
        if has_come(SKIPPED_MAX) { SKIPPED_MAX + 1 } else { has_come(0).into() }
    }

    fn forget(&mut self, count: usize, passed: &mut impl FnMut(usize)) {
        for _ in 0..count {
            self.pop().filter(|&(_, us)| us != HINTED_US).into_iter().for_each(|(page, _)| passed(page));
        }
    }

    /// The speculator went on, behind `page`; that takes the original so long.
    pub fn add(&mut self, page: usize, us: u32) {
        if self.count == PAGES {
            self.pop();
        }
        if let Some(place) = self.pages.get_mut((self.first + self.count) % PAGES) {
            *place = (page, us);
            self.count += 1;
            self.us = self.us.saturating_add(us);
        }
    }

    fn at(&self, index: usize) -> Option<usize> {
        let (page, _) = *self.pages.get((self.first + index) % PAGES)?;
        (index < self.count).then_some(page)
    }

    fn pop(&mut self) -> Option<(usize, u32)> {
        let oldest = *self.pages.get(self.first)?;
        self.count = self.count.checked_sub(1)?;
        self.first = (self.first + 1) % PAGES;
        self.us = if self.count == 0 { 0 } else { self.us.saturating_sub(oldest.1) };
        Some(oldest)
    }
}

impl Default for Lead {
    fn default() -> Self {
        Self::new()
    }
}

/// How often in a row a speculator waited alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone {
    waits: u32,
    /// Hints given with the last of them.
    hinted: u64,
}

impl Alone {
    /// Never.
    #[must_use]
    pub const fn new() -> Self {
        Self { waits: 0, hinted: 0 }
    }

    /// It waits for a page, with `asked` pages asked for at once, after `hinted` hints in all; those asked for are hints, too.
    pub const fn on_wait(&mut self, asked: usize, hinted: u64) {
        let is_alone = asked <= 1 && hinted == self.hinted;
        self.waits = if is_alone { self.waits.saturating_add(1) } else { 1 };
        self.hinted = hinted.saturating_add(asked as u64);
    }

    /// Whether it will never be ahead of the original.
    #[must_use]
    pub const fn is_without_prospect(&self) -> bool {
        self.waits > WAITS_ALONE_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::*;

    const STALL_US: u32 = 50;

    fn is_behind(position: usize) -> impl Fn(usize) -> bool {
        move |page| page < position
    }

    /// Long after any lead that was found long.
    fn is_short(lead: &mut Lead, has_come: impl Fn(usize) -> bool) -> bool {
        lead.is_short(u64::MAX, STALL_US, has_come, |_| ())
    }

    #[test]
    fn pages_are_left_out_until_the_lead_suffices() {
        let mut lead = Lead::new();
        let mut left_out = 0;
        while is_short(&mut lead, |_| panic!("so few do not suffice, wherever it is")) {
            lead.add(left_out, STALL_US);
            left_out += 1;
            if left_out as u32 == LEAD_US_MIN / STALL_US {
                break;
            }
        }
        assert!(!is_short(&mut lead, |_| false));
        assert!(!Lead::new().is_short(0, LEAD_US_MIN, |_| false, |_| ()), "a long stall is not worth it");
    }

    #[test]
    fn the_lead_shrinks_as_the_original_comes_nearer() {
        let mut lead = Lead::new();
        (0..100).for_each(|page| lead.add(page, STALL_US));
        assert!(!is_short(&mut lead, is_behind(79)));
        assert!(is_short(&mut lead, is_behind(81)));
        (0..100).for_each(|page| lead.add(1_000 + page, HINTED_US));
        let mut passed: Vec<usize> = vec![];
        lead.add(2_000, LEAD_US_MIN);
        assert!(lead.is_short(u64::MAX, STALL_US, |_| true, |page| passed.push(page)));
        assert!(passed.iter().all(|page| !(1_000..2_000).contains(page)), "these were hinted: {passed:?}");
    }

    #[test]
    fn a_long_lead_is_not_looked_at_before_it_can_be_short() {
        let mut lead = Lead::new();
        (0..=2 * LEAD_US_MIN as usize / STALL_US as usize).for_each(|page| lead.add(page, STALL_US));
        assert!(!lead.is_short(7, STALL_US, |_| false, |_| ()));
        let later = 7 + u64::from(LEAD_US_MIN + STALL_US);
        assert!(!lead.is_short(later, STALL_US, |_| panic!("it was far behind"), |_| ()));
        assert!(lead.is_short(later + 1, STALL_US, |_| true, |_| ()));
    }

    #[test]
    fn some_pages_may_be_left_out_by_the_original() {
        let mut lead = Lead::new();
        (0..40).for_each(|page| lead.add(page, STALL_US));
        // Evicted again, say.
        assert!(!is_short(&mut lead, |page| page < 20 && page != 3 && page != 4));
        assert_eq!(lead.at(0), Some(20));
    }

    #[test]
    fn a_long_lead_forgets_its_oldest_pages_and_stays_long() {
        let mut lead = Lead::new();
        (0..10 * PAGES).for_each(|page| lead.add(page, HINTED_US));
        assert!(!is_short(&mut lead, |_| false));
        assert_eq!((lead.count, lead.at(0)), (PAGES, Some(9 * PAGES)));
    }

    #[test]
    fn who_only_waits_has_no_prospect_but_a_hint_or_several_pages_at_once_give_one() {
        let waits = |asked: &dyn Fn(u32) -> usize, hints_between: &dyn Fn(u32) -> u64| {
            let (mut alone, mut hinted) = (Alone::new(), 7);
            let waits = (0..10 * WAITS_ALONE_MAX).take_while(|&wait| {
                hinted += hints_between(wait);
                alone.on_wait(asked(wait), hinted);
                hinted += asked(wait) as u64;
                !alone.is_without_prospect()
            });
            waits.count() as u32
        };
        assert_eq!(waits(&|_| 1, &|_| 0), WAITS_ALONE_MAX);
        assert_eq!(waits(&|_| 0, &|_| 0), WAITS_ALONE_MAX);
        assert_eq!(waits(&|_| 1, &|wait| u64::from(wait % 8 == 0)), 10 * WAITS_ALONE_MAX);
        assert_eq!(waits(&|wait| if wait % 8 == 0 { 2 } else { 1 }, &|_| 0), 10 * WAITS_ALONE_MAX);
        assert_eq!(waits(&|wait| if wait < 5 { 2 } else { 1 }, &|_| 0), 4 + WAITS_ALONE_MAX);
    }

    /// Both go through scattered pages: the speculator takes 20 us to hint one and 5 to leave one out, the original
    /// [`HINTED_US`] for one that was hinted in time, and a stall else.
    #[test]
    fn a_slower_speculator_leaves_out_what_makes_both_equally_fast() {
        let (mut lead, mut original, mut original_at) = (Lead::new(), 0usize, 0u32);
        let (mut now, mut left_out, mut met) = (0u32, [false; 4096], 0);
        for page in 0..4096 {
            while original < page && original_at <= now {
                original_at += if left_out[original] { STALL_US } else { HINTED_US };
                original += 1;
            }
            met += u32::from(page > 100 && original >= page);
            left_out[page] = lead.is_short(now.into(), STALL_US, is_behind(original), |_| ());
            lead.add(page, if left_out[page] { STALL_US } else { HINTED_US });
            now += if left_out[page] { 5 } else { 20 };
        }
        let left = left_out.iter().filter(|&&left| left).count();
        assert!((700..1400).contains(&left), "{left} of 4096 were left out");
        assert_eq!(met, 0, "they met");
    }
}
