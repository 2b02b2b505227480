//! Memory whose contents would have to be waited for: swapped out, or of mapped files and not resident.
//!
//! Ranges with such memory are moved aside, page table and all, to where nobody looks: their *shadow*. What is left in
//! their place is empty and registered with userfaultfd, so that the first touch of each page is a signal here instead
//! of a wait. [`fill`] then puts something there: see there. Pages hinted are kept in a ring until the original has come
//! to them: see [`ahead`].

mod ahead;
mod fill;
pub mod own;

pub use fill::fill;

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, errno, general as n, ioctl, sys};
use forebay_speculation::channel::{End, feature};

use forebay_speculation::credit::Credit;
use forebay_speculation::lead::{self, Alone, Lead};

use super::shared::{self, Mapping};
use super::{State, end, kernel, missing, waited};
use crate::spawn::Circumstances;

pub const PAGE: usize = 4096;
/// Smaller mappings are left as they are.
const ANONYMOUS_BYTES_MIN: usize = 128 << 10;
const FILE_BYTES_MIN: usize = 256 << 10;
const REGIONS_MAX: usize = 512;
/// Memory that need not be waited for between two ranges that must, which is moved with them.
const GAP_BYTES: usize = 256 << 10;
/// Every how many ranges of a mapping the gap doubles.
const RANGES_A_GAP: u32 = 32;
/// Where shadows are put, so that the program's own mappings get the addresses that they get in the original.
const SHADOWS: usize = 0x1000_0000_0000;
const SHADOWS_END: usize = 0x2000_0000_0000;
/// Shadows lie as their ranges do within this: the kernel then moves whole page tables instead of their entries.
const SHADOW_ALIGNMENT: usize = 1 << 30;
/// What is looked at together of a mapping, and taken for swapped out where that is scattered all over it.
const SAMPLE_BYTES: usize = 4 << 20;
/// How much the gap grows, as a power of two, each time that more was swapped out meanwhile.
const GAP_GROWTH: u32 = 4;
/// Page faults of the speculator's own, that waited, after which it looks for what was swapped out meanwhile: at least so
/// many, and so many that this time was lost.
const WAITS_MIN: u64 = 4;
const WAITED_US_MIN: u64 = 4_000;
/// Ranges that the kernel tells of at once.
const SCANNED: usize = 32;

/// A range that was moved aside.
#[derive(Clone, Copy)]
struct Region {
    start: usize,
    end: usize,
    /// Where it was moved to.
    shadow: usize,
    /// The mapped file, or -1.
    file: isize,
    offset: u64,
    /// Some pages may never have been used.
    holes: bool,
    /// Mapped by the speculator: the original has it later, and elsewhere perhaps.
    made: bool,
}

impl Region {
    fn shadow_of(&self, page: usize) -> usize {
        self.shadow + (page - self.start)
    }

    fn offset_of(&self, page: usize) -> u64 {
        self.offset + (page - self.start) as u64
    }
}

/// Ranges moved aside, and what came of them.
pub struct Memory {
    faults: isize,
    /// `/proc/<pid>/pagemap` of this process and of the original.
    pages: isize,
    original_pages: isize,
    regions: [Region; REGIONS_MAX],
    len: usize,
    /// Some of them have parts that are regions of their own.
    nested: bool,
    shadows_end: usize,
    streams: fill::Streams,
    ahead: ahead::Ahead,
    lead: Lead,
    supplied: fill::Supplied,
    trust: fill::Trust,
    own: own::Own,
    /// Page faults of this process that waited when it last looked, but for those it asked for.
    waits_seen: u64,
    waits_wanted: u64,
    alone: Alone,
    waits_max: u64,
    gap: usize,
    given_back: u64,
    /// Whether what this process takes drives something out.
    is_short: bool,
    /// Mean stall of the original, in microseconds.
    stall_us: u32,
    /// Hints that the original had used when this speculation began.
    used_before: u64,
}

impl Memory {
    /// Whether nothing that this process was about to use was swapped out since it began.
    fn is_calm(&self) -> bool {
        self.gap == GAP_BYTES
    }

    /// Pages that this process may have taken, and gave back again.
    pub fn given_back(&self) -> u64 {
        self.given_back
    }

