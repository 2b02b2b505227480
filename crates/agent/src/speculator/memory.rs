//! Memory whose contents would have to be waited for: swapped out, or of mapped files and not resident.
//!
//! A mapping with such memory is moved aside, page table and all, to where nobody looks: its *shadow*. What is left in
//! its place is empty and registered with userfaultfd, so that the first touch of each page is a signal here instead of
//! a wait. The page is then copied from the shadow if it is resident there; if not, the device is started on it (from
//! the shadow's swap entry, which shares its place in the swap cache with the original's; or by reading the file
//! without waiting) and a page of zeros takes its place.
//!
//! Which of its pages the original has come to is read from its page map.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, general as n, ioctl, sys};
use forebay_speculation::channel::{End, feature};
use forebay_speculation::signature::Signature;
use forebay_speculation::site::{self, Kind, Strategy};

use super::shared::Mapping;
use super::{State, abandoned, end, fabricated, hints, kernel, missing, shared};

const PAGE: usize = 4096;
/// Smaller mappings are left as they are.
const ANONYMOUS_BYTES_MIN: usize = 128 << 10;
const FILE_BYTES_MIN: usize = 256 << 10;
const REGIONS_MAX: usize = 256;
/// Pages hinted and not yet seen in the original's memory, at most.
const AHEAD_MAX: usize = 4096;
/// Hints between looks at what the original has come to.
const HINTS_A_LOOK: usize = 32;
/// Pages that the original may have left out before one that it came to.
const SKIPPED_MAX: usize = 8;
const PAUSE_US: i64 = 200;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// A mapping that was moved aside.
#[derive(Clone, Copy)]
struct Region {
    start: usize,
    end: usize,
    /// Where it was moved to.
    shadow: usize,
    /// The mapped file, or -1.
    file: isize,
    offset: u64,
}

/// Mappings moved aside, and the pages hinted.
pub struct Memory {
    faults: isize,
    /// `/proc/<pid>/pagemap` of this process and of the original.
    pages: isize,
    original_pages: isize,
    regions: [Region; REGIONS_MAX],
    len: usize,
    ahead: [usize; AHEAD_MAX],
    first: usize,
    count: usize,
    unlooked: usize,
}

impl Memory {
    fn region(&self, address: usize) -> Option<Region> {
        let regions = self.regions.get(..self.len)?;
        regions.iter().find(|region| (region.start..region.end).contains(&address)).copied()
    }

    fn hinted(&self, index: usize) -> usize {
        self.ahead.get((self.first + index) % AHEAD_MAX).copied().unwrap_or(0)
    }

    fn forget(&mut self, count: usize) {
        self.first = (self.first + count) % AHEAD_MAX;
        self.count -= count.min(self.count);
    }
}

/// Moves aside what may have to be waited for. Where that cannot be done, memory is waited for.
pub fn prepare(state: &mut State) {
    state.memory.faults = -1;
    // SAFETY: one thread; the list is read whole before a mapping is moved.
    let Ok(list) = (unsafe { shared::read_list() }) else { return };
    let stack = &raw const list as usize;
    for line in list.split(|&byte| byte == b'\n') {
        let Some(mapping) = Mapping::parse(line) else { continue };
        if mapping.has(0, b'r')
            && !mapping.has(2, b'x')
            && mapping.has(3, b'p')
            && !(mapping.start..mapping.end).contains(&stack)
            && !is_own(&mapping)
        {
            // SAFETY: a private mapping of this process's that this code does not run in.
            unsafe { consider(state, &mapping) };
        }
    }
}

unsafe extern "C" {
    static __ehdr_start: u8;
    static end_of_library: u8;
}

core::arch::global_asm!(".hidden end_of_library", ".set end_of_library, _end");

fn is_own(mapping: &Mapping<'_>) -> bool {
    let (start, end) = (&raw const __ehdr_start as usize, &raw const end_of_library as usize);
    mapping.start < end && start < mapping.end
}

