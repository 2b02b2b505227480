//! Page hints that the original reached after the speculator had ended: the original counts these itself.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use forebay_protocol::layout::Slot;
use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

use super::outcome::of_generation;
use super::slow::Private;
use crate::{speculator, trace};

/// Counts the pages of that generation that the original has reached until now as used.
#[inline(never)]
pub fn settle(slot: &Slot, private: &mut Private, generation: u32) {
    let count = of_generation(slot.unconsumed_count.load(Acquire), generation);
    if count == 0 {
        return;
    }
    let pages = speculator::page_map();
    if pages < 0 {
        return;
    }
    let left = slot.unconsumed.iter().take(count as usize);
    let used = left.filter(|page| speculator::is_present(pages, page.load(Relaxed) as usize)).count() as u64;
    // SAFETY: the descriptor is this function's.
    let _ = unsafe { sys!(n::__NR_close, pages) };
    trace::tell(b"left, and used since", &[count, used]);
    slot.counters.hints_used.fetch_add(used, Relaxed);
    slot.pages_used.fetch_add(used, Relaxed);
    private.faults.take_used(used);
    private.live.on_pages(used, private.forks.stall_mean());
}
