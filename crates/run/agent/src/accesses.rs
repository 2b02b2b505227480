//! What the program needs of file systems, written to the access log: paths that it looks up, ranges that it reads.
//!
//! All look-ups are seen. Reads are seen in the windows of `timing.rs`, and where they leave the processor. What is new to this
//! process makes the window longer; once nothing is new, reads have the way that they have without a log. A read in sequence
//! that goes on as a window ends is marked as unfinished, and taken for one to the end of the file.
//!
//! What is recorded is found again by its hash, so a call that is repeated writes nothing.
//!
//! What a file is, is recorded with the first of its opens or uses, from what the kernel has in memory. So no file system is
//! asked at the end of the run. A file that changes during the run is what it was when it was used.
//!
//! Everything is an atomic word, so threads, signal handlers and vfork children record at any time.

mod descriptors;
mod text;

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

use forebay_protocol::access_log::{AccessLog, Attributes, Entry, Outcome, PATH_BYTES_MAX, wanted};
use forebay_protocol::signature::Signature;
use forebay_sigsafe::general as n;
use forebay_sigsafe::turn::Turn;
use forebay_sigsafe::{call, errno, sys, ticks};

use crate::call::Call;
use crate::calls::Class;
use crate::{attributes, process, session, signatures, timing};
use descriptors::{file_of, note_listing, note_range};
use text::{measure, mix, word_at};

pub use descriptors::record_range;

/// The log; null while nothing is recorded.
static LOG: AtomicPtr<AccessLog> = AtomicPtr::new(core::ptr::null_mut());
/// When this image of the process began, as by [`AccessLog::time`].
static BEGAN: AtomicU32 = AtomicU32::new(0);
/// This process has another root directory than the supervisor.
static HAS_LEFT_ROOT: AtomicBool = AtomicBool::new(false);
/// Place of the record that names the working directory; 0 while that is unknown.
static FOLDER: AtomicU32 = AtomicU32::new(0);

/// Calls that are looked at closely after one that was new.
const ATTENTION_CALLS: u32 = 128;
/// Where the kernel puts paths, for one thread at a time.
static TEXT: Turn<[u8; PATH_BYTES_MAX]> = Turn::new([0; PATH_BYTES_MAX]);
/// All readers of it are alike.
const READER: usize = 1;

/// Records from now on, where the supervisor wants that. `program` is the path that was executed.
///
/// # Safety
/// `program` is null or terminated.
pub unsafe fn begin(program: *const u8) {
    let Some(log) = session::access_log() else { return };
    if log.wanted.load(Relaxed) & wanted::ACCESSES == 0 {
        return;
    }
    BEGAN.store(log.time(ticks()), Relaxed);
    LOG.store(core::ptr::from_ref(log).cast_mut(), Relaxed);
    if !program.is_null() {
        // SAFETY: the caller's.
        unsafe { executed(log, n::AT_FDCWD as usize, program) };
    }
}

/// This process has waited for a file.
pub fn on_wait() {
    if let Some(log) = session::access_log()
        && log.wanted.load(Relaxed) & wanted::AFTER_WAIT != 0
        && LOG.load(Relaxed).is_null()
        && !HAS_LEFT_ROOT.load(Relaxed)
    {
        LOG.store(core::ptr::from_ref(log).cast_mut(), Relaxed);
    }
}

/// Whether a profile is recorded.
pub fn is_on() -> bool {
    log().is_some_and(|log| log.wanted.load(Relaxed) & wanted::ACCESSES != 0)
}

/// Nothing is recorded in this process again.
pub fn stop() {
    LOG.store(core::ptr::null_mut(), Relaxed);
}

/// The log, and when this image of the process began, where the pages of mapped files are wanted.
pub fn log_of_pages() -> Option<(&'static AccessLog, u32)> {
    let log = log()?;
    (log.wanted.load(Relaxed) & wanted::MAPPED != 0).then(|| (log, BEGAN.load(Relaxed)))
}

#[inline(always)]
fn log() -> Option<&'static AccessLog> {
    // SAFETY: null or the session's log, which is never unmapped.
    let log = unsafe { LOG.load(Relaxed).as_ref() }?;
    if log.wanted.load(Relaxed) & (wanted::ACCESSES | wanted::AFTER_WAIT) == 0 {
        stop();
        return None;
    }
    Some(log)
}

/// A call of this class was made.
///
/// # Safety
/// The kernel has just made the call, with this result.
pub unsafe fn made(call: &Call, class: Class, result: isize) {
    // SAFETY: (all) the caller's.
    match class {
        // SAFETY: above.
        Class::Read | Class::ReadSecond => unsafe { read(call, result) },
        Class::Path | Class::PathOpens | Class::PathAt | Class::PathAtOpens => {
            // SAFETY: above.
            unsafe { looked_up(call, class, result) };
        }
        Class::Seek => sought(call, result),
        Class::Folder => {
            if call.number as u32 != n::__NR_fchdir {
                // SAFETY: above.
                unsafe { looked_up(call, class, result) };
            }
            if result == 0 {
                changed_folder(call);
            }
        }
        _ => {}
    }
}

