//! Files that the program opens: the speculator opens what was found, makes a sink of what the program would write, and a placeholder
//! of what was predicted. A placeholder turns into the file once its look-up is warm.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::price::{OPENED_BYTES, SIZE_PREDICTED};
use forebay_policy::site::{Kind as SiteKind, Strategy};
use forebay_protocol::layout::{End, LEASES_UNKNOWN, PathHint, file_system};
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, errno, general as n};

use super::descriptors::{self, File, FileIndex, Kind};
use super::listing::{self, Hinted};
use super::paths::{AT, Found, absolute, ahead, find, log, make, number};
use super::told::{Claim, Told};
use super::{State, abandoned, count_predicted, end, hints, kernel, predict, touch_program};
use crate::call::Call;
use crate::{attributes, residency};

/// Opens that would change something.
const CHANGING: u32 = n::O_CREAT | n::O_TRUNC;
const LEASES_PAUSE_US: i64 = 100;

/// `open` and its kin.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn open(state: &mut State, call: &Call, directory: usize, path: usize, flags: u32) -> isize {
    let writes = flags & n::O_ACCMODE == n::O_WRONLY;
    if writes || flags & CHANGING != 0 || flags & n::O_TMPFILE == n::O_TMPFILE {
        let mut file = descriptors::opened(Kind::Sink, -1, flags);
        if flags & n::O_CREAT != 0 && flags & n::O_TMPFILE != n::O_TMPFILE {
            // SAFETY: the caller's.
            file.number = unsafe { make(state, directory, path, Claim::File) }.unwrap_or(0);
        }
        // SAFETY: the caller's.
        unsafe { log(state, call, false, None) };
        return add(state, file);
    }
    let wants_directory = flags & n::O_DIRECTORY != 0;
    let kept = flags & (n::O_NOFOLLOW | n::O_DIRECTORY);
    // What is opened is nearly always read.
    let hint_kind = if wants_directory { PathHint::Directory } else { PathHint::Data };
    // SAFETY: the caller's.
    match unsafe { find(state, call, directory, path, kept, SiteKind::Open, hint_kind) } {
        Found::Error(error) => error,
        Found::Made { directory: true } => {
            let mut file = descriptors::opened(Kind::UnknownDirectory, -1, flags);
            file.ended = true;
            // SAFETY: the caller's.
            unsafe { add_with_path(state, file, directory, path) }
        }
        Found::Made { directory: false } => {
            let mut file = descriptors::opened(Kind::Sink, -1, flags);
            // SAFETY: the caller's.
            file.number = unsafe { number(state, directory, path) };
            add(state, file)
        }
        Found::Predicted(ticket) => {
            let kind = if wants_directory { Kind::UnknownDirectory } else { Kind::Unknown };
            let mut file = descriptors::opened(kind, -1, flags);
            file.size = SIZE_PREDICTED;
            file.ticket = ticket;
            // SAFETY: the caller's.
            unsafe { add_with_path(state, file, directory, path) }
        }
        Found::File(found) => {
            // SAFETY: the caller's.
            if let Some(file) = unsafe { defer(state, call, found, directory, path, flags) } {
                kernel::close(found);
                // SAFETY: the caller's.
                return unsafe { add_with_path(state, file, directory, path) };
            }
            let result = open_found(state, found, flags);
            kernel::close(found);
            match result {
                // SAFETY: the caller's.
                Ok(file) if file.kind == Kind::Directory => unsafe {
                    add_with_path(state, file, directory, path)
                },
                Ok(file) => {
                    // SAFETY: the caller's.
                    let number = unsafe { number(state, directory, path) };
                    add(state, File { number, ..file })
                }
                Err(error) => error,
            }
        }
    }
}

/// Leaves the opening of a file to the executor: on a remote file system, where that is a request, and while no file may be
/// opened yet, where its data can hardly be in memory. Gives a placeholder for it.
///
/// # Safety
/// `path` is garbage or terminated.
unsafe fn defer(
    state: &mut State,
    call: &Call,
    found: isize,
    directory: usize,
    path: usize,
    flags: u32,
) -> Option<File> {
    let stat = attributes::of(found).filter(|stat| stat.st_mode & n::S_IFMT == n::S_IFREG)?;
    let device = hints::device_index(state.header, stat.st_dev);
    state.paths.found_on(hints::entry(state, device));
    let waits_for_leases = state.header.leases.load(Relaxed) == LEASES_UNKNOWN && state.paths.was_cold();
    if !state.paths.on_remote && !waits_for_leases {
        return None;
    }
    let (site, strategy) = predict(state, call, SiteKind::Open, 0);
    let mut whole = PathBuffer::new();
    // SAFETY: the caller's.
    if strategy == Strategy::Wait || !unsafe { absolute(state, directory, path, &mut whole) } {
        return None;
    }
    let length = OPENED_BYTES as u32;
    // SAFETY: the caller's.
    let open = unsafe { ahead(state, call) };
    let ticket = hints::open(state, whole.as_bytes(), length, open)?;
    count_predicted(state, site);
    let mut file = descriptors::opened(Kind::Unknown, -1, flags);
    file.size = stat.st_size as u64;
    file.ticket = Some(ticket);
    file.device = device;
    Some(file)
}

/// Waits until it is known that no process holds a lease, which opening a file would break.
fn await_leases(state: &mut State) {
    while state.header.leases.load(Relaxed) == LEASES_UNKNOWN {
        if abandoned(state) || !hints::original_lives(state) {
            end(state, End::Abandoned);
        }
        kernel::pause(LEASES_PAUSE_US);
    }
    if abandoned(state) {
        end(state, End::Abandoned);
    }
}

