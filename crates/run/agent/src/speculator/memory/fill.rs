//! Fills a page of a relocated range when it is touched.
//!
//! * A page that is resident in the shadow region is moved back with its resident neighbours, or copied if it has few.
//! * For a page that is not resident the device is started, and a page of zeros takes its place. The speculator advises the
//!   shadow's swap entry, which shares its place in the swap cache with the original's, or reads the file without waiting.
//! * A page that was never used gets zeros, and no hint. So does one of a file on a device that reads ahead in its own stride.
//!
//! Touches that follow each other in memory make a stream: pages ahead of it are filled at once, twice as many each time.

use core::mem::MaybeUninit;

use forebay_policy::lookahead;
use forebay_policy::price::CONFIDENT_PAGES;
use forebay_policy::site::{Kind, Strategy};
use forebay_protocol::signature::Signature;
use forebay_sigsafe::{call, general as n, ioctl, sys};

use super::pages::{entries, in_core};
use super::shadows::Region;
use super::{PAGE, ahead, drop_pages, look, private_pages, waits_for};
use crate::residency;
use crate::speculator::{State, count_predicted, hints, kernel, strategy_at};

pub const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Pages looked at together, and filled at most ahead of a stream.
pub const BATCH: usize = 64;
/// Resident pages in a row that are moved back instead of copied, and how many at most at once.
const MOVED_MIN: usize = 4;
const MOVED_MAX: usize = 4096;
/// Pages of a file that the kernel maps together, if they are resident (`fault_around_bytes`).
const AROUND: usize = 16;
const STREAMS: usize = 16;
const SUPPLIED_MAX: usize = 4096;
/// Fills between looks at what made this process wait.
const FILLS_A_LOOK: u32 = 16;

/// Sequences of touches that follow each other in memory.
pub struct Streams {
    streams: [Stream; STREAMS],
    turn: usize,
}

#[derive(Clone, Copy)]
struct Stream {
    /// The pages from `low` up to `high` were treated.
    low: usize,
    high: usize,
    window: usize,
}

/// Which pages to treat with one: so many from `first` on.
#[derive(Clone, Copy)]
struct Window {
    first: usize,
    count: usize,
}

impl Streams {
    fn window(&mut self, page: usize, region: &Region) -> Window {
        for stream in &mut self.streams {
            if stream.high == page {
                stream.window = (stream.window * 2).min(BATCH);
                let count = stream.window.min((region.end - page) / PAGE);
                stream.high = page + count * PAGE;
                return Window { first: page, count };
            }
            if stream.low == page + PAGE {
                stream.window = (stream.window * 2).min(BATCH);
                let count = stream.window.min((page - region.start) / PAGE + 1);
                stream.low = page + PAGE - count * PAGE;
                return Window { first: stream.low, count };
            }
        }
        self.turn = (self.turn + 1) % STREAMS;
        if let Some(stream) = self.streams.get_mut(self.turn) {
            *stream = Stream { low: page, high: page + PAGE, window: 1 };
        }
        Window { first: page, count: 1 }
    }
}

/// The place in the program that the last blank pages were for, and what came of them. Where the original has come to
/// many of them, the values there do not matter, and blank pages do where the real ones could be had: that is faster, and
/// a speculator that fell behind gets ahead again.
pub struct Confidence {
    place: usize,
    blanks: u64,
    /// Pages used since.
    pub used: u64,
}

impl Confidence {
    fn add(&mut self, place: usize) {
        if self.place != place {
            *self = Self { place, blanks: 0, used: 0 };
        }
        self.blanks += 1;
    }

    fn covers(&self, place: usize) -> bool {
        self.place == place && self.used >= CONFIDENT_PAGES && self.used * 2 >= self.blanks
    }
}

/// Copies that were made, the oldest of which are dropped first.
pub struct Supplied {
    runs: [(usize, u32); SUPPLIED_MAX],
    first: usize,
    len: usize,
    bytes: u64,
    fills: u32,
    /// The page behind the last ones.
    next: usize,
}

