//! Paths that are looked up, and made the working directory.
//!
//! A path is first looked up as far as that needs no device. A cold one becomes a hint to the executor, and the record of the
//! call site decides between a predicted result and waiting.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::price::OPENED_BYTES;
use forebay_policy::site::{Kind as SiteKind, Strategy};
use forebay_protocol::layout::{Device, End, PATH_BYTES, PathHint, file_system, open_key, shown_flags};
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, errno, general as n, sys, text, ticks};

use super::descriptors::Kind;
use super::hints::Open;
use super::listing::{self, Entry};
use super::told::{Claim, Told};
use super::{State, count_predicted, end, hints, kernel, make_mark, opening, predict, touch_program};
use crate::call::Call;
use crate::{residency, signatures};

/// Room for a path with its terminator.
pub const BYTES: usize = PATH_BYTES + 1;

pub const AT: usize = n::AT_FDCWD as usize;
const COLD: isize = call::EAGAIN;

/// What is known for looking paths up.
pub struct Paths {
    /// Working directory, empty until it is asked for.
    directory: PathBuffer<BYTES>,
    /// Whether cold paths are looked up here or by the executor.
    own_look_ups: OwnLookUps,
    /// Whether the last file that was found is on a remote file system, and that is asked for nothing any more.
    pub on_remote: bool,
    on_closed: bool,
    /// Whether that file system loses the data of a file that is opened again.
    pub forgets_data: bool,
    /// Its `st_dev`, which the next file probably has.
    pub device: u64,
}

impl Paths {
    /// Whether the last path was a cold one, or one among such.
    pub const fn was_cold(&self) -> bool {
        self.own_look_ups.was_cold
    }

    /// A file of this device was found.
    pub fn found_on(&mut self, device: Option<&Device>) {
        self.device = device.map_or(self.device, |device| device.id.load(Relaxed).wrapping_sub(1));
        self.on_remote = residency::has(device, file_system::REMOTE);
        self.on_closed = residency::has(device, file_system::CLOSED);
        self.forgets_data = residency::has(device, file_system::FORGETS_DATA);
    }
}

/// A path as the kernel and the executor are told it.
struct Target {
    directory: isize,
    path: usize,
    /// For a path below a placeholder: the whole path, which `path` points to.
    composed: PathBuffer<BYTES>,
}

/// Where a path of the program's leads.
///
/// # Safety
/// `path` is garbage or terminated.
unsafe fn target(state: &mut State, directory: usize, path: usize, out: &mut Target) -> Result<(), isize> {
    if path == 0 {
        return Err(call::error(errno::EFAULT));
    }
    out.path = path;
    out.directory = AT as isize;
    // SAFETY: the caller's; garbage ends the speculator.
    let relative = touch_program(state, || unsafe { (path as *const u8).read() }) != b'/';
    if !relative || directory as i32 == n::AT_FDCWD {
        return Ok(());
    }
    let (index, file) = state.descriptors.file(directory as u32 as usize).ok_or(call::EBADF)?;
    match file.kind {
        Kind::UnknownDirectory => {
            let base = state.descriptors.path(index).ok_or(call::EBADF)?;
            let fits = out.composed.push(base.as_bytes()) && out.composed.push(b"/");
            // SAFETY: the caller's.
            if !fits || !unsafe { push_program_path(state, &mut out.composed, path) } {
                return Err(call::error(errno::ENAMETOOLONG));
            }
            out.path = out.composed.as_ptr() as usize;
        }
        _ if file.real >= 0 => out.directory = file.real as isize,
        _ => return Err(call::error(errno::ENOTDIR)),
    }
    Ok(())
}