/// A call on a path was made.
///
/// # Safety
/// The kernel has just made the call, with this result.
#[inline(always)]
pub unsafe fn looked_up(call: &Call, class: Class, result: isize) {
    if let Some(log) = log() {
        // SAFETY: the caller's.
        unsafe { note_look_up(log, call, class, result) };
    }
}

/// A call that reads was made.
///
/// # Safety
/// The kernel has just made the call, with this result.
#[inline(always)]
pub unsafe fn read(call: &Call, result: isize) {
    if let (Some(log), Ok(length)) = (log(), u64::try_from(result)) {
        // SAFETY: the caller's.
        unsafe { note_read(log, call, length) };
    }
}

/// A call has moved the offset of a descriptor.
#[inline(always)]
pub fn sought(call: &Call, result: isize) {
    if let (Some(_), Ok(position)) = (log(), u64::try_from(result)) {
        descriptors::moved(call.arguments[0], position);
    }
}

/// A descriptor is of the same open file as another one.
pub fn duplicated(from: usize, to: usize) {
    if log().is_some() && !process::is_vfork_child() {
        descriptors::duplicated(from, to);
    }
}

/// A descriptor is of something that has no path, or of which nothing can be brought into memory.
pub fn opened_other(result: isize) {
    if let (Some(_), Ok(descriptor)) = (log(), usize::try_from(result)) {
        descriptors::opened_other(descriptor);
    }
}

/// The working directory is another one. In another root directory, paths are others.
fn changed_folder(call: &Call) {
    if process::is_vfork_child() {
        return;
    }
    FOLDER.store(0, Relaxed);
    if call.number as u32 == n::__NR_chroot {
        HAS_LEFT_ROOT.store(true, Relaxed);
        stop();
    }
}

/// The program at this path is about to be executed.
///
/// # Safety
/// `path` is terminated.
pub unsafe fn executes(directory: usize, path: *const u8) {
    if let Some(log) = log() {
        // SAFETY: the caller's.
        unsafe { executed(log, directory, path) };
    }
}

/// # Safety
/// `path` is terminated.
unsafe fn executed(log: &AccessLog, directory: usize, path: *const u8) {
    // SAFETY: the caller's.
    let place = unsafe { place_of(log, Outcome::Executed, directory, path) };
    let Some(Place { place, .. }) = place.filter(Place::is_first) else { return };
    // SAFETY: the caller's.
    let found = unsafe { sys!(n::__NR_openat, directory, path, n::O_PATH | n::O_CLOEXEC) };
    let is_missing = call::is(found, errno::ENOENT) || call::is(found, errno::ENOTDIR);
    if is_missing {
        // SAFETY: the caller's.
        let _ = unsafe { place_of(log, Outcome::Missing, directory, path) };
    }
    with_closed(found, |file| {
        // A program of more rights is left out.
        let is_plain = |stat: &n::stat| stat.st_mode & (n::S_ISUID | n::S_ISGID) == 0;
        if let Some(found) = attributes::of(file).filter(is_plain) {
            record_file(log, 0, place, &found);
        }
    });
}

/// # Safety
/// As [`looked_up`].
#[inline(never)]
unsafe fn note_look_up(log: &AccessLog, call: &Call, class: Class, result: isize) {
    let (directory, path) = signatures::place_of_path(call);
    let reads_link = matches!(call.number as u32, n::__NR_readlink | n::__NR_readlinkat);
    let opens = matches!(class, Class::PathOpens | Class::PathAtOpens);
    let outcome = match result {
        0.. if reads_link => Outcome::Link,
        // SAFETY: the caller's.
        0.. if opens && unsafe { has_made(call) } => Outcome::Made,
        0.. => Outcome::Found,
        _ if call.may_have_faulted(result) => return,
        call::EINVAL if reads_link => Outcome::Found,
        _ if call::is(result, errno::ENOENT) || call::is(result, errno::ENOTDIR) => Outcome::Missing,
        _ => return,
    };
    if path.is_null() {
        return;
    }
    // SAFETY: the kernel has just read the path.
    let place = unsafe { place_of(log, outcome, directory, path) };
    if let (true, Ok(descriptor)) = (opens, usize::try_from(result)) {
        // Reads go around the page cache, so nothing can be brought into memory for them.
        // SAFETY: the caller's.
        if unsafe { flags_of(call) } & u64::from(n::O_DIRECT) != 0 {
            opened_other(result);
            return;
        }
        // The kernel names the folder above, whichever links led here. It does so when the descriptor is used.
        // SAFETY: as above.
        let leads_above = unsafe { is_parent(path) };
        opened(log, descriptor, place.filter(|_| !leads_above));
    } else if let (0, Some(Place { place, is_new: true, .. })) = (result, place) {
        // SAFETY: the caller's.
        if let Some(told) = unsafe { soon_forgotten(call) } {
            record_file(log, 0, place, &told);
        }
    }
}

