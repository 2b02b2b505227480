//! Relocates what may have to be waited for: swapped-out ranges of anonymous memory, and mapped files that are not resident.

use core::mem::MaybeUninit;

use forebay_policy::price::{SHADOWED_BYTES_MIN, SHADOWED_FILE_BYTES_MIN};
use forebay_protocol::layout::{End, feature};
use forebay_sigsafe::{general as n, ioctl, sys, thread_pointer};

use super::pages::{Wanted, is_cached, scan};
use super::{PAGE, ahead, open_all};
use crate::residency;
use crate::speculator::shared::{self, List, Mapping};
use crate::speculator::{State, end, hints, kernel, missing};

const REGIONS_MAX: usize = 512;
/// Memory that need not be waited for between two ranges that must, which is moved with them.
const GAP_BYTES: usize = 256 << 10;
/// Every how many ranges of a mapping the gap doubles.
const RANGES_A_GAP: u32 = 32;
/// Where shadows are put, so that the program's own mappings get the addresses that they get in the original.
const SHADOWS_START: usize = 0x1000_0000_0000;
const SHADOWS_END: usize = 0x2000_0000_0000;
/// Shadows lie as their ranges do within this: the kernel then moves whole page tables instead of their entries.
const SHADOW_ALIGNMENT: usize = 1 << 30;
/// What is looked at together of a mapping, and taken for swapped out where that is scattered all over it.
const SAMPLE_BYTES: usize = 4 << 20;
/// How much the gap grows, as a power of two, each time that more was swapped out meanwhile.
const GAP_GROWTH: u32 = 4;
/// Ranges that the kernel tells of at once.
const SCANNED: usize = 32;

/// A range that was relocated.
#[derive(Clone, Copy)]
pub struct Region {
    pub start: usize,
    pub end: usize,
    /// Where it was moved to.
    pub shadow: usize,
    /// The mapped file, or -1.
    pub file: isize,
    /// Of a file whose device is left to the kernel's readahead.
    pub is_left: bool,
    pub offset: u64,
    /// Some pages may never have been used.
    pub holes: bool,
    /// Mapped by the speculator, by a call of this signature: the original has it later, and elsewhere perhaps.
    made: Option<u64>,
    /// Where the original has it; 0 where that is not known.
    original: usize,
}

impl Region {
    pub fn shadow_of(&self, page: usize) -> usize {
        self.shadow + (page - self.start)
    }

    pub fn offset_of(&self, page: usize) -> u64 {
        self.offset + (page - self.start) as u64
    }

    /// Where the original has the page, if that is known.
    fn original_page_of(&self, page: usize) -> Option<usize> {
        (self.original != 0).then(|| self.original.wrapping_add(page - self.start))
    }
}

/// Relocated ranges, with their shadow regions.
pub struct Shadows {
    regions: [Region; REGIONS_MAX],
    len: usize,
    /// Some of them have parts that are regions of their own.
    is_nested: bool,
    /// Some of them were made by this process.
    has_made: bool,
    shadows_end: usize,
    gap: usize,
}

impl Shadows {
    /// Nothing is relocated.
    pub fn begin(&mut self) {
        (self.len, self.is_nested, self.has_made) = (0, false, false);
        (self.shadows_end, self.gap) = (SHADOWS_START, GAP_BYTES);
    }

    /// Whether nothing that this process was about to use was swapped out since it began.
    pub fn is_calm(&self) -> bool {
        self.gap == GAP_BYTES
    }