    /// The newest region with this page that `wanted` takes.
    fn region(&self, page: usize, wanted: impl Fn(&Region) -> bool) -> Option<Region> {
        let regions = self.regions.get(..self.len)?;
        let fits = |region: &&Region| (region.start..region.end).contains(&page) && wanted(region);
        regions.iter().rev().find(fits).copied()
    }
}

/// Moves aside what may have to be waited for. Where that cannot be done, memory is waited for.
pub fn prepare(state: &mut State, circumstances: &Circumstances) {
    state.memory.faults = -1;
    state.memory.gap = GAP_BYTES;
    state.memory.waits_max = WAITS_MIN.max(WAITED_US_MIN / circumstances.stall_us.max(1));
    state.memory.is_short = circumstances.memory_is_short;
    state.memory.stall_us = u32::try_from(circumstances.stall_us).unwrap_or(u32::MAX);
    state.memory.lead = Lead::new();
    state.memory.used_before = state.slot.counters.hints_used.load(Relaxed);
    state.memory.shadows_end = SHADOWS;
    own::begin(state);
    let mut path = PathBuffer::<40>::new();
    let _ = path.push(b"/proc/") && path.push_number(state.process.into()) && path.push(b"/pagemap");
    // Now, because from the jail no other process can be looked at, unless the user is root.
    // SAFETY: a terminated path.
    state.memory.original_pages =
        unsafe { sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_RDONLY | n::O_CLOEXEC) };
    move_all(state);
}

/// By what came of this speculation so far.
fn credit(state: &State) -> Credit {
    let used = state.slot.counters.hints_used.load(Relaxed);
    Credit { hinted: state.hints.issued, used: used.saturating_sub(state.memory.used_before) }
}

/// Ends this process where it took too much.
pub fn keep_in_bounds(state: &mut State, usage: &n::rusage) {
    own::keep_in_limit(state, usage);
    let own = (usage.ru_minflt as u64).saturating_sub(state.memory.given_back);
    if state.memory.is_short && !credit(state).covers_own(own) {
        end(End::Memory);
    }
}

/// Takes note of a page that is waited for, at a site, with so many asked for.
fn waits_for(state: &mut State, site: Option<u32>, asked: usize) {
    waited(state, site);
    state.memory.alone.on_wait(asked, state.hints.issued);
    ahead::issued(state, asked);
    if state.memory.alone.is_without_prospect() {
        end(End::Lifetime);
    }
}

/// Looks at what this process has taken and waited for: moves aside what has been swapped out since, where that made it
/// wait.
fn look(state: &mut State) {
    let usage = super::usage();
    keep_in_bounds(state, &usage);
    let memory = &mut state.memory;
    let waits = (usage.ru_majflt as u64).saturating_sub(memory.waits_wanted);
    if waits.saturating_sub(memory.waits_seen) >= memory.waits_max {
        memory.waits_seen = waits;
        memory.gap = memory.gap.saturating_mul(1 << GAP_GROWTH);
        move_all(state);
    }
}

fn move_all(state: &mut State) {
    // SAFETY: one thread; the list is read whole before a mapping is moved.
    let Ok(list) = (unsafe { shared::read_list() }) else { return };
    let stack = &raw const list as usize;
    for line in list.split(|&byte| byte == b'\n') {
        let Some(mapping) = Mapping::parse(line) else { continue };
        if mapping.has(0, b'r')
            && !mapping.has(2, b'x')
            && mapping.has(3, b'p')
            && !(mapping.start..mapping.end).contains(&stack)
            && !(SHADOWS..SHADOWS_END).contains(&mapping.start)
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
            let nameless = mapping.path.is_empty() || mapping.path == b"[heap]";
            if length >= ANONYMOUS_BYTES_MIN && nameless && open_all(state) {
                move_swapped(state, mapping);
            }
            return;
        }
        let known = state.memory.region(mapping.start, |region| region.file >= 0).is_some();
        if length < FILE_BYTES_MIN || known {
            return;
        }
        let Some(file) = shared::open_mapped(mapping) else { return };
        let kept = !is_cached(file, mapping.offset as u64, length as u64)
            && open_all(state)
            && move_aside(state, mapping, mapping.start, mapping.end, file, false);
        if !kept {
            kernel::close(file);
        }
    }
}

