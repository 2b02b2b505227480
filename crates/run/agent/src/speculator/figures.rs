//! Calls that ask what a path or an open file is: stat, access, readlink.

use core::mem::MaybeUninit;

use forebay_policy::price::SIZE_PREDICTED;
use forebay_policy::site::Kind as SiteKind;
use forebay_protocol::layout::{PathHint, file_system};
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, general as n, sys, ticks};

use super::descriptors::{FileIndex, Kind};
use super::opening::upgrade;
use super::paths::{self, AT, BYTES, Found, find, number};
use super::told::Claim;
use super::{State, hints, kernel, touch_program};
use crate::call::Call;
use crate::{attributes, residency};

/// Predicted figures of a file or directory with this number.
fn predicted_stat(state: &State, directory: bool, number: u64) -> n::stat {
    // SAFETY: a structure of integers, whose zeroes are valid.
    let mut stat = unsafe { MaybeUninit::<n::stat>::zeroed().assume_init() };
    stat.st_dev = state.paths.device;
    stat.st_mode = if directory { n::S_IFDIR | 0o755 } else { n::S_IFREG | 0o644 };
    stat.st_nlink = if directory { 2 } else { 1 };
    stat.st_size = SIZE_PREDICTED as _;
    stat.st_blksize = 4096;
    stat.st_blocks = (SIZE_PREDICTED / 512) as _;
    stat.st_ino = if number == 0 { ticks() } else { number };
    stat
}

/// Puts the number that the program was told before, if it was, in place of the real one.
const fn name(stat: &mut n::stat, number: u64) {
    if number != 0 {
        stat.st_ino = number;
    }
}

/// # Safety
/// As [`super::call`].
unsafe fn is_empty(state: &mut State, path: usize) -> bool {
    // SAFETY: the caller's.
    path == 0 || touch_program(state, || unsafe { (path as *const u8).read() }) == 0
}

/// `stat`, `lstat` and `newfstatat`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn stat(
    state: &mut State,
    call: &Call,
    directory: usize,
    path: usize,
    out: usize,
    flags: u32,
) -> isize {
    // SAFETY: the caller's.
    unsafe {
        if flags & n::AT_EMPTY_PATH != 0 && is_empty(state, path) {
            return stat_descriptor(state, directory, out);
        }
        match figures(state, call, directory, path, flags) {
            Figures::Error(error) => error,
            Figures::Predicted(stat) => tell(state, stat, out),
            Figures::Known { file, number } => {
                let result = tell_known(state, file, number, out);
                kernel::close(file);
                result
            }
        }
    }
}

/// What the program is told of a path.
enum Figures {
    /// The call fails.
    Error(isize),
    /// No file system has these.
    Predicted(n::stat),
    /// Those of a file that has been opened to be asked. The program knows it by this number, unless that is 0.
    Known { file: isize, number: u64 },
}

/// Looks for a path, and for the file behind a link at its end unless `flags` say otherwise.
///
/// # Safety
/// As [`super::call`].
unsafe fn figures(state: &mut State, call: &Call, directory: usize, path: usize, flags: u32) -> Figures {
    let kept = if flags & n::AT_SYMLINK_NOFOLLOW != 0 { n::O_NOFOLLOW } else { 0 };
    let hint_kind = if kept != 0 { PathHint::LookupNoFollow } else { PathHint::Lookup };
    // SAFETY: the caller's.
    unsafe {
        match find(state, call, directory, path, kept, SiteKind::Stat, hint_kind) {
            Found::Error(error) => Figures::Error(error),
            Found::Predicted(_) => {
                let number = paths::tell(state, directory, path, Claim::Predicted).unwrap_or(0);
                Figures::Predicted(predicted_stat(state, false, number))
            }
            Found::Made { directory: is_directory } => {
                let number = number(state, directory, path);
                Figures::Predicted(predicted_stat(state, is_directory, number))
            }
            Found::File(file) => Figures::Known { file, number: number(state, directory, path) },
        }
    }
}