    /// More was swapped out meanwhile: what is moved from now on is larger.
    pub fn widen(&mut self) {
        self.gap = self.gap.saturating_mul(1 << GAP_GROWTH);
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn is_nested(&self) -> bool {
        self.is_nested
    }

    /// One after the other, as copies: code that looks at them may relocate more meanwhile.
    pub fn get(&self, index: usize) -> Option<Region> {
        self.regions.get(..self.len)?.get(index).copied()
    }

    /// Where the original has the page, if that is known.
    pub fn original_page(&self, page: usize) -> Option<usize> {
        if !self.has_made {
            return Some(page);
        }
        self.region(page, |_| true).map_or(Some(page), |region| region.original_page_of(page))
    }

    /// The newest region with this page that `wanted` takes.
    pub fn region(&self, page: usize, wanted: impl Fn(&Region) -> bool) -> Option<Region> {
        let regions = self.regions.get(..self.len)?;
        let fits = |region: &&Region| (region.start..region.end).contains(&page) && wanted(region);
        regions.iter().rev().find(fits).copied()
    }

    /// Whether a range can have its shadow there.
    fn has_room(&self, shadow: usize, length: usize) -> bool {
        self.len < REGIONS_MAX && shadow + length <= SHADOWS_END
    }

    fn add(&mut self, region: Region) {
        self.is_nested |=
            self.region(region.start, |_| true).is_some() || self.region(region.end - 1, |_| true).is_some();
        if let Some(place) = self.regions.get_mut(self.len) {
            *place = region;
            self.len += 1;
            self.has_made |= region.made.is_some();
            self.shadows_end = region.shadow + (region.end - region.start);
        }
    }
}

/// Relocates what may have to be waited for. Where that cannot be done, the speculator waits for memory.
pub fn relocate_all(state: &mut State) {
    let Ok(list) = List::read() else { return };
    let stack = &raw const list as usize;
    // A thread besides the main one has what is its own at the end of its stack, whatever stack this runs on.
    let is_main = state.original.thread == state.original.process;
    let other_stack = if is_main { stack } else { thread_pointer() };
    for mapping in list.mappings().flatten() {
        if mapping.has(0, b'r')
            && !mapping.has(2, b'x')
            && mapping.has(3, b'p')
            && ![stack, other_stack].iter().any(|own| (mapping.start..mapping.end).contains(own))
            && !(SHADOWS_START..SHADOWS_END).contains(&mapping.start)
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
            if length >= SHADOWED_BYTES_MIN && nameless && open_all(state) {
                relocate_swapped(state, mapping);
            }
            return;
        }
        let known = state.memory.shadows.region(mapping.start, |region| region.file >= 0).is_some();
        if length < SHADOWED_FILE_BYTES_MIN || known {
            return;
        }
        let Some(file) = shared::open_mapped(mapping) else { return };
        let kept = !is_cached(file, mapping.offset as u64, length as u64)
            && open_all(state)
            && relocate(state, mapping, mapping.start, mapping.end, file, false);
        if !kept {
            kernel::close(file);
        }
    }
}

/// Relocates the ranges of an anonymous mapping that are swapped out, with what little lies between.
///
/// # Safety
/// As [`consider`].
unsafe fn relocate_swapped(state: &mut State, mapping: &Mapping<'_>) {
    let mut found = [const { MaybeUninit::<n::page_region>::uninit() }; SCANNED];
    let (mut from, mut gap, mut ranges) = (mapping.start, state.memory.shadows.gap, 0);
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
                        unsafe { relocate_range(state, mapping, &range) };
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
        unsafe { relocate_range(state, mapping, &range) };
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
unsafe fn relocate_range(state: &mut State, mapping: &Mapping<'_>, range: &Swapped) {
    let holes = !range.whole && has_unused(state.memory.pages, range);
    // SAFETY: the caller's.
    let _ = unsafe { relocate(state, mapping, range.start, range.end, -1, holes) };
}

/// Whether some page of the range was never used, as far as the kernel says.
fn has_unused(pages: isize, range: &Swapped) -> bool {
    let mut found = [const { MaybeUninit::<n::page_region>::uninit() }; 1];
    scan(pages, range.start, range.end, Wanted::OneUnused, &mut found) != Some(0)
}

/// Moves `[start, end)` of the mapping, which is of `file` or anonymous and then perhaps with `holes`.
///
/// # Safety
/// As [`consider`].
unsafe fn relocate(
    state: &mut State,
    mapping: &Mapping<'_>,
    start: usize,
    end_at: usize,
    file: isize,
    holes: bool,
) -> bool {
    let length = end_at - start;
    let shadows = &state.memory.shadows;
    let shadow = shadows.shadows_end.next_multiple_of(SHADOW_ALIGNMENT) + start % SHADOW_ALIGNMENT;
    if !shadows.has_room(shadow, length) {
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
                end(state, End::Jail);
            }
            return false;
        }
    }
    let is_left = file >= 0 && residency::reads_in_its_stride(hints::device(state.header, mapping.device));
    if file >= 0 && !is_left {
        read_nothing_ahead(file, shadow, length);
    }
    let offset = (mapping.offset + (start - mapping.start)) as u64;
    state.memory.shadows.add(Region {
        start,
        end: end_at,
        shadow,
        file,
        is_left,
        offset,
        holes,
        made: None,
        original: start,
    });
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