/// Opens what was found, if it is a regular file or directory.
fn open_found(state: &mut State, found: isize, flags: u32) -> Result<File, isize> {
    let stat = attributes::of(found).ok_or(call::EBADF)?;
    state.descriptors.last_stat = (-1, stat);
    let kind = match stat.st_mode & n::S_IFMT {
        n::S_IFREG => {
            await_leases(state);
            Kind::Regular
        }
        n::S_IFDIR => Kind::Directory,
        n::S_IFLNK => return Err(call::error(errno::ELOOP)),
        _ => return Ok(descriptors::opened(Kind::Outside, -1, flags)),
    };
    let device = hints::device_index(state.header, stat.st_dev);
    state.paths.found_on(hints::entry(state, device));
    let named_only = kind == Kind::Directory && state.paths.on_remote;
    let real = if named_only {
        kernel::name_found(state.descriptors.folder, found)
    } else {
        kernel::open_found(state.descriptors.folder, found)
    };
    if real < 0 {
        return Err(real);
    }
    state.descriptors.last_stat.0 = real;
    let mut file = descriptors::opened(kind, real, flags);
    file.named_only = named_only;
    file.size = stat.st_size as u64;
    file.identity = descriptors::identity(stat.st_dev, stat.st_ino);
    file.device = device;
    Ok(file)
}

fn add(state: &mut State, file: File) -> isize {
    let real = file.real;
    match state.descriptors.add(file, 0) {
        Some((descriptor, _)) => descriptor as isize,
        None => {
            if real >= 0 {
                kernel::close(real as isize);
            }
            call::error(errno::EMFILE)
        }
    }
}

/// Adds a directory or placeholder, whose path later hints need. A directory's entries are hinted at once.
///
/// # Safety
/// `path` is garbage or terminated.
unsafe fn add_with_path(state: &mut State, file: File, directory: usize, path: usize) -> isize {
    let mut whole = PathBuffer::new();
    // SAFETY: the caller's.
    let known = unsafe { absolute(state, directory, path, &mut whole) };
    let descriptor = add(state, file);
    let Ok(place) = usize::try_from(descriptor) else { return descriptor };
    let (mut ticket, mut was_hinted) = (file.ticket, false);
    if known && file.kind == Kind::Directory {
        // A listing of a remote file system brings nothing of its folders into memory.
        if state.paths.on_remote {
            if !state.listed.descends {
                ticket = hints::path(state, PathHint::Directory, whole.as_bytes(), 0, 0);
            }
        } else {
            match listing::enter(state, whole.as_bytes()) {
                Hinted::Before => was_hinted = true,
                Hinted::Now(hint) => ticket = hint,
            }
        }
    }
    let claim = if known { state.told.of(whole.as_bytes()) } else { None };
    if let Some((index, file)) = state.descriptors.file(place) {
        file.ticket = ticket;
        file.was_hinted = was_hinted;
        file.number = claim.map_or(0, |_| Told::number(whole.as_bytes()));
        if let Some(path) = state.descriptors.path(index)
            && known
        {
            path.clear();
            let _ = path.push(whole.as_bytes());
        }
    }
    descriptor
}

/// `openat2`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn open_how(state: &mut State, call: &Call) -> isize {
    let [directory, path, how, size, ..] = call.arguments;
    if size < size_of::<n::open_how>() || how == 0 {
        return call::EINVAL;
    }
    // SAFETY: the caller's.
    let flags = touch_program(state, || unsafe { (how as *const n::open_how).read_unaligned() }).flags;
    // SAFETY: the caller's.
    unsafe { open(state, call, directory, path, flags as u32) }
}

/// A placeholder whose look-up has become warm turns into the file.
pub fn upgrade(state: &mut State, descriptor: usize, wait: bool) {
    let Some((index, file)) = state.descriptors.file(descriptor) else { return };
    let (flags, device) = (file.flags, file.device);
    if !matches!(file.kind, Kind::Unknown | Kind::UnknownDirectory) {
        return;
    }
    let is_remote = residency::has(hints::entry(state, device), file_system::REMOTE);
    if !wait && (is_remote || state.header.leases.load(Relaxed) == LEASES_UNKNOWN) {
        return;
    }
    let Some(path) = state.descriptors.path(index) else { return };
    if path.is_empty() {
        return;
    }
    let path = path.as_ptr() as usize;
    let kept = flags & (n::O_NOFOLLOW | n::O_DIRECTORY);
    // SAFETY: the table's own terminated path.
    let found = unsafe {
        if wait {
            kernel::find_waiting(AT as isize, path, kept)
        } else {
            kernel::find(AT as isize, path, kept)
        }
    };
    if found < 0 {
        return;
    }
    if !wait && know_remote(state, index, found) {
        kernel::close(found);
        return;
    }
    if let Ok(real) = open_found(state, found, flags)
        && let Some(file) = state.descriptors.at(index)
    {
        let File { references, offset, ticket, number, .. } = *file;
        *file = File { references, offset, ticket, number, ..real };
    }
    kernel::close(found);
}

/// A placeholder was found: takes note of its figures, if it is a file of a remote file system, and so stays a placeholder.
fn know_remote(state: &mut State, index: FileIndex, found: isize) -> bool {
    let regular = |stat: &n::stat| stat.st_mode & n::S_IFMT == n::S_IFREG;
    let Some(stat) = attributes::of(found).filter(regular) else { return false };
    let device = hints::device_index(state.header, stat.st_dev);
    if !residency::has(hints::entry(state, device), file_system::REMOTE) {
        return false;
    }
    if let Some(file) = state.descriptors.at(index) {
        file.size = stat.st_size as u64;
        file.device = device;
    }
    true
}
