//! Memory whose contents would have to be waited for: swapped out, or of mapped files and not resident.
//!
//! Ranges with such memory are relocated, with their page tables, to a *shadow region*. An empty range, registered with
//! userfaultfd, takes their place, so that the first touch of a page is a signal instead of a wait. [`fill`] handles it. A
//! ring keeps the hinted pages until the original has reached them: [`ahead`].

mod ahead;
mod fill;
mod original_copies;
mod pages;
pub mod private_pages;
mod shadows;

pub use fill::fill;
pub use original_copies::tell_copied;
pub use pages::{in_core, is_cached};
pub use shadows::{overlay, unmapped};

use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::{End, feature};
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, errno, general as n, ioctl, sys};

use forebay_policy::balance::{Balance, Prices};
use forebay_policy::lookahead::{self, Alone, Lead};
use forebay_policy::price::{OWN_WAITED_US_MIN, OWN_WAITS_MIN};

use self::pages::entries;
use self::shadows::Shadows;
use super::shared::List;
use super::{State, end, kernel, missing, touch_program, waited};
use crate::snapshot::Circumstances;

pub const PAGE: usize = 4096;
const OF_FILE: u64 = 1 << 61;

/// Relocated ranges, and what is known of their pages.
pub struct Memory {
    faults: isize,
    /// `/proc/<pid>/pagemap` of this process and of the original.
    pages: isize,
    original_pages: isize,
    shadows: Shadows,
    streams: fill::Streams,
    ahead: ahead::Ahead,
    lead: Lead,
    supplied: fill::Supplied,
    confidence: fill::Confidence,
    private: private_pages::PrivatePages,
    copies: original_copies::OriginalCopies,
    /// Page faults of this process that waited when it last looked, but for those it asked for.
    waits_seen: u64,
    waits_wanted: u64,
    serial_waits: Alone,
    waits_max: u64,
    given_back: u64,
    /// What it pays for pages, and earns for hints.
    prices: Prices,
    /// Whether savings pay for speculations of this program.
    is_proven: bool,
    /// Mean stall of the original, in microseconds.
    stall_us: u32,
    /// Hints that the original had used when this speculation began, and stalls that they had saved.
    used_before: u64,
    spared_before: u64,
    /// Files that it had mapped while there was one.
    mapped_before: u64,
}

impl Memory {
    /// Pages that this process may have taken, and gave back again.
    pub fn given_back(&self) -> u64 {
        self.given_back
    }
}

/// Relocates what may have to be waited for. Where that cannot be done, the speculator waits for memory.
pub fn prepare(state: &mut State, circumstances: &Circumstances) {
    state.memory.faults = -1;
    state.memory.shadows.begin();
    state.memory.waits_max = OWN_WAITS_MIN.max(OWN_WAITED_US_MIN / circumstances.stall_us.max(1));
    state.memory.prices = circumstances.prices;
    state.memory.is_proven = circumstances.is_proven;
    state.memory.stall_us = u32::try_from(circumstances.stall_us).unwrap_or(u32::MAX);
    state.memory.lead = Lead::new();
    (state.memory.used_before, state.memory.spared_before) = used_and_spared(state);
    state.memory.mapped_before = circumstances.forked.mapped;
    private_pages::begin(state);
    original_copies::begin(state, &circumstances.forked);
    let mut path = PathBuffer::<40>::new();
    let _ = path.push(b"/proc/") && path.push_number(state.original.process.into()) && path.push(b"/pagemap");
    // Now, because from the jail no other process can be looked at, unless the user is root.
    // SAFETY: a terminated path.
    state.memory.original_pages =
        unsafe { sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_RDONLY | n::O_CLOEXEC) };
    shadows::relocate_all(state);
}

/// Hints that the original has used, and stalls that they have saved it.
fn used_and_spared(state: &State) -> (u64, u64) {
    let counters = &state.slot.counters;
    let used = counters.hints_used.load(Relaxed);
    (used, used.saturating_sub(counters.hints_clustered.load(Relaxed)))
}

/// By what came of this speculation so far.
fn balance(state: &State) -> Balance {
    let (used, spared) = used_and_spared(state);
    Balance {
        prices: state.memory.prices,
        hinted: state.hints.issued,
        used: used.saturating_sub(state.memory.used_before),
        spared: spared.saturating_sub(state.memory.spared_before),
        is_proven: state.memory.is_proven,
    }
}

/// Ends this process where it took too much.
pub fn keep_in_bounds(state: &mut State, usage: &n::rusage) {
    private_pages::keep_in_limit(state, usage);
    let own = (usage.ru_minflt as u64).saturating_sub(state.memory.given_back);
    if !(balance(state).covers_own(own) && original_copies::are_covered(state)) {
        end(state, End::Memory);
    }
}

/// Whether memory is short, so that what this process takes displaces something.
pub fn is_short(state: &State) -> bool {
    state.memory.prices.displaced > 0
}

/// Whether it is not worth it, by what the original has copied, that a copy of this process waits to carry on.
pub fn costs_too_much(state: &mut State) -> bool {
    !original_copies::are_covered(state)
}