/// Tells the program figures of a file.
///
/// # Safety
/// `out` is where the program wants them.
unsafe fn tell(state: &mut State, stat: n::stat, out: usize) -> isize {
    // SAFETY: the caller's; garbage ends the speculator.
    touch_program(state, || unsafe { (out as *mut n::stat).write_unaligned(stat) });
    0
}

/// Tells the program what the kernel knows of an open file.
///
/// # Safety
/// As [`tell`].
unsafe fn tell_known(state: &mut State, file: isize, number: u64, out: usize) -> isize {
    let Some(mut stat) = attributes::of(file) else { return call::EBADF };
    state.paths.found_on(hints::device(state.header, stat.st_dev));
    name(&mut stat, number);
    // SAFETY: the caller's.
    unsafe { tell(state, stat, out) }
}

/// `fstat`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn stat_descriptor(state: &mut State, descriptor: usize, out: usize) -> isize {
    if descriptor as i32 == n::AT_FDCWD {
        // SAFETY: the caller's.
        return unsafe { sys!(n::__NR_newfstatat, AT, c".".as_ptr(), out, 0) };
    }
    upgrade(state, descriptor, false);
    let Some((index, file)) = state.descriptors.file(descriptor as u32 as usize) else { return call::EBADF };
    let file = *file;
    if file.real >= 0 {
        if state.descriptors.last_stat.0 != file.real as isize {
            // SAFETY: the caller's.
            return unsafe { tell_known(state, file.real as isize, file.number, out) };
        }
        let mut stat = state.descriptors.last_stat.1;
        name(&mut stat, file.number);
        // SAFETY: the caller's.
        return unsafe { tell(state, stat, out) };
    }
    let stat = placeholder_stat(state, index);
    // SAFETY: the caller's.
    unsafe { tell(state, stat, out) }
}

/// Figures of an open file that has no real descriptor.
fn placeholder_stat(state: &mut State, index: FileIndex) -> n::stat {
    let Some(file) = state.descriptors.at(index).copied() else { return predicted_stat(state, false, 0) };
    let is_file = file.kind == Kind::Unknown;
    if is_file && residency::has(hints::entry(state, file.device), file_system::REMOTE) {
        let known = known_stat(state, index, file.flags);
        if let Some(mut stat) = known {
            name(&mut stat, file.number);
            return stat;
        }
    }
    let mut number = file.number;
    if number == 0 && matches!(file.kind, Kind::Unknown | Kind::UnknownDirectory) {
        let mut path = PathBuffer::<BYTES>::new();
        let known = state.descriptors.path(index).is_some_and(|known| path.push(known.as_bytes()));
        if known {
            number = state.told.tell(path.as_bytes(), Claim::Predicted);
        }
        if let Some(file) = state.descriptors.at(index) {
            file.number = number;
        }
    }
    let mut stat = predicted_stat(state, file.kind == Kind::UnknownDirectory, number);
    match file.kind {
        Kind::Outside => stat.st_mode = n::S_IFIFO | 0o600,
        Kind::Sink => stat.st_size = file.size as _,
        _ => {}
    }
    stat
}

/// What the kernel knows of a placeholder of a remote file system.
fn known_stat(state: &mut State, index: FileIndex, flags: u32) -> Option<n::stat> {
    let kept = flags & (n::O_NOFOLLOW | n::O_DIRECTORY);
    let path = state.descriptors.path(index)?.as_ptr() as usize;
    // SAFETY: the table's own terminated path.
    let found = unsafe { kernel::find(AT as isize, path, kept) };
    let stat = attributes::of(found);
    if found >= 0 {
        kernel::close(found);
    }
    stat
}