/// Opens what else is needed of the kernel, once.
fn open_all(state: &mut State) -> bool {
    if state.memory.faults >= 0 {
        return true;
    }
    let flags = n::O_RDONLY | n::O_CLOEXEC;
    // SAFETY: a terminated path and a local that the call fills.
    unsafe {
        let own = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/pagemap".as_ptr(), flags);
        if own < 0 || state.memory.original_pages < 0 {
            if !is_for_now(own) && !is_for_now(state.memory.original_pages) {
                missing(feature::PAGEMAP);
            }
            return false;
        }
        let faults = sys!(n::__NR_userfaultfd, n::O_CLOEXEC | n::O_NONBLOCK | n::UFFD_USER_MODE_ONLY);
        let features = u64::from(n::UFFD_FEATURE_SIGBUS);
        let mut api = n::uffdio_api { api: n::UFFD_API.into(), features, ioctls: 0 };
        let agreed =
            if faults < 0 { faults } else { sys!(n::__NR_ioctl, faults, ioctl::UFFDIO_API, &raw mut api) };
        if agreed < 0 {
            if !is_for_now(agreed) {
                missing(feature::USERFAULTFD);
            }
            kernel::close(faults);
            kernel::close(own);
            return false;
        }
        state.memory.faults = faults;
        state.memory.pages = own;
    }
    true
}

/// Whether it is only this process that got no descriptor, and just now: that says nothing of the kernel.
fn is_for_now(result: isize) -> bool {
    [errno::EMFILE, errno::ENFILE, errno::ENOMEM].into_iter().any(|code| call::is(result, code))
}

/// In a copy of a speculator, where nothing of it traps any more and the page map is another's: has it so again. What was
/// hinted before is forgotten.
pub fn renew(state: &mut State) -> bool {
    let memory = &mut state.memory;
    memory.waits_seen = 0;
    memory.waits_wanted = 0;
    memory.alone = Alone::new();
    memory.given_back = 0;
    own::take_over(state);
    let memory = &mut state.memory;
    if memory.faults < 0 {
        return true;
    }
    for descriptor in [memory.faults, memory.pages] {
        kernel::close(descriptor);
    }
    memory.faults = -1;
    // SAFETY: nobody uses an earlier list.
    let Ok(list) = (unsafe { shared::read_list() }) else { return false };
    if !open_all(state) {
        return false;
    }
    for mapping in list.split(|&byte| byte == b'\n').filter_map(Mapping::parse) {
        if mapping.inode != 0 || !mapping.has(3, b'p') {
            continue;
        }
        for index in 0..state.memory.len {
            let Some(region) = state.memory.regions.get(index).copied() else { break };
            let (start, end) = (region.start.max(mapping.start), region.end.min(mapping.end));
            if start < end && !register(state, start, end - start) {
                return false;
            }
        }
    }
    ahead::forget_all(state);
    true
}

/// Pages hinted by this generation, but for those that it waited for.
pub fn hinted(state: &State) -> u32 {
    state.memory.ahead.hinted()
}

/// Whether it may have yet to come to where the original is, which goes on fast.
pub fn is_catching_up(state: &State) -> bool {
    state.memory.len > 0 && hinted(state) == 0 && lead::matters(state.memory.stall_us)
}

/// Whether the original has the page in its memory.
pub fn original_has(state: &State, page: usize) -> bool {
    let [entry] = entries::<1>(state.memory.original_pages, page);
    entry & fill::PRESENT != 0
}

