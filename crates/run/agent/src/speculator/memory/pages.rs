//! What the kernel tells of pages: which are swapped out, in memory, or never used.

use core::mem::MaybeUninit;

use forebay_protocol::layout::feature;
use forebay_sigsafe::{call, general as n, ioctl, sys};

use super::PAGE;
use crate::residency;
use crate::speculator::{kernel, missing};

/// What to look for in a page map.
#[derive(Clone, Copy)]
pub enum Wanted {
    Swapped,
    OneUnused,
}

/// Puts the first ranges of such pages between `start` and `end` to `found`, and says how many.
pub fn scan(
    pages: isize,
    start: usize,
    end: usize,
    wanted: Wanted,
    found: &mut [MaybeUninit<n::page_region>],
) -> Option<usize> {
    let used = n::PAGE_IS_SWAPPED | n::PAGE_IS_PRESENT;
    let (mask, inverted, max_pages) = match wanted {
        Wanted::Swapped => (n::PAGE_IS_SWAPPED, 0, 0),
        Wanted::OneUnused => (used, used, 1),
    };
    let mut scan = n::pm_scan_arg {
        size: size_of::<n::pm_scan_arg>() as u64,
        flags: 0,
        start: start as u64,
        end: end as u64,
        walk_end: 0,
        vec: found.as_mut_ptr() as u64,
        vec_len: found.len() as u64,
        max_pages,
        category_inverted: inverted.into(),
        category_mask: mask.into(),
        category_anyof_mask: 0,
        return_mask: mask.into(),
    };
    // SAFETY: the call fills at most what it is given.
    let count = unsafe { sys!(n::__NR_ioctl, pages, ioctl::PAGEMAP_SCAN, &raw mut scan) };
    usize::try_from(count).ok()
}

/// Whether all of the file's range is in memory, as far as the kernel says.
pub fn is_cached(file: isize, offset: u64, length: u64) -> bool {
    let range = n::cachestat_range { off: offset, len: length };
    let mut counts = MaybeUninit::<n::cachestat>::zeroed();
    // SAFETY: the call reads and fills locals.
    unsafe {
        let result = sys!(n::__NR_cachestat, file, &raw const range, counts.as_mut_ptr(), 0);
        if result == call::ENOSYS {
            missing(feature::CACHESTAT);
        }
        result == 0 && counts.assume_init().nr_cache >= length.div_ceil(PAGE as u64)
            || is_cached_below(file, offset, length)
    }
}

/// As [`is_cached`], for a file system that keeps the pages of its files in another one. Such a one refuses reads that do not
/// wait.
fn is_cached_below(file: isize, offset: u64, length: u64) -> bool {
    let mut byte = 0u8;
    // SAFETY: one byte into a local.
    let read = unsafe { kernel::read_resident(file, &raw mut byte as usize, 1, offset) };
    residency::is_refusal(read) && residency::of(file, offset, length) == Some(true)
}

/// Entries of a page map, from `address` on.
pub fn entries<const COUNT: usize>(pages: isize, address: usize) -> [u64; COUNT] {
    let mut entries = [0u64; COUNT];
    let (buffer, offset) = (entries.as_mut_ptr() as usize, (address / PAGE * 8) as u64);
    // SAFETY: as many bytes as there are, into a local.
    let _ = unsafe { kernel::read_waiting(pages, buffer, COUNT * 8, offset) };
    entries
}

/// Whether pages are in memory, though no page table may lead to them: the lowest bit of each.
pub fn in_core<const COUNT: usize>(address: usize, pages: usize) -> [u8; COUNT] {
    let mut residency = [0u8; COUNT];
    let length = pages.min(COUNT) * PAGE;
    // SAFETY: one byte for each page into a local.
    let _ = unsafe { sys!(n::__NR_mincore, address, length, residency.as_mut_ptr()) };
    residency
}