/// # Safety
/// The mapping is private, of this process, and this code does not depend on it.
unsafe fn consider(state: &mut State, mapping: &Mapping<'_>) {
    let length = mapping.end - mapping.start;
    // SAFETY: (all) the caller's.
    unsafe {
        if mapping.inode == 0 {
            if length < ANONYMOUS_BYTES_MIN || !mapping.path.is_empty() && mapping.path != b"[heap]" {
                return;
            }
            if open_all(state) && has_swapped(state.memory.pages, mapping.start, mapping.end) {
                move_aside(state, mapping, -1);
            }
            return;
        }
        if length < FILE_BYTES_MIN {
            return;
        }
        let Some(file) = shared::open_mapped(mapping) else { return };
        let kept = !is_cached(file, mapping.offset as u64, length as u64)
            && open_all(state)
            && move_aside(state, mapping, file);
        if !kept {
            kernel::close(file);
        }
    }
}

/// Opens what is needed of the kernel, once.
fn open_all(state: &mut State) -> bool {
    if state.memory.faults >= 0 {
        return true;
    }
    let mut path = PathBuffer::<40>::new();
    let named = path.push(b"/proc/") && path.push_number(state.process.into()) && path.push(b"/pagemap");
    let flags = n::O_RDONLY | n::O_CLOEXEC;
    // SAFETY: terminated paths and a local that the call fills.
    unsafe {
        let own = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/pagemap".as_ptr(), flags);
        let theirs = sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), flags);
        if own < 0 || theirs < 0 || !named {
            missing(feature::PAGEMAP);
            return false;
        }
        let faults = sys!(n::__NR_userfaultfd, n::O_CLOEXEC | n::O_NONBLOCK | n::UFFD_USER_MODE_ONLY);
        let features = u64::from(n::UFFD_FEATURE_SIGBUS);
        let mut api = n::uffdio_api { api: n::UFFD_API.into(), features, ioctls: 0 };
        if faults < 0 || sys!(n::__NR_ioctl, faults, ioctl::UFFDIO_API, &raw mut api) < 0 {
            missing(feature::USERFAULTFD);
            return false;
        }
        state.memory.faults = faults;
        state.memory.pages = own;
        state.memory.original_pages = theirs;
    }
    true
}

/// Whether a page of the range is swapped out; where the kernel cannot tell at once, one may be.
unsafe fn has_swapped(pages: isize, start: usize, end: usize) -> bool {
    let mut found = MaybeUninit::<n::page_region>::uninit();
    let scan = n::pm_scan_arg {
        size: size_of::<n::pm_scan_arg>() as u64,
        flags: 0,
        start: start as u64,
        end: end as u64,
        walk_end: 0,
        vec: &raw mut found as u64,
        vec_len: 1,
        max_pages: 1,
        category_inverted: 0,
        category_mask: n::PAGE_IS_SWAPPED.into(),
        category_anyof_mask: 0,
        return_mask: n::PAGE_IS_SWAPPED.into(),
    };
    // SAFETY: the call fills at most one region.
    let result = unsafe { sys!(n::__NR_ioctl, pages, ioctl::PAGEMAP_SCAN, &raw const scan) };
    if result < 0 {
        missing(feature::PAGEMAP);
    }
    result != 0
}

/// Whether all of the file's range is in memory, as far as the kernel says.
fn is_cached(file: isize, offset: u64, length: u64) -> bool {
    let range = n::cachestat_range { off: offset, len: length };
    let mut counts = MaybeUninit::<n::cachestat>::zeroed();
    // SAFETY: the call reads and fills locals.
    unsafe {
        let result = sys!(n::__NR_cachestat, file, &raw const range, counts.as_mut_ptr(), 0);
        result == 0 && counts.assume_init().nr_cache >= length.div_ceil(PAGE as u64)
    }
}