/// Moves aside the ranges of an anonymous mapping that are swapped out, with what little lies between.
///
/// # Safety
/// As [`consider`].
unsafe fn move_swapped(state: &mut State, mapping: &Mapping<'_>) {
    let mut found = [const { MaybeUninit::<n::page_region>::uninit() }; SCANNED];
    let (mut from, mut gap, mut ranges) = (mapping.start, state.memory.gap, 0);
    let mut pending: Option<Swapped> = None;
    while from < mapping.end {
        let sample_end = ((from | (SAMPLE_BYTES - 1)) + 1).min(mapping.end);
        let Some(count) = scan(state.memory.pages, from, sample_end, Wanted::Swapped, &mut found) else {
            missing(feature::PAGEMAP);
            // Any page may be swapped out.
            pending = Some(Swapped { start: mapping.start, end: mapping.end, whole: false });
            break;
        };
        for region in found.iter().take(count) {
            // SAFETY: the kernel has filled so many.
            let region = unsafe { region.assume_init_ref() };
            let (start, end) = (region.start as usize, region.end as usize);
            match &mut pending {
                Some(range) if start.saturating_sub(range.end) <= gap => {
                    range.whole &= range.end == start;
                    range.end = end;
                }
                _ => {
                    if let Some(range) = pending.replace(Swapped { start, end, whole: true }) {
                        // SAFETY: the caller's.
                        unsafe { move_range(state, mapping, &range) };
                        ranges += 1;
                        gap = if ranges % RANGES_A_GAP == 0 { gap.saturating_mul(2) } else { gap };
                    }
                }
            }
        }
        from = sample_end;
        if count == SCANNED
            && let Some(range) = &mut pending
        {
            // They are all over it: the rest is not looked at.
            range.whole &= range.end == sample_end;
            range.end = sample_end;
        }
    }
    if let Some(range) = pending {
        // SAFETY: the caller's.
        unsafe { move_range(state, mapping, &range) };
    }
}

/// A range that is swapped out.
struct Swapped {
    start: usize,
    end: usize,
    /// All of it.
    whole: bool,
}

/// # Safety
/// As [`consider`].
unsafe fn move_range(state: &mut State, mapping: &Mapping<'_>, range: &Swapped) {
    let holes = !range.whole && has_unused(state.memory.pages, range);
    // SAFETY: the caller's.
    let _ = unsafe { move_aside(state, mapping, range.start, range.end, -1, holes) };
}

/// Whether some page of the range was never used, as far as the kernel says.
fn has_unused(pages: isize, range: &Swapped) -> bool {
    let mut found = [const { MaybeUninit::<n::page_region>::uninit() }; 1];
    scan(pages, range.start, range.end, Wanted::OneUnused, &mut found) != Some(0)
}

/// What to look for in a page map.
#[derive(Clone, Copy)]
enum Wanted {
    Swapped,
    OneUnused,
}

/// Puts the first ranges of such pages between `start` and `end` to `found`, and says how many.
fn scan(
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
    }
}

/// Moves `[start, end)` of the mapping, which is of `file` or anonymous and then perhaps with `holes`.
///
/// # Safety
/// As [`consider`].
unsafe fn move_aside(
    state: &mut State,
    mapping: &Mapping<'_>,
    start: usize,
    end_at: usize,
    file: isize,
    holes: bool,
) -> bool {
    let length = end_at - start;
    let place = state.memory.len;
    let shadow = state.memory.shadows_end.next_multiple_of(SHADOW_ALIGNMENT) + start % SHADOW_ALIGNMENT;
    if place == REGIONS_MAX || shadow + length > SHADOWS_END {
        return false;
    }
    // SAFETY: (all) the caller's; what is moved is put back where a later step fails.
    unsafe {
        let flags = n::MREMAP_MAYMOVE | n::MREMAP_DONTUNMAP | n::MREMAP_FIXED;
        if sys!(n::__NR_mremap, start, length, length, flags, shadow) < 0 {
            return false;
        }
        let anonymous = n::MAP_PRIVATE | n::MAP_ANONYMOUS | n::MAP_NORESERVE | n::MAP_FIXED;
        let overlaid = file < 0
            || sys!(n::__NR_mmap, start, length, mapping.protection(), anonymous, usize::MAX, 0) >= 0;
        if !overlaid || !register(state, start, length) {
            let back = n::MREMAP_MAYMOVE | n::MREMAP_FIXED;
            if sys!(n::__NR_mremap, shadow, length, length, back, start) < 0 {
                end(End::Jail);
            }
            return false;
        }
    }
    if file >= 0 {
        read_nothing_ahead(file, shadow, length);
    }
    let memory = &mut state.memory;
    memory.nested |=
        memory.region(start, |_| true).is_some() || memory.region(end_at - 1, |_| true).is_some();
    if let Some(region) = memory.regions.get_mut(place) {
        let offset = (mapping.offset + (start - mapping.start)) as u64;
        *region = Region { start, end: end_at, shadow, file, offset, holes, made: false };
        memory.len += 1;
        memory.shadows_end = shadow + length;
    }
    true
}