/// The path as the executor can use it: absolute.
///
/// # Safety
/// As [`target`].
pub unsafe fn absolute(
    state: &mut State,
    directory: usize,
    path: usize,
    whole: &mut PathBuffer<BYTES>,
) -> bool {
    // SAFETY: the caller's.
    if touch_program(state, || unsafe { (path as *const u8).read() }) == b'/' {
        // SAFETY: the caller's.
        return unsafe { push_program_path(state, whole, path) };
    }
    if directory as i32 == n::AT_FDCWD {
        if state.paths.directory.is_empty() {
            let mut bytes = [0u8; BYTES];
            // SAFETY: the call fills at most the buffer.
            let len = unsafe { sys!(n::__NR_getcwd, bytes.as_mut_ptr(), bytes.len()) };
            let len = usize::try_from(len).unwrap_or(0).saturating_sub(1);
            if !state.paths.directory.push(bytes.get(..len).unwrap_or_default()) || len == 0 {
                return false;
            }
        }
        let fits = whole.push(state.paths.directory.as_bytes()) && whole.push(b"/");
        // SAFETY: the caller's.
        return fits && unsafe { push_program_path(state, whole, path) };
    }
    let fits = directory_path(state, directory as u32 as usize, whole) && whole.push(b"/");
    // SAFETY: the caller's.
    fits && unsafe { push_program_path(state, whole, path) }
}

/// Appends a path that is in the program's memory.
///
/// # Safety
/// As [`target`].
unsafe fn push_program_path(state: &mut State, whole: &mut PathBuffer<BYTES>, path: usize) -> bool {
    // SAFETY: the caller's.
    touch_program(state, || whole.push(unsafe { text::bytes(path as *const u8) }))
}

/// Appends the path of an open directory.
pub fn directory_path(state: &mut State, descriptor: usize, whole: &mut PathBuffer<BYTES>) -> bool {
    let Some((index, file)) = state.descriptors.file(descriptor) else { return false };
    let real = file.real as isize;
    if state.descriptors.path(index).is_some_and(|known| known.is_empty()) {
        let mut path = PathBuffer::<BYTES>::new();
        if !path_of(state, real, &mut path)
            || !state.descriptors.path(index).is_some_and(|known| known.push(path.as_bytes()))
        {
            return false;
        }
    }
    state.descriptors.path(index).is_some_and(|known| whole.push(known.as_bytes()))
}