/// What a call told of a file whose name the kernel may forget before the process ends and its mapped files are recorded. Names on
/// block devices stay.
///
/// # Safety
/// The kernel has just made the call, with success.
unsafe fn soon_forgotten(call: &Call) -> Option<n::stat> {
    const WHOLE: u32 = n::STATX_TYPE | n::STATX_INO | n::STATX_SIZE | n::STATX_MTIME;
    let is_whole = call.number as u32 != n::__NR_statx || call.arguments[3] as u32 & WHOLE == WHOLE;
    // SAFETY: the caller's.
    let told = unsafe { attributes::told(call) }.filter(|_| is_whole)?;
    (attributes::major_and_minor(told.st_dev).0 == 0).then_some(told)
}

/// Whether a path is `..`.
///
/// # Safety
/// The path is terminated.
unsafe fn is_parent(path: *const u8) -> bool {
    // SAFETY: the caller's.
    let word = unsafe { word_at(path) };
    word & 0xff_ffff == u64::from(u32::from_le_bytes(*b"..\0\0"))
}

/// Whether a call that opened a path has made its file: the path was missing.
///
/// # Safety
/// The kernel has just made the call, and opened the path.
unsafe fn has_made(call: &Call) -> bool {
    const EXCLUSIVE: u64 = n::O_CREAT as u64 | n::O_EXCL as u64;
    // SAFETY: the caller's.
    unsafe { flags_of(call) & EXCLUSIVE == EXCLUSIVE }
}

/// The flags of a call that opened a path.
///
/// # Safety
/// The kernel has just made the call, and opened the path, or the call is no openat2(2).
pub unsafe fn flags_of(call: &Call) -> u64 {
    match (call.number as u32, call.open_flags()) {
        (_, Some(flags)) => flags.into(),
        // SAFETY: the kernel has just read the structure, whose first word has the flags.
        (n::__NR_openat2, _) => unsafe { (call.arguments[2] as *const u64).read_unaligned() },
        _ => 0,
    }
}

/// A path was opened.
fn opened(log: &AccessLog, descriptor: usize, place: Option<Place<'_>>) {
    if let Some(Place { place, .. }) = place.filter(Place::is_first) {
        timing::attend(ATTENTION_CALLS);
        identify(log, now(log), place, descriptor as isize);
    }
    descriptors::opened(descriptor, place.map(|place| place.place));
}

/// # Safety
/// As [`read`].
#[inline(never)]
unsafe fn note_read(log: &AccessLog, call: &Call, length: u64) {
    let [a, b, c, d, ..] = call.arguments;
    // Where the kernel was told an offset, it has put the end of what was read there.
    // SAFETY: the caller's.
    let told = |at: usize| (at != 0).then(|| unsafe { (at as *const u64).read_unaligned() });
    match call.number as u32 {
        n::__NR_getdents | n::__NR_getdents64 if length > 0 => note_listing(log, a),
        n::__NR_pread64 | n::__NR_preadv => note_range(log, a, Some(d as u64), length),
        n::__NR_preadv2 if d != usize::MAX => note_range(log, a, Some(d as u64), length),
        n::__NR_read | n::__NR_readv | n::__NR_preadv2 => note_range(log, a, None, length),
        n::__NR_copy_file_range => {
            note_range(log, a, told(b).map(|end| end.saturating_sub(length)), length);
        }
        n::__NR_sendfile => note_range(log, b, told(c).map(|end| end.saturating_sub(length)), length),
        _ => {}
    }
}

/// Place of the record that names the working directory.
fn folder(log: &AccessLog) -> Option<u32> {
    match FOLDER.load(Relaxed) {
        0 => name_folder(log),
        place => Some(place),
    }
}

#[cold]
#[inline(never)]
fn name_folder(log: &AccessLog) -> Option<u32> {
    let mut text = TEXT.enter(READER)?;
    // SAFETY: a buffer as large as the call is told.
    let length = unsafe { sys!(n::__NR_getcwd, text.as_mut_ptr(), PATH_BYTES_MAX) };
    // With its terminator.
    let Place { place, .. } = name(log, text.get(..usize::try_from(length).ok()?.checked_sub(1)?)?)?;
    FOLDER.store(place, Relaxed);
    Some(place)
}