/// Touches of the mapping of a file tell what to read, not the kernel's guess at what comes next.
fn read_nothing_ahead(file: isize, shadow: usize, length: usize) {
    // SAFETY: advice on this process's own descriptor and mapping.
    unsafe {
        let _ = sys!(n::__NR_fadvise64, file, 0, 0, n::POSIX_FADV_RANDOM);
        let _ = sys!(n::__NR_madvise, shadow, length, n::MADV_RANDOM);
    }
}

/// Has the touches of a mapping of zeros that the speculator made filled from `file`, which goes with it. Where that
/// cannot be, it stays what it is.
pub fn overlay(state: &mut State, start: usize, length: usize, file: isize, offset: u64) {
    let place = state.memory.len;
    let shadow = state.memory.shadows_end.next_multiple_of(PAGE);
    let kept = file >= 0
        && place < REGIONS_MAX
        && shadow + length < SHADOWS_END
        && open_all(state)
        && register(state, start, length);
    // SAFETY: a mapping where there is none.
    let mapped = kept
        && unsafe {
            let flags = n::MAP_PRIVATE | n::MAP_FIXED;
            sys!(n::__NR_mmap, shadow, length, n::PROT_READ, flags, file, offset) >= 0
        };
    if !mapped {
        kernel::close(file);
        return;
    }
    read_nothing_ahead(file, shadow, length);
    let memory = &mut state.memory;
    memory.nested |= memory.region(start, |_| true).is_some();
    if let Some(region) = memory.regions.get_mut(place) {
        let end = start + length.next_multiple_of(PAGE);
        *region = Region { start, end, shadow, file, offset, holes: false, made: true };
        memory.len += 1;
        memory.shadows_end = shadow + length.next_multiple_of(PAGE);
    }
}

/// The program unmaps a range: what was overlaid there goes.
pub fn unmapped(state: &mut State, start: usize, length: usize) {
    let memory = &mut state.memory;
    let mut kept = 0;
    for index in 0..memory.len {
        let Some(region) = memory.regions.get(index).copied() else { return };
        if region.made
            && start <= region.start
            && region.end <= start.saturating_add(length.next_multiple_of(PAGE))
        {
            // SAFETY: nothing but the region led there.
            let _ = unsafe { sys!(n::__NR_munmap, region.shadow, region.end - region.start) };
            kernel::close(region.file);
            continue;
        }
        if let Some(place) = memory.regions.get_mut(kept) {
            *place = region;
            kept += 1;
        }
    }
    memory.len = kept;
}

fn register(state: &State, start: usize, length: usize) -> bool {
    let mut register = n::uffdio_register {
        range: n::uffdio_range { start: start as u64, len: length as u64 },
        mode: 1 << 0,
        ioctls: 0,
    };
    // SAFETY: the call reads and fills a local.
    unsafe { sys!(n::__NR_ioctl, state.memory.faults, ioctl::UFFDIO_REGISTER, &raw mut register) == 0 }
}

/// Makes the pages of `[address, address + length)` present that the kernel is about to touch, which it would refuse.
///
/// # Safety
/// The range may be garbage: a fault ends the speculator.
pub unsafe fn touch(state: &State, address: usize, length: usize) {
    // Any number may be an address, -1 too: what ends the loops are regions, not the range.
    let Some(end) = address.checked_add(length) else { return };
    for index in 0..state.memory.len {
        // A copy: whoever supplies a page may move more aside meanwhile.
        let Some(region) = state.memory.regions.get(index).copied() else { return };
        let from = region.start.max(address & !(PAGE - 1));
        for page in (from..region.end.min(end)).step_by(PAGE) {
            // SAFETY: the caller's.
            let _ = unsafe { (page as *const u8).read_volatile() };
        }
    }
}

/// Entries of a page map, from `address` on.
fn entries<const COUNT: usize>(pages: isize, address: usize) -> [u64; COUNT] {
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

/// Gives the memory of a range of this process's own back: the next touch of it is a fault again.
fn drop_pages(page: usize, count: usize) {
    // SAFETY: advice on this process's own registered range.
    let _ = unsafe { sys!(n::__NR_madvise, page, count * PAGE, n::MADV_DONTNEED) };
}