/// This process ends, and nothing carries on: tells the original what only it has seen.
pub fn tell_last(state: &State) {
    tell_copied(state);
    ahead::tell_unconsumed(state);
}

/// Takes note of a page that is waited for, at a site, with so many asked for.
fn waits_for(state: &mut State, site: Option<u32>, asked: usize) {
    waited(state, site);
    state.memory.serial_waits.on_wait(asked, state.hints.issued);
    ahead::issued(state, asked);
    if state.memory.serial_waits.is_without_prospect() {
        end(state, End::Lifetime);
    }
}

/// Looks at what this process has taken and waited for: relocates what has been swapped out since, where that made it
/// wait.
fn look(state: &mut State) {
    let usage = super::usage();
    keep_in_bounds(state, &usage);
    let memory = &mut state.memory;
    let waits = (usage.ru_majflt as u64).saturating_sub(memory.waits_wanted);
    if waits.saturating_sub(memory.waits_seen) >= memory.waits_max {
        memory.waits_seen = waits;
        memory.shadows.widen();
        shadows::relocate_all(state);
    }
}

/// Opens what else is needed of the kernel, once.
fn open_all(state: &mut State) -> bool {
    if state.memory.faults >= 0 {
        return true;
    }
    // SAFETY: the call fills a local.
    unsafe {
        let own = page_map();
        if own < 0 || state.memory.original_pages < 0 {
            let originals = state.memory.original_pages;
            let is_gone = own >= 0 && has_ended(originals);
            if !(is_gone || is_for_now(own) || is_for_now(originals)) {
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

/// Whether there is no page map because its process has ended. One that its parent has not waited for still has a number.
fn has_ended(result: isize) -> bool {
    [errno::ESRCH, errno::ENOENT].into_iter().any(|code| call::is(result, code))
}

/// In a copy of a speculator, where no page traps and the page map is another process's: registers and opens them again, and
/// forgets all hints.
pub fn renew(state: &mut State) -> bool {
    let memory = &mut state.memory;
    memory.waits_seen = 0;
    memory.waits_wanted = 0;
    memory.serial_waits = Alone::new();
    memory.given_back = 0;
    private_pages::take_over(state);
    let memory = &mut state.memory;
    if memory.faults < 0 {
        return true;
    }
    for descriptor in [memory.faults, memory.pages] {
        kernel::close(descriptor);
    }
    memory.faults = -1;
    let Ok(list) = List::read() else { return false };
    if !open_all(state) {
        return false;
    }
    for mapping in list.mappings().flatten() {
        if mapping.inode != 0 || !mapping.has(3, b'p') {
            continue;
        }
        let mut index = 0;
        while let Some(region) = state.memory.shadows.get(index) {
            index += 1;
            let (start, end) = (region.start.max(mapping.start), region.end.min(mapping.end));
            if start < end && !shadows::register(state, start, end - start) {
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

/// Whether it may still be behind the original, which goes on fast.
pub fn is_catching_up(state: &State) -> bool {
    !state.memory.shadows.is_empty() && hinted(state) == 0 && lookahead::matters(state.memory.stall_us)
}

/// Whether the original has the page in its memory.
pub fn original_has(state: &State, page: usize) -> bool {
    let original = state.memory.shadows.original_page(page);
    original.is_some_and(|page| is_present(state.memory.original_pages, page))
}

/// Whether a page is in memory, by the page map of its process.
pub fn is_present(pages: isize, page: usize) -> bool {
    let [entry] = entries::<1>(pages, page);
    entry & fill::PRESENT != 0
}

/// Whether a page that is in memory is of a file, or of memory that several processes may share.
pub fn is_of_file(pages: isize, page: usize) -> bool {
    let [entry] = entries::<1>(pages, page);
    entry & OF_FILE != 0
}

/// This process's page map, open; negative where there is none.
pub fn page_map() -> isize {
    // SAFETY: a terminated path.
    unsafe {
        let flags = n::O_RDONLY | n::O_CLOEXEC;
        sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/pagemap".as_ptr(), flags)
    }
}

/// Makes the pages of `[address, address + length)` present that the kernel is about to touch, which it would refuse.
///
/// # Safety
/// The range may be garbage: a fault ends the speculator.
pub unsafe fn touch(state: &mut State, address: usize, length: usize) {
    // Any number may be an address, -1 too: what ends the loops are regions, not the range.
    let Some(end) = address.checked_add(length) else { return };
    let mut index = 0;
    while let Some(region) = state.memory.shadows.get(index) {
        index += 1;
        let pages = (region.start.max(address & !(PAGE - 1))..region.end.min(end)).step_by(PAGE);
        if pages.len() > 0 {
            touch_program(state, || {
                for page in pages {
                    // SAFETY: the caller's.
                    let _ = unsafe { (page as *const u8).read_volatile() };
                }
            });
        }
    }
}

/// Gives the memory of a range of this process's own back: the next touch of it is a fault again.
fn drop_pages(page: usize, count: usize) {
    // SAFETY: advice on this process's own registered range.
    let _ = unsafe { sys!(n::__NR_madvise, page, count * PAGE, n::MADV_DONTNEED) };
}
