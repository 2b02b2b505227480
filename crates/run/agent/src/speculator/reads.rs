//! Calls that read: data of files, entries of directories, offsets and copies.

use core::mem;

use forebay_policy::price::{BEGINNING_BYTES, DIRECTORY_WAIT_US, ENDING_BYTES, OPENED_BYTES};
use forebay_policy::site::{Kind as SiteKind, Strategy};
use forebay_protocol::layout::{End, PathHint, file_system, mark};
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, errno, general as n, memory, sys};

use super::descriptors::{File, FileIndex, Kind};
use super::sequential::Stride;
use super::{
    State, count_predicted, end, hints, kernel, listing, make_mark, memory as program_pages, opening, paths,
    predict, sequential, touch_program,
};
use crate::call::Call;
use crate::{residency, signatures};

/// What one advice starts the device on, at most: the kernel caps it at its read-ahead size.
pub const CHUNK_BYTES: u64 = 128 << 10;
/// Segments of a vector that are looked at.
const SEGMENTS_MAX: usize = 64;

const STUBS_MAX: usize = 4096;

/// Files whose contents do not lead the program to where it will read: they keep their predicted contents, so that
/// the program finds the same each time that it opens one.
pub struct Stubs([u64; STUBS_MAX]);

const IS_BLANK: u64 = 2;

impl Stubs {
    fn place(&mut self, identity: u64) -> Option<&mut u64> {
        self.0.get_mut((identity >> 20) as usize % STUBS_MAX)
    }

    fn add(&mut self, identity: u64, strategy: Strategy) {
        let blank = if strategy == Strategy::Blank { IS_BLANK } else { 0 };
        if let Some(place) = self.place(identity) {
            *place = identity & !IS_BLANK | blank;
        }
    }

    fn get(&mut self, identity: u64) -> Option<Strategy> {
        let found = *self.place(identity)?;
        let strategy = if found & IS_BLANK != 0 { Strategy::Blank } else { Strategy::EndOfFile };
        (found & !IS_BLANK == identity & !IS_BLANK).then_some(strategy)
    }
}

/// Where a read of the program's goes to.
struct Segments {
    vectors: [n::iovec; SEGMENTS_MAX],
    len: usize,
}

impl Segments {
    /// # Safety
    /// As [`super::call`].
    unsafe fn of(call: &Call) -> Self {
        let mut segments = Self {
            vectors: [n::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; SEGMENTS_MAX],
            len: 1,
        };
        let [_, buffer, count, ..] = call.arguments;
        if matches!(call.number as u32, n::__NR_read | n::__NR_pread64) {
            if let Some(first) = segments.vectors.first_mut() {
                *first = n::iovec { iov_base: buffer as *mut _, iov_len: count as u64 };
            }
            return segments;
        }
        segments.len = count.min(SEGMENTS_MAX);
        for (index, vector) in segments.vectors.iter_mut().enumerate().take(segments.len) {
            // SAFETY: the caller's; garbage ends the speculator.
            *vector = unsafe { (buffer as *const n::iovec).add(index).read_unaligned() };
        }
        segments
    }
}