/// Records the path of a file that is mapped.
pub fn name_of_mapped(log: &AccessLog, path: &[u8]) -> Option<u32> {
    let named = name(log, path)?;
    if named.is_first()
        && let Some(mut text) = TEXT.enter(READER)
        && let Some((bytes, [end, ..])) = text.split_at_mut_checked(path.len())
    {
        bytes.iter_mut().zip(path).for_each(|(to, from)| *to = *from);
        *end = 0;
        let flags = u64::from(n::O_PATH | n::O_CLOEXEC);
        // Only what the kernel has in memory: neither a device nor a server is asked.
        let how = n::open_how { flags, mode: 0, resolve: n::RESOLVE_CACHED.into() };
        let (directory, bytes) = (n::AT_FDCWD, size_of::<n::open_how>());
        // SAFETY: a terminated path, and a structure as large as the call is told.
        let found = unsafe { sys!(n::__NR_openat2, directory, text.as_ptr(), &raw const how, bytes) };
        with_closed(found, |file| identify(log, 0, named.place, file));
    }
    Some(named.place)
}

/// Records what the file of a descriptor is.
fn identify(log: &AccessLog, opened: u32, place: u32, descriptor: isize) {
    if let Some(found) = attributes::of(descriptor) {
        record_file(log, opened, place, &found);
    }
}

/// Records what a file is, if it is a regular one, and when it was opened, if it was.
fn record_file(log: &AccessLog, opened: u32, place: u32, found: &n::stat) {
    if found.st_mode & n::S_IFMT == n::S_IFREG {
        let mtime_ns = (found.st_mtime as i64).saturating_mul(1_000_000_000);
        let mtime_ns = mtime_ns.saturating_add(found.st_mtime_nsec as i64);
        let (dev, ino, size) = (found.st_dev, found.st_ino, found.st_size as u64);
        log.append_attributes(opened, place, &Attributes { dev, ino, size, mtime_ns });
    }
}

/// Acts on a file that was opened, where it was, and closes it.
fn with_closed(opened: isize, act: impl FnOnce(isize)) {
    if opened >= 0 {
        act(opened);
        // SAFETY: the descriptor is the caller's.
        let _ = unsafe { sys!(n::__NR_close, opened) };
    }
}

/// Records what the kernel calls a file: of pipes and the like, and of folders that cannot be reached, that is no absolute path.
fn name<'a>(log: &'a AccessLog, path: &[u8]) -> Option<Place<'a>> {
    if path.first() != Some(&b'/') || path.len() > PATH_BYTES_MAX {
        return None;
    }
    let entry = Entry::new(&log.paths, Signature::call(Outcome::Named as u64).bytes(path).value());
    let place = entry.place().or_else(|| kept(entry, log.append_path(Outcome::Named, now(log), 0, path)))?;
    Some(Place { entry, place, is_new: false })
}

/// Keeps the place of a new record. Where the log had none left, this process records no more.
fn kept(entry: Entry<'_>, place: Option<u32>) -> Option<u32> {
    match place {
        Some(place) => entry.keep(place),
        None => stop(),
    }
    place
}

fn now(log: &AccessLog) -> u32 {
    log.time(ticks())
}

/// A record of a path.
#[derive(Clone, Copy)]
struct Place<'a> {
    entry: Entry<'a>,
    place: u32,
    /// The path was recorded just now.
    is_new: bool,
}

impl Place<'_> {
    /// Whether its file has not been used before, as far as that is known.
    fn is_first(&self) -> bool {
        self.entry.opens(self.place)
    }
}

/// Where the outcome of looking a path up is recorded. `None` for an empty path, which stands for the descriptor, and for what
/// cannot be recorded.
///
/// # Safety
/// The path is terminated.
unsafe fn place_of(
    log: &AccessLog,
    outcome: Outcome,
    directory: usize,
    path: *const u8,
) -> Option<Place<'_>> {
    // SAFETY: the caller's.
    let base = match unsafe { path.read() } {
        b'/' => 0,
        0 => return None,
        _ if directory as i32 == n::AT_FDCWD => folder(log)?,
        _ => file_of(log, directory)?,
    };
    // SAFETY: the caller's.
    let (length, hash) = unsafe { measure(path, mix(base.into(), outcome as u64)) };
    let entry = Entry::new(&log.paths, hash);
    if let Some(place) = entry.place() {
        return Some(Place { entry, place, is_new: false });
    }
    if length > PATH_BYTES_MAX {
        return None;
    }
    // SAFETY: so many bytes were found before the terminator.
    let bytes = unsafe { core::slice::from_raw_parts(path, length) };
    let place = kept(entry, log.append_path(outcome, now(log), base, bytes))?;
    Some(Place { entry, place, is_new: true })
}