/// Appends the path that the kernel knows of an open file.
pub fn path_of(state: &State, real: isize, whole: &mut PathBuffer<BYTES>) -> bool {
    let mut name = PathBuffer::<24>::new();
    let mut bytes = [0u8; BYTES];
    if real < 0 || !name.push_number(real as u64) {
        return false;
    }
    let folder = state.descriptors.folder;
    // SAFETY: the call fills at most the buffer.
    let len = unsafe { sys!(n::__NR_readlinkat, folder, name.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
    let path = usize::try_from(len).ok().and_then(|len| bytes.get(..len));
    path.is_some_and(|path| path.first() == Some(&b'/') && whole.push(path))
}

/// Appends a look-up to the log.
///
/// # Safety
/// As [`target`].
pub unsafe fn log(state: &mut State, call: &Call, hinted: bool, site: Option<u32>) {
    // SAFETY: the caller's.
    let signature = touch_program(state, || unsafe { signatures::path(call) });
    hints::log(state, signature, make_mark(hinted.then_some(0), site));
    if state.paths.on_closed {
        end(state, End::Abandoned);
    }
    if state.paths.on_remote {
        hints::keep_near(state);
    }
}

/// When the speculator makes a cold look-up itself. One that has to wait brings a block of inodes with it, so those
/// that follow are fast, and to hand them to the executor would cost more than to make them. After one that waited
/// the next few are handed over all the same, in case they wait too.
#[derive(Clone, Copy)]
struct OwnLookUps {
    handed_over: u32,
    pause: u32,
    fast: bool,
    /// Whether the last path was a cold one, or one among such.
    was_cold: bool,
}

const PAUSE_FIRST: u32 = 4;
const PAUSE_MAX: u32 = 64;

impl OwnLookUps {
    fn due(&mut self) -> bool {
        if self.handed_over == 0 {
            return true;
        }
        self.handed_over -= 1;
        false
    }

    /// Whether the last one did not wait: the next is made without asking whether it is cold.
    fn is_fast(&self) -> bool {
        self.fast
    }

    fn learn(&mut self, slow: bool) {
        self.was_cold = true;
        self.fast = !slow;
        self.pause = if slow { (self.pause * 2).clamp(PAUSE_FIRST, PAUSE_MAX) } else { 0 };
        self.handed_over = if slow { self.pause } else { 0 };
    }
}

/// Looks a path up here and now.
///
/// # Safety
/// As [`target`].
unsafe fn look_up(state: &mut State, call: &Call, path: &Target, flags: u32) -> Found {
    let before = ticks();
    // SAFETY: the caller's.
    let found = unsafe { kernel::find_waiting(path.directory, path.path, flags) };
    let slow = ticks().wrapping_sub(before) > state.header.stall_ticks_min.load(Relaxed);
    state.paths.own_look_ups.learn(slow);
    // SAFETY: the caller's.
    unsafe { log(state, call, slow, None) };
    if found >= 0 { Found::File(found) } else { Found::Error(found) }
}

/// A path that was looked up: a descriptor naming the file (to be closed), an error, a predicted answer, or what the program
/// itself has made there, which may be a directory.
pub enum Found {
    File(isize),
    Error(isize),
    Predicted(Option<hints::Ticket>),
    Made { directory: bool },
}

/// Looks a path up for the call, hinting and predicting where it is cold, and logs it.
///
/// # Safety
/// As [`target`].
pub unsafe fn find(
    state: &mut State,
    call: &Call,
    directory: usize,
    path: usize,
    flags: u32,
    kind: SiteKind,
    hint_kind: PathHint,
) -> Found {
    let mut target_path = Target { directory: 0, path: 0, composed: PathBuffer::new() };
    // SAFETY: the caller's.
    unsafe {
        if let Err(error) = target(state, directory, path, &mut target_path) {
            return Found::Error(error);
        }
        if let Some(found) = made(state, directory, path) {
            log(state, call, false, None);
            return found;
        }
        let own = state.paths.own_look_ups.is_fast() && !state.paths.on_remote;
        if !own {
            let found = kernel::find(target_path.directory, target_path.path, flags);
            if found != COLD {
                state.paths.own_look_ups.was_cold = false;
                log(state, call, false, None);
                return if found >= 0 { Found::File(found) } else { Found::Error(found) };
            }
        } else {
            return look_up(state, call, &target_path, flags);
        }
        let mut whole = PathBuffer::new();
        let known = absolute(state, directory, path, &mut whole);
        match if known { listing::look(state, whole.as_bytes()) } else { Entry::Unknown } {
            Entry::Directory => {
                // Hinted with its siblings, and what follows depends on it.
                log(state, call, true, None);
                let found = kernel::find_waiting(target_path.directory, target_path.path, flags);
                return if found >= 0 { Found::File(found) } else { Found::Error(found) };
            }
            Entry::Absent => {
                log(state, call, false, None);
                return Found::Error(call::error(errno::ENOENT));
            }
            Entry::Other | Entry::Unknown => {}
        }
        // A remote file system serves many at once, and may not answer.
        if !state.paths.on_remote && state.paths.own_look_ups.due() {
            return look_up(state, call, &target_path, flags);
        }
        let ticket = match hint_kind {
            _ if !known => None,
            PathHint::Data => {
                let open = ahead(state, call);
                hints::open(state, whole.as_bytes(), OPENED_BYTES as u32, open)
            }
            _ => hints::path(state, hint_kind, whole.as_bytes(), 0, 0),
        };
        let kind = if flags & n::O_DIRECTORY != 0 { SiteKind::Directory } else { kind };
        let (site, strategy) = predict(state, call, kind, u64::from(flags & n::O_DIRECTORY));
        if strategy == Strategy::Wait {
            log(state, call, true, None);
            let found = kernel::find_waiting(target_path.directory, target_path.path, flags);
            return if found >= 0 { Found::File(found) } else { Found::Error(found) };
        }
        count_predicted(state, site);
        log(state, call, true, site);
        if strategy == Strategy::Missing {
            return Found::Error(call::error(errno::ENOENT));
        }
        Found::Predicted(ticket)
    }
}

/// The open that the call makes, if the executor may make it in place of the program.
///
/// # Safety
/// As [`target`].
pub unsafe fn ahead(state: &mut State, call: &Call) -> Option<Open> {
    let flags = call.open_flags().and_then(shown_flags);
    let flags = flags.filter(|_| state.slot.takes_none.load(Relaxed) == 0)?;
    // SAFETY: the caller's.
    let signature = touch_program(state, || unsafe { signatures::path(call) });
    Some(Open { key: open_key(signature, flags, state.original.process, state.generation), flags })
}

/// What the program has made at a path, or in a directory that it has made.
///
/// # Safety
/// As [`target`].
#[inline(never)]
unsafe fn made(state: &mut State, directory: usize, path: usize) -> Option<Found> {
    if !state.told.has_made() {
        return None;
    }
    let mut whole = PathBuffer::new();
    // SAFETY: the caller's.
    if !unsafe { absolute(state, directory, path, &mut whole) } {
        return None;
    }
    let whole = whole.as_bytes();
    match state.told.of(whole) {
        Some(Claim::File) => return Some(Found::Made { directory: false }),
        Some(Claim::Directory) => return Some(Found::Made { directory: true }),
        Some(Claim::Predicted) | None => {}
    }
    let parent = whole.get(..whole.iter().rposition(|&byte| byte == b'/')?)?;
    let is_new = state.told.of(parent) == Some(Claim::Directory);
    is_new.then_some(Found::Error(call::error(errno::ENOENT)))
}

/// The program makes a file or directory at a path: gives its number, or nothing where something is there already.
///
/// # Safety
/// As [`target`].
#[inline(never)]
pub unsafe fn make(state: &mut State, directory: usize, path: usize, claim: Claim) -> Option<u64> {
    let mut to = Target { directory: 0, path: 0, composed: PathBuffer::new() };
    // SAFETY: the caller's.
    unsafe {
        if target(state, directory, path, &mut to).is_ok() {
            let found = kernel::find(to.directory, to.path, n::O_NOFOLLOW);
            if found >= 0 {
                kernel::close(found);
                return None;
            }
        }
        Some(tell(state, directory, path, claim).unwrap_or(0))
    }
}

/// Takes note of what the program is told of a path, and gives its number.
///
/// # Safety
/// As [`target`].
#[inline(never)]
pub unsafe fn tell(state: &mut State, directory: usize, path: usize, claim: Claim) -> Option<u64> {
    let mut whole = PathBuffer::new();
    // SAFETY: the caller's.
    let known = path != 0 && unsafe { absolute(state, directory, path, &mut whole) };
    known.then(|| state.told.tell(whole.as_bytes(), claim))
}

/// The program has removed what it may have made at a path.
///
/// # Safety
/// As [`target`].
#[inline(never)]
pub unsafe fn forget(state: &mut State, directory: usize, path: usize) -> Option<Claim> {
    let mut whole = PathBuffer::new();
    // SAFETY: the caller's.
    let known = state.told.has_made() && path != 0 && unsafe { absolute(state, directory, path, &mut whole) };
    if known { state.told.forget(whole.as_bytes()) } else { None }
}

/// The number that the program was told of a path in place of the real one; 0 for none.
///
/// # Safety
/// As [`target`].
#[inline(never)]
pub unsafe fn number(state: &mut State, directory: usize, path: usize) -> u64 {
    let mut whole = PathBuffer::new();
    // SAFETY: the caller's.
    if !state.told.has_any() || !unsafe { absolute(state, directory, path, &mut whole) } {
        return 0;
    }
    state.told.of(whole.as_bytes()).map_or(0, |_| Told::number(whole.as_bytes()))
}

/// `chdir`: the speculator's working directory is its own.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn change_directory(state: &mut State, directory: usize, path: usize) -> isize {
    // SAFETY: the caller's.
    unsafe {
        let mut to = Target { directory: 0, path: 0, composed: PathBuffer::new() };
        if let Err(error) = target(state, directory, path, &mut to) {
            return error;
        }
        let found = kernel::find_waiting(to.directory, to.path, n::O_DIRECTORY);
        if found < 0 {
            return found;
        }
        let result = sys!(n::__NR_fchdir, found);
        kernel::close(found);
        state.paths.directory.clear();
        result
    }
}

/// `fchdir`.
pub fn change_directory_to(state: &mut State, descriptor: usize) -> isize {
    opening::upgrade(state, descriptor, true);
    let Some((_, file)) = state.descriptors.file(descriptor) else { return call::EBADF };
    if file.real < 0 {
        return call::error(errno::ENOTDIR);
    }
    // SAFETY: no memory is involved.
    let result = unsafe { sys!(n::__NR_fchdir, file.real) };
    state.paths.directory.clear();
    result
}
