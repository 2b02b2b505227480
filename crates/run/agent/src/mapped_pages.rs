//! Which pages of mapped files the process has when it ends, for the access log.
//!
//! A touch of a page that is in memory already tells nothing as it happens. The page map tells in the end. The kernel
//! maps up to 16 pages around a touched one, so that these count, too. When they were touched is unknown: they have the time at
//! which this image of the process began.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use forebay_protocol::access_log::{AccessLog, Use};
use forebay_sigsafe::{general as n, ioctl, sys};

use crate::speculator::{List, Mapping};
use crate::{accesses, process};

/// Ranges that the kernel tells at once.
const REGIONS: usize = 32;
/// Ranges of one mapping that are recorded, at most.
const RANGES_MAX: usize = 4096;
/// Ranges with smaller holes between them are one: what the kernel maps together.
const HOLE_BYTES: u64 = 64 << 10;
/// What the kernel puts behind the path of a file that was removed.
const REMOVED: &[u8] = b" (deleted)";

/// Whether the pages were recorded at a call that replaces the program. It may fail, and be tried with other paths.
static IS_RECORDED: AtomicBool = AtomicBool::new(false);

/// The process ends.
pub fn record_at_exit() {
    if let Some((log, began)) = accesses::log_of_pages().filter(|_| process::is_own()) {
        record(log, began);
    }
}

/// The program is about to be replaced.
pub fn record_at_exec() {
    if accesses::log_of_pages().is_some() && !IS_RECORDED.swap(true, Relaxed) {
        record_at_exit();
    }
}

#[cold]
#[inline(never)]
fn record(log: &AccessLog, began: u32) {
    // SAFETY: (both) a terminated path, and a descriptor of this function's.
    let pages = unsafe {
        let flags = n::O_RDONLY | n::O_CLOEXEC;
        sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/pagemap".as_ptr(), flags)
    };
    if pages < 0 {
        return;
    }
    if let Ok(list) = List::read() {
        let mut named: (&[u8], Option<u32>) = (b"", None);
        for mapping in list.mappings().filter_map(Result::ok).filter(is_of_file) {
            if mapping.path != named.0 {
                named = (mapping.path, accesses::name_of_mapped(log, mapping.path));
            }
            let Some(file) = named.1 else { continue };
            if !record_mapping(log, began, file, pages, &mapping) {
                break;
            }
        }
    }
    // SAFETY: above.
    let _ = unsafe { sys!(n::__NR_close, pages) };
}

fn is_of_file(mapping: &Mapping<'_>) -> bool {
    mapping.inode != 0 && mapping.path.first() == Some(&b'/') && !mapping.path.ends_with(REMOVED)
}

/// Whether there may be room for more.
fn record_mapping(log: &AccessLog, began: u32, file: u32, pages: isize, mapping: &Mapping<'_>) -> bool {
    let mut regions = [const { MaybeUninit::<n::page_region>::uninit() }; REGIONS];
    let mut at = mapping.start as u64;
    let mut open: Option<(u64, u64)> = None;
    let write = |(start, end): (u64, u64)| {
        let offset = |address: u64| (mapping.offset as u64).saturating_add(address - mapping.start as u64);
        accesses::record_range(log, Use::Mapped, began, file, offset(start), offset(end))
    };
    for _ in 0..RANGES_MAX / REGIONS {
        let Some((count, next)) = present(pages, at, mapping.end as u64, &mut regions) else { break };
        for region in regions.iter().take(count) {
            // SAFETY: the kernel has filled so many.
            let region = unsafe { region.assume_init_ref() };
            if region.start < mapping.start as u64 || region.end > mapping.end as u64 {
                continue;
            }
            open = match open {
                Some((start, end)) if region.start <= end.saturating_add(HOLE_BYTES) => {
                    Some((start, region.end))
                }
                Some(range) if !write(range) => return false,
                _ => Some((region.start, region.end)),
            };
        }
        at = next;
        if at >= mapping.end as u64 {
            break;
        }
    }
    open.is_none_or(write)
}

/// The first ranges from `start` on of pages that the process has, how many, and where the kernel stopped.
fn present(
    pages: isize,
    start: u64,
    end: u64,
    found: &mut [MaybeUninit<n::page_region>; REGIONS],
) -> Option<(usize, u64)> {
    let mut scan = n::pm_scan_arg {
        size: size_of::<n::pm_scan_arg>() as u64,
        flags: 0,
        start,
        end,
        walk_end: 0,
        vec: found.as_mut_ptr() as u64,
        vec_len: REGIONS as u64,
        max_pages: 0,
        category_inverted: 0,
        category_mask: n::PAGE_IS_PRESENT.into(),
        category_anyof_mask: 0,
        return_mask: n::PAGE_IS_PRESENT.into(),
    };
    // SAFETY: the call fills at most what it is given.
    let count = unsafe { sys!(n::__NR_ioctl, pages, ioctl::PAGEMAP_SCAN, &raw mut scan) };
    let next = if scan.walk_end > start { scan.walk_end } else { end };
    Some((usize::try_from(count).ok()?.min(REGIONS), next))
}