/// `read`, `pread64`, `readv`, `preadv`, `preadv2`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn read(state: &mut State, call: &Call, logged: bool) -> isize {
    let [descriptor, _, _, position, ..] = call.arguments;
    opening::upgrade(state, descriptor, false);
    let Some((index, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    let positioned = match call.number as u32 {
        n::__NR_pread64 | n::__NR_preadv => true,
        n::__NR_preadv2 => position != usize::MAX,
        _ => false,
    };
    let offset = if positioned { position as u64 } else { file.offset };
    match file.kind {
        Kind::Regular | Kind::Unknown => {}
        Kind::Sink => return 0,
        Kind::Directory | Kind::UnknownDirectory => return call::error(errno::EISDIR),
        Kind::Closed => return call::EBADF,
        Kind::Outside => end(state, End::NotEmulated),
    }
    // SAFETY: the caller's.
    let segments = touch_program(state, || unsafe { Segments::of(call) });
    let (mut total, mut mark) = (0, 0);
    for vector in segments.vectors.iter().take(segments.len) {
        let (buffer, count) = (vector.iov_base as usize, vector.iov_len as usize);
        // SAFETY: the caller's.
        let (result, marked) = unsafe { segment(state, call, index, buffer, count, offset + total as u64) };
        mark |= marked;
        if result < 0 {
            if total == 0 {
                return result;
            }
            break;
        }
        total += result as usize;
        if (result as usize) < count {
            break;
        }
    }
    if !positioned && let Some(file) = state.descriptors.at(index) {
        file.offset = offset + total as u64;
    }
    if logged {
        hints::log(state, signatures::read(call), mark);
    }
    total as isize
}

/// Reads one segment: the result and the mark for the log.
///
/// # Safety
/// As [`super::call`].
unsafe fn segment(
    state: &mut State,
    call: &Call,
    index: FileIndex,
    buffer: usize,
    count: usize,
    offset: u64,
) -> (isize, u64) {
    let Some(file) = state.descriptors.at(index).copied() else { return (call::EBADF, 0) };
    let wanted = (count as u64).min(file.size.saturating_sub(offset)) as usize;
    if wanted == 0 {
        return (0, 0);
    }
    // SAFETY: the caller's.
    unsafe { program_pages::touch(state, buffer, wanted) };
    let real = file.real as isize;
    if file.kind == Kind::Unknown {
        // SAFETY: the caller's.
        return unsafe { unknown(state, call, index, buffer, wanted, offset) };
    }
    match state.stubs.get(file.identity) {
        Some(Strategy::Blank) => {
            // SAFETY: the caller's.
            touch_program(state, || unsafe { memory::fill(buffer as *mut u8, b'\n', wanted) });
            return (wanted as isize, 0);
        }
        Some(_) => return (0, 0),
        None => {}
    }
    let stride = sequential::follow(state, index, offset, wanted as u64);
    hints::make_room(state, file.device);
    let read = if stride == Stride::Left {
        call::EAGAIN
    } else {
        // SAFETY: the caller's.
        unsafe { kernel::read_resident(real, buffer, wanted, offset) }
    };
    if read == wanted as isize {
        return (read, sequential_mark(stride));
    }
    if call::is(read, errno::EFAULT) {
        return (read, 0);
    }
    let device = hints::entry(state, file.device);
    let refused = kernel::has_no_such_read(real, read, device);
    let is_there = refused
        && (kernel::is_always_in_memory(real, device)
            || residency::of(real, offset, wanted as u64).unwrap_or(true));
    if is_there || !refused && read < 0 && read != call::EAGAIN {
        // It is in memory, or there is no other way.
        // SAFETY: the caller's.
        return (unsafe { kernel::read_waiting(real, buffer, wanted, offset) }, 0);
    }
    let got = read.max(0) as usize;
    let last = offset + wanted as u64 - 1;
    let missing = wanted - got;
    if stride != Stride::Outside {
        // The device works on it, or will.
    } else if refused {
        request(state, file, offset, wanted as u64);
    } else {
        // The miss has started the device on up to one read-ahead window.
        let mut from = offset + got as u64 + CHUNK_BYTES;
        while from <= last {
            kernel::will_need(real, from, CHUNK_BYTES.min(last + 1 - from));
            from += CHUNK_BYTES;
        }
        hints::departed(state, file.real, file.device, last, missing as u64);
    }
    let (site, strategy) = predict(state, call, SiteKind::Read, detail(offset, count));
    match strategy {
        Strategy::Wait => {
            // SAFETY: the caller's.
            let read = unsafe { kernel::read_waiting(real, buffer, wanted, offset) };
            let mark = match stride {
                Stride::Outside => make_mark(Some(missing), None),
                stride => sequential_mark(stride),
            };
            return (read, mark);
        }
        Strategy::EndOfFile | Strategy::Blank => {
            state.stubs.add(file.identity, strategy);
            hint_whole(state, index);
        }
        _ => {}
    }
    count_predicted(state, site);
    let mark = match stride {
        Stride::Outside => make_mark(Some(missing), site),
        stride => sequential_mark(stride) | make_mark(None, site),
    };
    match strategy {
        Strategy::EndOfFile => (0, mark),
        Strategy::Blank => {
            // SAFETY: the caller's.
            touch_program(state, || unsafe { memory::fill(buffer as *mut u8, b'\n', wanted) });
            (wanted as isize, mark)
        }
        _ => (wanted as isize, mark),
    }
}

/// The mark of a read in sequence.
fn sequential_mark(stride: Stride) -> u64 {
    match stride {
        Stride::Enters => make_mark(Some(CHUNK_BYTES as usize), None) | mark::SEQUENTIAL,
        Stride::Within | Stride::Outside | Stride::Left => 0,
    }
}

/// Starts the device on a range of a file; where that would make this process wait, leaves it to the executor.
pub fn request(state: &mut State, file: File, offset: u64, length: u64) {
    let device = hints::entry(state, file.device);
    let is_left = residency::has(device, file_system::ADVICE_WAITS);
    let mut from = offset;
    while from < offset + length {
        let chunk = CHUNK_BYTES.min(offset + length - from);
        if is_left {
            let mut path = PathBuffer::<{ paths::BYTES }>::new();
            if paths::path_of(state, file.real as isize, &mut path) {
                let _ = hints::path(state, PathHint::Data, path.as_bytes(), from, chunk as u32);
            }
        } else if residency::has(device, file_system::REFUSES_NOWAIT) {
            residency::request(file.real as isize, from, chunk, device);
        } else {
            kernel::will_need(file.real as isize, from, chunk);
        }
        from += chunk;
    }
    if !is_left {
        hints::departed(state, file.real, file.device, offset + length - 1, length);
    }
}

/// Tells apart a header from the rest, and sizes of reads.
pub fn detail(offset: u64, count: usize) -> u64 {
    u64::from(offset == 0) << 8 | u64::from(count.checked_ilog2().unwrap_or(0))
}

/// Hints all of a file that is small, and beginning and end of a large one: the predicted contents will not lead the
/// program to where it will read.
fn hint_whole(state: &mut State, index: FileIndex) {
    let Some(file) = state.descriptors.at(index).copied() else { return };
    let real = file.real as isize;
    let mut ranges = [(0, file.size.min(BEGINNING_BYTES)), (0, 0)];
    if file.size > BEGINNING_BYTES
        && let Some(ending) = ranges.last_mut()
    {
        let start = (file.size - ENDING_BYTES.min(file.size)).max(BEGINNING_BYTES);
        *ending = (start, file.size - start);
    }
    for (start, length) in ranges {
        let mut from = start;
        while from < start + length {
            let chunk = CHUNK_BYTES.min(start + length - from);
            let last = from + chunk - 1;
            if !kernel::is_resident(real, last) || !kernel::is_resident(real, from) {
                request(state, file, from, chunk);
                hints::make_room(state, file.device);
            }
            from += chunk;
        }
    }
}

/// Hints a range of a placeholder that was not hinted when it was opened.
fn hint_placeholder(state: &mut State, index: FileIndex, offset: u64, wanted: usize) {
    if offset + wanted as u64 <= OPENED_BYTES {
        return;
    }
    let mut path = PathBuffer::<{ paths::BYTES }>::new();
    if let Some(known) = state.descriptors.path(index) {
        let _ = path.push(known.as_bytes());
    }
    let length = wanted.max(CHUNK_BYTES as usize) as u32;
    let _ = hints::path(state, PathHint::Data, path.as_bytes(), offset, length);
}

/// Reads from a placeholder.
///
/// # Safety
/// As [`super::call`].
unsafe fn unknown(
    state: &mut State,
    call: &Call,
    index: FileIndex,
    buffer: usize,
    wanted: usize,
    offset: u64,
) -> (isize, u64) {
    let hinted = (!state.paths.forgets_data).then_some(wanted);
    if hinted.is_some() {
        hint_placeholder(state, index, offset, wanted);
    }
    let (site, strategy) = predict(state, call, SiteKind::Read, detail(offset, wanted));
    match strategy {
        Strategy::Wait => {
            let descriptor = call.arguments.first().copied().unwrap_or(usize::MAX);
            opening::upgrade(state, descriptor, true);
            let Some(file) = state.descriptors.at(index).copied() else { return (call::EBADF, 0) };
            if file.real < 0 {
                end(state, End::NotEmulated);
            }
            // SAFETY: the caller's.
            let read = unsafe { kernel::read_waiting(file.real as isize, buffer, wanted, offset) };
            (read, make_mark(hinted, None))
        }
        Strategy::EndOfFile => {
            count_predicted(state, site);
            (0, make_mark(hinted, site))
        }
        Strategy::Blank => {
            count_predicted(state, site);
            // SAFETY: the caller's.
            touch_program(state, || unsafe { memory::fill(buffer as *mut u8, b'\n', wanted) });
            (wanted as isize, make_mark(hinted, site))
        }
        _ => {
            count_predicted(state, site);
            (wanted as isize, make_mark(hinted, site))
        }
    }
}

/// `getdents64`. The kernel has no such call that would not wait, so a directory is read here only after the
/// executor has read it.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn directory(state: &mut State, call: &Call, logged: bool) -> isize {
    let [descriptor, buffer, count, ..] = call.arguments;
    opening::upgrade(state, descriptor, false);
    let Some((index, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    let (kind, ended, ticket) = (file.kind, file.ended, file.ticket.take());
    let was_hinted = mem::take(&mut file.was_hinted);
    let (mut hinted, mut predicted) = (was_hinted.then_some(0), None);
    let mut result = 0;
    if !matches!(kind, Kind::Directory | Kind::UnknownDirectory) {
        return call::error(errno::ENOTDIR);
    }
    if !ended {
        let resident = kind == Kind::Directory
            && ticket.is_none_or(|ticket| hints::carried_out(state, ticket, DIRECTORY_WAIT_US));
        if !resident {
            hinted = Some(0);
            let (site, strategy) = predict(state, call, SiteKind::Directory, 0);
            if strategy == Strategy::Wait {
                opening::upgrade(state, descriptor, true);
            } else {
                // Nothing of it can be seen yet.
                count_predicted(state, site);
                predicted = site;
                if let Some(file) = state.descriptors.at(index) {
                    file.ended = true;
                }
            }
        }
    }
    if state.descriptors.at(index).is_some_and(|file| !file.ended) {
        let Some(real) = listing::open(state, index) else { end(state, End::NotEmulated) };
        let ended = state.descriptors.at(index).is_none_or(|file| file.ended);
        // SAFETY: the caller's.
        result = if ended { 0 } else { unsafe { sys!(call.number, real, buffer, count) } };
        if call.number as u32 == n::__NR_getdents64
            && let Ok(length) = usize::try_from(result)
        {
            // SAFETY: the kernel has filled so much of it.
            unsafe { listing::note_listed(state, descriptor, buffer, length) };
        }
    }
    if logged {
        let earlier = if was_hinted { mark::EARLIER } else { 0 };
        hints::log(state, signatures::read(call), make_mark(hinted, predicted) | earlier);
    }
    result
}

/// `lseek`.
pub fn seek(state: &mut State, descriptor: usize, offset: i64, whence: u32) -> isize {
    opening::upgrade(state, descriptor, false);
    let Some((_, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    if file.kind == Kind::Outside {
        return call::error(errno::ESPIPE);
    }
    let size = file.size as i64;
    let target = match whence {
        n::SEEK_SET => Some(offset),
        n::SEEK_CUR => (file.offset as i64).checked_add(offset),
        n::SEEK_END => size.checked_add(offset),
        // A file is taken for one without holes.
        n::SEEK_DATA if offset < size => Some(offset),
        n::SEEK_HOLE if offset < size => Some(size),
        n::SEEK_DATA | n::SEEK_HOLE => return call::error(errno::ENXIO),
        _ => None,
    };
    match target.and_then(|target| u64::try_from(target).ok()) {
        Some(target) => {
            file.offset = target;
            if file.kind == Kind::Directory && file.named_only {
                file.ended = false;
            } else if file.kind == Kind::Directory {
                file.ended = false;
                let real = file.real;
                // SAFETY: a directory's description is always the speculator's own.
                return unsafe { sys!(n::__NR_lseek, real, target, n::SEEK_SET) };
            }
            target as isize
        }
        None => call::EINVAL,
    }
}

/// `copy_file_range` and `sendfile`: the source is hinted, the count is said to have been copied.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn transfer(state: &mut State, call: &Call, logged: bool) -> isize {
    let [a, b, c, d, e, _] = call.arguments;
    let sends = call.number as u32 == n::__NR_sendfile;
    let (source, offset_at, count) = if sends { (b, c, d) } else { (a, b, e) };
    opening::upgrade(state, source, false);
    let Some((index, file)) = state.descriptors.file(source) else { return call::EBADF };
    if !matches!(file.kind, Kind::Regular | Kind::Unknown) {
        end(state, End::NotEmulated);
    }
    let file = *file;
    let own = offset_at as *mut u64;
    // SAFETY: the caller's.
    let read = || unsafe { own.read_unaligned() };
    let offset = if own.is_null() { file.offset } else { touch_program(state, read) };
    let copied = (count as u64).min(file.size.saturating_sub(offset)).min(BEGINNING_BYTES);
    let mut mark = 0;
    let mut from = offset;
    if file.kind == Kind::Unknown {
        hint_placeholder(state, index, offset, copied as usize);
        mark = make_mark(Some(copied as usize), None);
        from += copied;
    }
    while from < offset + copied {
        let chunk = CHUNK_BYTES.min(offset + copied - from);
        if !kernel::is_resident(file.real as isize, from + chunk - 1) {
            hints::make_room(state, file.device);
            request(state, file, from, chunk);
            mark = make_mark(Some(copied as usize), None);
        }
        from += chunk;
    }
    if own.is_null() {
        if let Some(file) = state.descriptors.at(index) {
            file.offset = offset + copied;
        }
    } else {
        // SAFETY: the caller's.
        touch_program(state, || unsafe { own.write_unaligned(offset + copied) });
    }
    if logged {
        hints::log(state, signatures::read(call), mark);
    }
    copied as isize
}