/// # Safety
/// As [`consider`].
unsafe fn move_aside(state: &mut State, mapping: &Mapping<'_>, file: isize) -> bool {
    let (start, length) = (mapping.start, mapping.end - mapping.start);
    let place = state.memory.len;
    if place == REGIONS_MAX {
        return false;
    }
    // SAFETY: (all) the caller's; what is moved is put back where a later step fails.
    unsafe {
        let flags = n::MREMAP_MAYMOVE | n::MREMAP_DONTUNMAP;
        let shadow = sys!(n::__NR_mremap, start, length, length, flags, 0);
        if shadow < 0 {
            return false;
        }
        let anonymous = n::MAP_PRIVATE | n::MAP_ANONYMOUS | n::MAP_NORESERVE | n::MAP_FIXED;
        let overlaid = file < 0
            || sys!(n::__NR_mmap, start, length, mapping.protection(), anonymous, usize::MAX, 0) >= 0;
        let mut register = n::uffdio_register {
            range: n::uffdio_range { start: start as u64, len: length as u64 },
            mode: 1 << 0,
            ioctls: 0,
        };
        if !overlaid
            || sys!(n::__NR_ioctl, state.memory.faults, ioctl::UFFDIO_REGISTER, &raw mut register) < 0
        {
            let back = n::MREMAP_MAYMOVE | n::MREMAP_FIXED;
            if sys!(n::__NR_mremap, shadow, length, length, back, start) < 0 {
                end(End::Jail);
            }
            return false;
        }
        if let Some(region) = state.memory.regions.get_mut(place) {
            let (shadow, offset) = (shadow as usize, mapping.offset as u64);
            *region = Region { start, end: mapping.end, shadow, file, offset };
            state.memory.len += 1;
        }
    }
    true
}

/// Makes the pages of `[address, address + length)` present that the kernel is about to touch, which it would refuse.
///
/// # Safety
/// The range may be garbage: a fault ends the speculator.
pub unsafe fn touch(state: &State, address: usize, length: usize) {
    if state.memory.len == 0 || length == 0 {
        return;
    }
    let mut page = address & !(PAGE - 1);
    while page < address.saturating_add(length) {
        if state.memory.region(page).is_some() {
            // SAFETY: the caller's.
            let _ = unsafe { (page as *const u8).read_volatile() };
        }
        page += PAGE;
    }
}

/// Fills the page at `address`, which code at `place` touched; `false` where that is none of ours.
pub fn fill(state: &mut State, address: usize, place: usize) -> bool {
    let page = address & !(PAGE - 1);
    let Some(region) = state.memory.region(page) else { return false };
    let shadow = region.shadow + (page - region.start);
    let entry = page_entry(state.memory.pages, shadow);
    if entry & PRESENT != 0 {
        return supply(state, page, shadow);
    }
    if entry & SWAPPED != 0 {
        if is_in_core(shadow) || strategy(state, place).1 == Strategy::Wait {
            return supply(state, page, shadow);
        }
        // SAFETY: advice on this process's own mapping.
        let _ = unsafe { sys!(n::__NR_madvise, shadow, PAGE, n::MADV_WILLNEED) };
        return leave_blank(state, page, place);
    }
    if region.file < 0 {
        return blank(state, page);
    }
    let mut bytes = MaybeUninit::<[u8; PAGE]>::zeroed();
    let buffer = bytes.as_mut_ptr() as usize;
    let offset = region.offset + (page - region.start) as u64;
    // SAFETY: a buffer of a page.
    let mut read = unsafe { kernel::read_resident(region.file, buffer, PAGE, offset) };
    if read == call::EAGAIN && strategy(state, place).1 != Strategy::Wait {
        return leave_blank(state, page, place);
    }
    if read < 0 {
        // SAFETY: as above.
        read = unsafe { kernel::read_waiting(region.file, buffer, PAGE, offset) };
    }
    read >= 0 && supply(state, page, buffer)
}