/// Fills the touches of a mapping of zeros, which the speculator made, from `file`, and takes the file over. Where that
/// cannot be, the mapping stays what it is.
///
/// The original's mapping of that signature will be its place there.
pub fn overlay(state: &mut State, start: usize, length: usize, file: isize, offset: u64, signature: u64) {
    let shadow = state.memory.shadows.shadows_end.next_multiple_of(PAGE);
    let kept = file >= 0
        && state.memory.shadows.has_room(shadow, length.next_multiple_of(PAGE))
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
    let is_left = residency::reads_in_its_stride(hints::device_of(state.header, file));
    if !is_left {
        read_nothing_ahead(file, shadow, length);
    }
    let end = start + length.next_multiple_of(PAGE);
    let made = Some(signature);
    state.memory.shadows.add(Region {
        start,
        end,
        shadow,
        file,
        is_left,
        offset,
        holes: false,
        made,
        original: 0,
    });
}

/// The program unmaps a range: what was overlaid there goes.
pub fn unmapped(state: &mut State, start: usize, length: usize) {
    let shadows = &mut state.memory.shadows;
    let (mut kept, mut index, mut gone) = (0, 0, false);
    while let Some(region) = shadows.get(index) {
        index += 1;
        if region.made.is_some()
            && start <= region.start
            && region.end <= start.saturating_add(length.next_multiple_of(PAGE))
        {
            // SAFETY: nothing but the region led there.
            let _ = unsafe { sys!(n::__NR_munmap, region.shadow, region.end - region.start) };
            kernel::close(region.file);
            gone = true;
            continue;
        }
        if let Some(place) = shadows.regions.get_mut(kept) {
            *place = region;
            kept += 1;
        }
    }
    shadows.len = kept;
    if gone {
        ahead::unmapped(state, start, length);
    }
}

/// Finds the places of this process's mappings in the original, as far as the original has made them too.
pub fn find_made(state: &mut State) {
    let (slot, since) = (state.slot, state.memory.mapped_before);
    let shadows = &mut state.memory.shadows;
    if !shadows.has_made {
        return;
    }
    let regions = shadows.regions.get_mut(..shadows.len).unwrap_or_default();
    for region in regions.iter_mut().filter(|region| region.original == 0) {
        let found = region.made.and_then(|signature| slot.mapped.find(since, signature));
        region.original = found.unwrap_or(0) as usize;
    }
}

/// Makes the first touch of each page of a range a signal.
pub fn register(state: &State, start: usize, length: usize) -> bool {
    let mut register = n::uffdio_register {
        range: n::uffdio_range { start: start as u64, len: length as u64 },
        mode: 1 << 0,
        ioctls: 0,
    };
    // SAFETY: the call reads and fills a local.
    unsafe { sys!(n::__NR_ioctl, state.memory.faults, ioctl::UFFDIO_REGISTER, &raw mut register) == 0 }
}