impl Supplied {
    /// What they take.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Fills the page at `address`, which code at `place` touched; `false` where that is none of ours.
pub fn fill(state: &mut State, address: usize, place: usize) -> bool {
    let page = address & !(PAGE - 1);
    state.memory.supplied.fills += 1;
    if state.memory.supplied.fills.is_multiple_of(FILLS_A_LOOK) {
        look(state);
    }
    let pages = state.memory.pages;
    if let Some(region) = state.memory.shadows.region(page, |_| true)
        && region.file < 0
        && !state.memory.shadows.is_nested()
    {
        let [residency] = in_core::<1>(region.shadow_of(page), 1);
        if residency & 1 == 0 {
            let unused = if region.holes { unused_from(state, &region, page) } else { 0 };
            return if unused > 0 { blank(state, page, unused) } else { absent(state, &region, page, place) };
        }
        if state.memory.confidence.covers(place) {
            return blank(state, page, 1);
        }
    }
    let mut oldest = None;
    // What a newer region never held may be in an older one that it was a part of.
    while let Some(region) = state
        .memory
        .shadows
        .region(page, |region| oldest.is_none_or(|oldest: Region| region.shadow < oldest.shadow))
    {
        let shadow = region.shadow_of(page);
        let [entry] = entries::<1>(pages, shadow);
        if entry & PRESENT != 0 {
            return give_back(state, &region, page, place);
        }
        if entry & SWAPPED != 0 {
            return swapped(state, &region, page, place);
        }
        oldest = Some(region);
    }
    match oldest {
        Some(region) if region.is_left => of_file_left(state, &region, page, place),
        Some(region) if region.file >= 0 => of_file(state, &region, page, place),
        Some(_) => blank(state, page, 1),
        None => false,
    }
}

/// How many pages from this one on were never used: blank ones are what the original gets for them, without a wait.
fn unused_from(state: &State, region: &Region, page: usize) -> usize {
    let map = entries::<BATCH>(state.memory.pages, region.shadow_of(page));
    let left = (region.end - page) / PAGE;
    map.iter().take(left).take_while(|&&entry| entry & (PRESENT | SWAPPED) == 0).count()
}

/// The page is resident in the shadow: it comes back, with those behind it that are.
fn give_back(state: &mut State, region: &Region, page: usize, place: usize) -> bool {
    let left = if state.memory.shadows.is_calm() { (region.end - page) / PAGE } else { 1 };
    let mut run = 0;
    while run < left.min(MOVED_MAX) {
        let batch = entries::<BATCH>(state.memory.pages, region.shadow_of(page) + run * PAGE);
        let more = batch.iter().take(left - run).take_while(|&&entry| entry & PRESENT != 0).count();
        run += more;
        if more < BATCH {
            break;
        }
    }
    if run >= MOVED_MIN && move_back(state, region, page, run) {
        return true;
    }
    if state.memory.confidence.covers(place) {
        return blank(state, page, 1);
    }
    supply_run(state, page, region.shadow_of(page), run)
}

/// The page is swapped out, or seemed to be.
fn swapped(state: &mut State, region: &Region, page: usize, place: usize) -> bool {
    let [residency] = in_core::<1>(region.shadow_of(page), 1);
    if residency & 1 == 0 {
        return absent(state, region, page, place);
    }
    bring_in(state, region, page)
}

/// The page is swapped out.
fn absent(state: &mut State, region: &Region, page: usize, place: usize) -> bool {
    let (site, strategy) = strategy(state, place, page);
    let (pages, shadow) = (state.memory.pages, region.shadow_of(page));
    let window = state.memory.streams.window(page, region);
    if window.count == 1 && strategy != Strategy::Wait && ahead::skips(state, page) {
        count_predicted(state, site);
        return blank(state, page, 1);
    }
    let from = region.shadow_of(window.first);
    let (mut done, mut asked) = (false, 0);
    let mut hint = |first: usize, count: usize| {
        // SAFETY: advice on this process's own mapping.
        let _ = unsafe { sys!(n::__NR_madvise, from + first * PAGE, count * PAGE, n::MADV_WILLNEED) };
        let start = window.first + first * PAGE;
        if strategy == Strategy::Wait {
            asked += count;
        } else {
            done |= blank(state, start, count) && (start..start + count * PAGE).contains(&page);
            ahead::remember(state, start, count);
        }
    };
    if window.count == 1 {
        hint(0, 1);
    } else {
        let map = entries::<BATCH>(pages, from);
        let resident = in_core::<BATCH>(from, window.count);
        let missing = |index: usize| {
            map.get(index).is_some_and(|entry| entry & SWAPPED != 0)
                && resident.get(index).is_some_and(|byte| byte & 1 == 0)
        };
        for_runs(window.count, missing, hint);
    }
    if strategy == Strategy::Wait {
        waits_for(state, site, asked);
        state.memory.waits_wanted += 1;
        return supply(state, page, shadow, 1);
    }
    state.memory.confidence.add(place);
    count_predicted(state, site);
    ahead::keep_in_bounds(state);
    done || blank(state, page, 1)
}

/// The page is of a file, and no page table of this process leads to it.
fn of_file(state: &mut State, region: &Region, page: usize, place: usize) -> bool {
    let mut bytes = MaybeUninit::<[u8; PAGE]>::zeroed();
    let buffer = bytes.as_mut_ptr() as usize;
    let offset = region.offset_of(page);
    // SAFETY: a buffer of a page.
    let mut read = unsafe { kernel::read_resident(region.file, buffer, PAGE, offset) };
    if residency::is_refusal(read) {
        let shadow = region.shadow_of(page);
        let [in_memory] = in_core::<1>(shadow, 1);
        let device = hints::device_of(state.header, region.file);
        let _ = kernel::has_no_such_read(region.file, read, device);
        if !kernel::is_always_in_memory(region.file, device) && !residency::is_told(region.file) {
            return false;
        }
        if in_memory & 1 != 0 {
            return map_around(state, region, page) || supply(state, page, shadow, 1);
        }
        kernel::will_need(region.file, offset, PAGE as u64);
        read = call::EAGAIN;
    }
    if read != call::EAGAIN {
        // Where the file ends before, a touch would be the end.
        return read > 0 && map_around(state, region, page) || read >= 0 && supply(state, page, buffer, 1);
    }
    let (site, strategy) = strategy(state, place, page);
    let window = state.memory.streams.window(page, region);
    let length = (window.count * PAGE) as u64;
    if window.count > 1 {
        kernel::will_need(region.file, region.offset_of(window.first), length);
    }
    if strategy == Strategy::Wait {
        waits_for(state, site, window.count);
        // SAFETY: as above.
        read = unsafe { kernel::read_waiting(region.file, buffer, PAGE, offset) };
        return read >= 0 && supply(state, page, buffer, 1);
    }
    let resident = in_core::<BATCH>(region.shadow_of(window.first), window.count);
    let missing = |index: usize| {
        window.first + index * PAGE == page || resident.get(index).is_some_and(|byte| byte & 1 == 0)
    };
    let mut done = false;
    for_runs(window.count, missing, |first, count| {
        let start = window.first + first * PAGE;
        done |= blank(state, start, count) && (start..start + count * PAGE).contains(&page);
        ahead::remember(state, start, count);
    });
    state.memory.confidence.add(place);
    count_predicted(state, site);
    ahead::keep_in_bounds(state);
    done || blank(state, page, 1)
}

/// The page is of a file whose device is left to the kernel's readahead: it is waited for, or zeros take its place and nobody asks for
/// it.
fn of_file_left(state: &mut State, region: &Region, page: usize, place: usize) -> bool {
    let shadow = region.shadow_of(page);
    let [in_memory] = in_core::<1>(shadow, 1);
    if in_memory & 1 != 0 {
        return map_around(state, region, page) || supply(state, page, shadow, 1);
    }
    let (site, strategy) = strategy(state, place, page);
    if strategy == Strategy::Wait {
        waits_for(state, site, 1);
        return supply(state, page, shadow, 1);
    }
    count_predicted(state, site);
    blank(state, page, 1)
}

/// The page is of a file, and resident: moves it back with those behind it that are, if they are enough.
///
/// Which are is seen in the page table. On a touch the kernel maps what is resident around, and that alone; to ask it for
/// the residency of others' files is to be told that all is, and to read ahead without waiting brings in what is not.
fn map_around(state: &mut State, region: &Region, page: usize) -> bool {
    let shadow = region.shadow_of(page);
    // SAFETY: a page of this process's own.
    let _ = unsafe { (shadow as *const u8).read_volatile() };
    let left = (region.end - page) / PAGE;
    let map = entries::<AROUND>(state.memory.pages, shadow);
    let run = map.iter().take(left).take_while(|&&entry| entry & PRESENT != 0).count();
    run >= MOVED_MIN && move_back(state, region, page, run)
}

/// Calls `act` with the first index and the length of each run of indices that `wanted` takes.
fn for_runs(count: usize, wanted: impl Fn(usize) -> bool, mut act: impl FnMut(usize, usize)) {
    let mut first = 0;
    while first < count {
        let run = (first..count).take_while(|&index| wanted(index)).count();
        if run > 0 {
            act(first, run);
        }
        first += run.max(1);
    }
}

fn strategy(state: &mut State, place: usize, page: usize) -> (Option<u32>, Strategy) {
    // Where the kernel puts the program differs among its processes; the place within a page does not.
    let key = Signature::call(u64::MAX).word((place % PAGE) as u64).value();
    strategy_at(state, key, Kind::Fault, Some(page))
}

/// Pages of zeros.
fn blank(state: &State, page: usize, count: usize) -> bool {
    let mut zero = n::uffdio_zeropage {
        range: n::uffdio_range { start: page as u64, len: (count * PAGE) as u64 },
        mode: 0,
        zeropage: 0,
    };
    // SAFETY: the kernel fills empty pages of a registered range, or refuses.
    unsafe {
        sys!(n::__NR_ioctl, state.memory.faults, ioctl::UFFDIO_ZEROPAGE, &raw mut zero) == 0
            || zero.zeropage > 0
    }
}

/// The page is in memory though no page table leads to it: it comes in, with those behind it that are.
fn bring_in(state: &mut State, region: &Region, page: usize) -> bool {
    let left = (region.end - page) / PAGE;
    let shadow = region.shadow_of(page);
    let resident = in_core::<BATCH>(shadow, left);
    let run = resident.iter().take(left).take_while(|&&byte| byte & 1 != 0).count().max(1);
    if run >= MOVED_MIN && state.memory.shadows.is_calm() {
        for index in 0..run {
            // SAFETY: a page of this process's own.
            let _ = unsafe { ((shadow + index * PAGE) as *const u8).read_volatile() };
        }
        if move_back(state, region, page, run) {
            return true;
        }
    }
    supply_run(state, page, shadow, run)
}

/// Moves pages from the shadow back to their place, where they are touched without a signal from now on; unless they
/// would soon be swapped out there, and waited for.
fn move_back(state: &State, region: &Region, page: usize, run: usize) -> bool {
    if !state.memory.shadows.is_calm() {
        return false;
    }
    let (shadow, length) = (region.shadow_of(page), run * PAGE);
    let flags = n::MREMAP_MAYMOVE | n::MREMAP_FIXED;
    // SAFETY: both ranges are this process's own, and nothing depends on what was in that place.
    unsafe { sys!(n::__NR_mremap, shadow, length, length, flags, page) == page as isize }
}

/// Copies a page from `from`, with some of the `run` of them there; but where stalls are so short that the time for these
/// counts, only if the touches follow each other.
fn supply_run(state: &mut State, page: usize, from: usize, run: usize) -> bool {
    let alone = lookahead::matters(state.memory.stall_us) && state.memory.supplied.next != page;
    supply(state, page, from, if alone { 1 } else { run.clamp(1, MOVED_MIN) })
}

/// Copies `count` pages from `from`, as far as their places are empty.
fn supply(state: &mut State, page: usize, from: usize, count: usize) -> bool {
    let room = private_pages::limit_bytes(state) / 2;
    let supplied = &mut state.memory.supplied;
    while supplied.len > 0 && (supplied.bytes >= room || supplied.len == SUPPLIED_MAX) {
        let (start, pages) = supplied.runs.get(supplied.first).copied().unwrap_or((0, 0));
        supplied.first = (supplied.first + 1) % SUPPLIED_MAX;
        supplied.len -= 1;
        supplied.bytes -= u64::from(pages) * PAGE as u64;
        state.memory.private.subtract(pages as usize * PAGE);
        drop_pages(start, pages as usize);
        state.memory.given_back += u64::from(pages);
    }
    let mut copy =
        n::uffdio_copy { dst: page as u64, src: from as u64, len: (count * PAGE) as u64, mode: 0, copy: 0 };
    // SAFETY: the kernel fills empty pages of a registered range, or refuses.
    let result = unsafe { sys!(n::__NR_ioctl, state.memory.faults, ioctl::UFFDIO_COPY, &raw mut copy) };
    let copied = if result == 0 { count } else { copy.copy.max(0) as usize / PAGE };
    let supplied = &mut state.memory.supplied;
    if copied > 0 {
        if let Some(run) = supplied.runs.get_mut((supplied.first + supplied.len) % SUPPLIED_MAX) {
            *run = (page, copied as u32);
        }
        supplied.len += 1;
        supplied.bytes += (copied * PAGE) as u64;
        supplied.next = page + copied * PAGE;
        private_pages::account(state, copied * PAGE);
    }
    copied > 0
}