fn strategy(state: &State, place: usize) -> (Option<u32>, Strategy) {
    let key = Signature::call(u64::MAX).word(place as u64).value();
    match site::lookup(&state.slot.sites, key, Kind::Fault) {
        Some((index, strategy)) => (Some(index), strategy),
        None => (None, Strategy::Wait),
    }
}

/// A page of zeros stands for one that the device was started on.
fn leave_blank(state: &mut State, page: usize, place: usize) -> bool {
    let (site, _) = strategy(state, place);
    fabricated(state, site);
    state.hints.issued += 1;
    state.slot.counters.hints_data.fetch_add(1, Relaxed);
    state.slot.counters.bytes_hinted.fetch_add(PAGE as u64, Relaxed);
    let done = blank(state, page);
    remember(state, page);
    done
}

fn blank(state: &State, page: usize) -> bool {
    let mut zero = n::uffdio_zeropage {
        range: n::uffdio_range { start: page as u64, len: PAGE as u64 },
        mode: 0,
        zeropage: 0,
    };
    // SAFETY: the kernel fills an empty page of a registered range, or refuses.
    unsafe { sys!(n::__NR_ioctl, state.memory.faults, ioctl::UFFDIO_ZEROPAGE, &raw mut zero) == 0 }
}

fn supply(state: &mut State, page: usize, from: usize) -> bool {
    state.added_bytes += PAGE as u64;
    if state.added_bytes > state.header.memory_bytes_max.load(Relaxed) {
        end(End::Memory);
    }
    let mut copy = n::uffdio_copy { dst: page as u64, src: from as u64, len: PAGE as u64, mode: 0, copy: 0 };
    // SAFETY: the kernel fills an empty page of a registered range, or refuses.
    unsafe { sys!(n::__NR_ioctl, state.memory.faults, ioctl::UFFDIO_COPY, &raw mut copy) == 0 }
}

fn page_entry(pages: isize, address: usize) -> u64 {
    let mut entry = 0u64;
    // SAFETY: eight bytes into a local.
    let _ = unsafe { kernel::read_waiting(pages, &raw mut entry as usize, 8, (address / PAGE * 8) as u64) };
    entry
}

/// Whether a page is in memory, though no page table leads to it.
fn is_in_core(address: usize) -> bool {
    let mut residency = 0u8;
    // SAFETY: one byte into a local.
    unsafe { sys!(n::__NR_mincore, address, PAGE, &raw mut residency) == 0 && residency & 1 != 0 }
}

/// Adds a hinted page, and waits while there are too many that the original has not come to.
fn remember(state: &mut State, page: usize) {
    let memory = &mut state.memory;
    if let Some(place) = memory.ahead.get_mut((memory.first + memory.count) % AHEAD_MAX) {
        *place = page;
        memory.count += 1;
    }
    memory.unlooked += 1;
    let horizon = state.header.horizon_bytes.load(Relaxed) as usize / PAGE;
    let full = horizon.clamp(HINTS_A_LOOK, AHEAD_MAX - 1);
    if memory.unlooked >= HINTS_A_LOOK {
        look(state);
    }
    while state.memory.count >= full {
        hints::await_original(state);
        kernel::pause(PAUSE_US);
        look(state);
    }
}

/// Forgets the hinted pages that the original has come to.
fn look(state: &mut State) {
    state.memory.unlooked = 0;
    let mut used = 0;
    'next: while state.memory.count > 0 {
        for skipped in 0..SKIPPED_MAX.min(state.memory.count) {
            let page = state.memory.hinted(skipped);
            if page_entry(state.memory.original_pages, page) & PRESENT != 0 {
                state.slot.counters.hints_wrong.fetch_add(skipped as u64, Relaxed);
                state.memory.forget(skipped + 1);
                used += 1;
                continue 'next;
            }
        }
        break;
    }
    if used > 0 {
        state.slot.counters.hints_used.fetch_add(used, Relaxed);
        state.slot.pages_used.fetch_add(used, Relaxed);
        state.hints.consumed();
    }
    if abandoned(state) {
        end(End::Abandoned);
    }
}
