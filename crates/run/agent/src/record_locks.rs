//! POSIX locks of this process on what it is about to execute. They outlast the execution, but not the close of any descriptor of the
//! file, whichever descriptor they were taken by (fcntl_locking(2)). So a process has open what it has locked.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;
use forebay_sigsafe::text::parse_decimal;

use crate::call::Call;
use crate::{attributes, process};

/// The process whose image this is: the image before may have left locks to it. A child begins without any (fork(2)).
static IMAGE: AtomicU32 = AtomicU32::new(0);
/// A process with this image has taken locks, or may have.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A process with more descriptors may hold any lock.
const DESCRIPTORS_MAX: u32 = 4096;
/// Where the fields of a `linux_dirent64` are.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

/// The image begins.
pub fn begin() {
    IMAGE.store(process::id(), Relaxed);
}

/// Locks may be taken without a word to this library.
pub fn may_be_taken() {
    TAKEN.store(true, Relaxed);
}

/// The program is making the `fcntl` or `clone`. Who shares its descriptors with another process shares the locks.
pub fn before(call: &Call) {
    let [flags, command, ..] = call.arguments.map(|argument| argument as u32);
    let takes = match call.number as u32 {
        n::__NR_fcntl => matches!(command, n::F_SETLK | n::F_SETLKW),
        n::__NR_clone => flags & n::CLONE_FILES != 0 && flags & n::CLONE_THREAD == 0,
        _ => false,
    };
    if takes {
        may_be_taken();
    }
}

/// Whether this process may hold a lock on `file`. Its descriptors are listed in `room`.
pub fn may_be_on(file: &n::stat, room: &mut [u8]) -> bool {
    if !TAKEN.load(Relaxed) && process::id() != IMAGE.load(Relaxed) {
        return false;
    }
    let flags = n::O_RDONLY | n::O_DIRECTORY | n::O_CLOEXEC;
    // SAFETY: a terminated path.
    let folder = unsafe { sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/fd".as_ptr(), flags) };
    if folder < 0 {
        return true;
    }
    let (mut known, mut may_be) = (0, true);
    while known < DESCRIPTORS_MAX {
        // SAFETY: a buffer as large as the call is told.
        let listed = unsafe { sys!(n::__NR_getdents64, folder, room.as_mut_ptr(), room.len()) };
        let Some(mut listed) = usize::try_from(listed).ok().and_then(|length| room.get(..length)) else {
            break;
        };
        if listed.is_empty() {
            may_be = false;
            break;
        }
        let mut is_locked = false;
        while let Some((descriptor, rest)) = first_of(listed) {
            is_locked |= descriptor.is_some_and(|descriptor| is_of(descriptor, file) && has_lock(descriptor));
            known += 1;
            listed = rest;
        }
        if is_locked {
            break;
        }
    }
    // SAFETY: the descriptor is this function's.
    let _ = unsafe { sys!(n::__NR_close, folder) };
    may_be
}

/// The first of the entries that the kernel has listed, where it is a descriptor, and the others.
fn first_of(listed: &[u8]) -> Option<(Option<usize>, &[u8])> {
    let &[low, high] = listed.get(LENGTH_AT..LENGTH_AT + 2)? else { return None };
    let (entry, rest) = listed.split_at_checked(u16::from_le_bytes([low, high]).into())?;
    let descriptor = parse_decimal(entry.get(NAME_AT..)?).map(|(number, _)| number as usize);
    Some((descriptor, rest))
}

/// Whether the descriptor is of the file, or that cannot be told. No server is asked.
fn is_of(descriptor: usize, file: &n::stat) -> bool {
    let mut known = MaybeUninit::<n::statx>::uninit();
    let flags = n::AT_EMPTY_PATH | n::AT_STATX_DONT_SYNC;
    // SAFETY: the call fills the structure, if it succeeds.
    unsafe {
        let path = c"".as_ptr();
        let result = sys!(n::__NR_statx, descriptor, path, flags, n::STATX_INO, known.as_mut_ptr());
        if result < 0 {
            return true;
        }
        let known = known.assume_init();
        known.stx_ino == file.st_ino
            && attributes::device(known.stx_dev_major, known.stx_dev_minor) == file.st_dev
    }
}

/// Whether anybody has a lock on the file, as one who would lock its descriptor is told. A descriptor of a path alone has none.
fn has_lock(descriptor: usize) -> bool {
    let mut lock = n::flock { l_type: n::F_WRLCK as _, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
    // SAFETY: the call reads and writes a local.
    let result = unsafe { sys!(n::__NR_fcntl, descriptor, n::F_OFD_GETLK, &raw mut lock) };
    result == 0 && lock.l_type != n::F_UNLCK as i16
}