/// `statx`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn statx(state: &mut State, call: &Call) -> isize {
    let [directory, path, flags, mask, out, _] = call.arguments;
    let flags = flags as u32;
    // SAFETY: the caller's.
    unsafe {
        if flags & n::AT_EMPTY_PATH != 0 && is_empty(state, path) && directory as i32 != n::AT_FDCWD {
            upgrade(state, directory, false);
            let Some((index, file)) = state.descriptors.file(directory as u32 as usize) else {
                return call::EBADF;
            };
            let (real, number) = (file.real as isize, file.number);
            if real >= 0 {
                return tell_statx(state, real, mask, number, out);
            }
            let stat = placeholder_stat(state, index);
            return tell_as_statx(state, &stat, out);
        }
        match figures(state, call, directory, path, flags) {
            Figures::Error(error) => error,
            Figures::Predicted(stat) => tell_as_statx(state, &stat, out),
            Figures::Known { file, number } => {
                let result = tell_statx(state, file, mask, number, out);
                kernel::close(file);
                result
            }
        }
    }
}

/// Tells the program what the kernel knows of an open file, as `statx` does.
///
/// # Safety
/// As [`tell`].
unsafe fn tell_statx(state: &mut State, file: isize, mask: usize, number: u64, out: usize) -> isize {
    let flags = n::AT_EMPTY_PATH | n::AT_STATX_DONT_SYNC;
    // SAFETY: (both) the caller's; garbage ends the speculator.
    let result = unsafe { sys!(n::__NR_statx, file, c"".as_ptr(), flags, mask, out) };
    if result == 0 && number != 0 {
        // SAFETY: the kernel has just filled it.
        touch_program(state, || unsafe {
            (&raw mut (*(out as *mut n::statx)).stx_ino).write_unaligned(number);
        });
    }
    result
}

/// Tells the program figures that no file system has.
///
/// # Safety
/// As [`tell`].
unsafe fn tell_as_statx(state: &mut State, stat: &n::stat, out: usize) -> isize {
    // SAFETY: a structure of integers, whose zeroes are valid.
    let mut statx = unsafe { MaybeUninit::<n::statx>::zeroed().assume_init() };
    statx.stx_mask = n::STATX_BASIC_STATS;
    statx.stx_mode = stat.st_mode as u16;
    statx.stx_nlink = stat.st_nlink as u32;
    statx.stx_size = stat.st_size as u64;
    statx.stx_blksize = stat.st_blksize as u32;
    statx.stx_blocks = stat.st_blocks as u64;
    statx.stx_ino = stat.st_ino;
    (statx.stx_dev_major, statx.stx_dev_minor) = attributes::major_and_minor(stat.st_dev);
    // SAFETY: the caller's; garbage ends the speculator.
    touch_program(state, || unsafe { (out as *mut n::statx).write_unaligned(statx) });
    0
}

/// `access` and `faccessat`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn access(state: &mut State, call: &Call, directory: usize, path: usize, mode: usize) -> isize {
    // SAFETY: the caller's.
    unsafe {
        match find(state, call, directory, path, 0, SiteKind::Stat, PathHint::Lookup) {
            Found::Error(error) => error,
            Found::Predicted(_) | Found::Made { .. } => 0,
            Found::File(found) => {
                let result = sys!(n::__NR_faccessat2, found, c"".as_ptr(), mode, n::AT_EMPTY_PATH);
                kernel::close(found);
                result
            }
        }
    }
}

/// `readlink` and `readlinkat`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn readlink(
    state: &mut State,
    call: &Call,
    directory: usize,
    path: usize,
    out: usize,
    count: usize,
) -> isize {
    // SAFETY: the caller's.
    unsafe {
        match find(state, call, directory, path, n::O_NOFOLLOW, SiteKind::Stat, PathHint::LookupNoFollow) {
            Found::Error(error) => error,
            // Most paths that are asked about are no links.
            Found::Predicted(_) | Found::Made { .. } => call::EINVAL,
            Found::File(found) => {
                let is_link =
                    attributes::of(found).is_some_and(|stat| stat.st_mode & n::S_IFMT == n::S_IFLNK);
                let result = if is_link {
                    sys!(n::__NR_readlinkat, found, c"".as_ptr(), out, count)
                } else {
                    call::EINVAL
                };
                kernel::close(found);
                result
            }
        }
    }
}
