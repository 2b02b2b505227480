//! Mappings that the program makes: always private, with what is in memory of a file, else with zeros.

use forebay_policy::price::BEGINNING_BYTES;
use forebay_policy::site::{Kind as SiteKind, Strategy};
use forebay_protocol::layout::End;
use forebay_sigsafe::{call, general as n, sys};

use super::descriptors::{FileIndex, Kind};
use super::reads::{CHUNK_BYTES, detail, request};
use super::{
    State, count_predicted, end, hints, kernel, make_mark, memory as program_pages, opening, predict,
};
use crate::call::Call;
use crate::signatures;

/// Chunks of a mapped file that are looked at.
const ARRIVALS_MAX: usize = 16;

/// `mmap`: always private.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn map(state: &mut State, call: &Call, logged: bool) -> isize {
    let [_, length, protection, flags, descriptor, _] = call.arguments;
    if flags as u32 & n::MAP_ANONYMOUS != 0 {
        program_pages::private_pages::account(state, length);
        // SAFETY: the caller's.
        return unsafe { map_of(call, -1) };
    }
    // Code must be the real one.
    opening::upgrade(state, descriptor, protection as u32 & n::PROT_EXEC != 0);
    let Some((index, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    // SAFETY: the caller's.
    let (result, mark) = unsafe {
        match file.kind {
            Kind::Regular => map_known(state, call, index),
            Kind::Unknown => map_unknown(state, call, index),
            _ => end(state, End::NotEmulated),
        }
    };
    if logged {
        hints::log(state, signatures::mapping(call), mark);
    }
    result
}

/// Maps a file whose look-up is done: memory with its contents where they are resident, else with zeros while the device
/// works on them.
///
/// # Safety
/// As [`super::call`].
unsafe fn map_known(state: &mut State, call: &Call, index: FileIndex) -> (isize, u64) {
    let [_, length, protection, _, _, offset] = call.arguments;
    let Some(file) = state.descriptors.at(index).copied() else { return (call::EBADF, 0) };
    let (real, offset) = (file.real as isize, offset as u64);
    if kernel::is_of_huge_pages(real, hints::entry(state, file.device)) {
        end(state, End::NotEmulated);
    }
    let missing = (length as u64).min(file.size.saturating_sub(offset));
    if missing == 0 || program_pages::is_cached(real, offset, missing) && has_arrived(real, offset, missing) {
        // SAFETY: the caller's.
        return (unsafe { map_of(call, real) }, 0);
    }
    let mut from = offset;
    while from < offset + missing.min(BEGINNING_BYTES) {
        let chunk = CHUNK_BYTES.min(offset + missing - from);
        hints::make_room(state, file.device);
        request(state, file, from, chunk);
        from += chunk;
    }
    let (site, strategy) = predict(state, call, SiteKind::Read, detail(offset, length));
    if strategy == Strategy::Wait || protection as u32 & n::PROT_EXEC != 0 {
        // SAFETY: the caller's.
        return (unsafe { map_of(call, real) }, make_mark(Some(missing as usize), None));
    }
    count_predicted(state, site);
    // SAFETY: the caller's.
    let result = unsafe { map_of(call, -1) };
    if missing > BEGINNING_BYTES && result > 0 {
        let file = kernel::open_found(state.descriptors.folder, real);
        let signature = signatures::mapping(call);
        program_pages::overlay(state, result as usize, length, file, offset, signature);
    }
    (result, make_mark(Some(missing as usize), site))
}

/// Whether the device is through with a range that is in the page cache: one that the original waits for is there too,
/// and a speculator that touched it would wait as long. Reads arrive a chunk at a time.
fn has_arrived(file: isize, offset: u64, length: u64) -> bool {
    let mut ends = (offset..offset + length).step_by(CHUNK_BYTES as usize).skip(1).take(ARRIVALS_MAX);
    kernel::is_resident(file, offset)
        && ends.all(|end| kernel::is_resident(file, end - 1))
        && kernel::is_resident(file, offset + length - 1)
}

/// Maps a placeholder.
///
/// # Safety
/// As [`super::call`].
unsafe fn map_unknown(state: &mut State, call: &Call, index: FileIndex) -> (isize, u64) {
    let [_, length, _, _, descriptor, offset] = call.arguments;
    let (site, strategy) = predict(state, call, SiteKind::Read, detail(offset as u64, length));
    if strategy == Strategy::Wait {
        opening::upgrade(state, descriptor, true);
        return match state.descriptors.at(index) {
            // SAFETY: the caller's.
            Some(file) if file.kind == Kind::Regular => unsafe { map_known(state, call, index) },
            _ => end(state, End::NotEmulated),
        };
    }
    count_predicted(state, site);
    // SAFETY: the caller's.
    (unsafe { map_of(call, -1) }, make_mark(Some(length), site))
}

/// Makes the mapping that the program asks for, of another file, or of none: then all of it is zeros. Pages of the system's pool of
/// huge ones would be missing there for the program, and locked ones in memory.
///
/// # Safety
/// The program's own call, in a memory of its own.
unsafe fn map_of(call: &Call, file: isize) -> isize {
    let [address, length, protection, flags, _, offset] = call.arguments;
    const HUGE: u32 = n::MAP_HUGETLB | n::MAP_HUGE_MASK << n::MAP_HUGE_SHIFT;
    let flags = flags as u32 & !(n::MAP_TYPE | HUGE | n::MAP_LOCKED) | n::MAP_PRIVATE;
    let (flags, offset) = if file < 0 { (flags | n::MAP_ANONYMOUS, 0) } else { (flags, offset) };
    // SAFETY: the caller's.
    unsafe { sys!(n::__NR_mmap, address, length, protection, flags, file, offset) }
}
