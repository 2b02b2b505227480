//! What of the program's descriptors a speculator has, and what is left outside its jail.
//!
//! The intermediate process begins with the program's own table. It looks at the descriptors there, then takes a table of its own, and
//! closes at once what may not stay. So it refers for a few microseconds only to what another thread of the program closes meanwhile.
//! A pipe, a socket, a lock or a file open for writing would stay for as long, and the reader of a pipe would wait.

use forebay_sigsafe::general as n;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, sys};

use crate::snapshot::{DESCRIPTORS, Known, Snapshot};
use crate::{attributes, held};

/// `CLOSE_RANGE_UNSHARE`: the process gets a table of its own, without the range.
const UNSHARE: u32 = 1 << 1;
const NOT_OPEN: i64 = call::EBADF as i64;

/// What becomes of a descriptor in the speculator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is none.
    NotOpen,
    /// The speculator has it.
    Stays,
    /// The file is opened anew, to be read.
    OpenedAnew,
    /// The speculator must never have it: pipes, sockets and the like, whose readers would miss the end, and files that can only be
    /// written, which could not be executed.
    LeftOutside,
}

/// Leaves descriptors outside, in the intermediate process. Files of a program that locks are opened anew. The original's thread waits
/// meanwhile.
pub extern "C" fn leave_outside(snapshot: &mut Snapshot) {
    look_at_descriptors(snapshot);
    let must_reopen = held::must_reopen();
    let known = snapshot.known.get(..snapshot.descriptors).unwrap_or_default();
    let fates = || known.iter().enumerate().map(|(descriptor, known)| (descriptor, fate(known, must_reopen)));
    // SAFETY: the calls take numbers and a local.
    unsafe {
        // The speculator's: one that has no memory where the program's stack is would leave a core file.
        let none = n::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        let _ = sys!(n::__NR_prlimit64, 0, n::RLIMIT_CORE, &raw const none, 0);
        snapshot.left_outside = sys!(n::__NR_close_range, known.len(), u32::MAX, UNSHARE) == 0;
        if !snapshot.left_outside {
            return;
        }
        // What is opened and closed just now has a high number, so these come first. What was not open may be open now.
        for (descriptor, fate) in fates().rev() {
            let is_traced = cfg!(feature = "trace") && descriptor == 2;
            let is_left = match fate {
                Fate::NotOpen | Fate::LeftOutside => !is_traced,
                Fate::Stays => false,
                Fate::OpenedAnew => !put_anew(descriptor, n::O_PATH),
            };
            if is_left {
                let _ = sys!(n::__NR_close, descriptor);
            }
        }
    }
    for ((descriptor, fate), known) in fates().zip(known) {
        let is_there = match fate {
            Fate::NotOpen | Fate::LeftOutside => continue,
            Fate::Stays => true,
            Fate::OpenedAnew => open_anew(descriptor),
        };
        // Another thread of the program may have put another file there.
        if !is_there || !is_still(descriptor, known, fate) {
            // SAFETY: the descriptor is one of this process's own table.
            let _ = unsafe { sys!(n::__NR_close, descriptor) };
        }
    }
}

/// Looks at the descriptors of the program, whose table this is.
#[inline(never)]
fn look_at_descriptors(snapshot: &mut Snapshot) {
    snapshot.descriptors = held::descriptor_max().saturating_add(1).min(DESCRIPTORS);
    for (descriptor, known) in snapshot.known.iter_mut().enumerate().take(snapshot.descriptors) {
        // SAFETY: no pointers are passed, and an offset that is asked for does not change.
        known.offset = unsafe { sys!(n::__NR_lseek, descriptor, 0, n::SEEK_CUR) as i64 };
        let stat = attributes::of(descriptor as isize).filter(|_| known.offset != NOT_OPEN);
        let Some(stat) = stat else {
            known.offset = NOT_OPEN;
            continue;
        };
        known.mode = stat.st_mode;
        known.device = stat.st_dev;
        known.inode = stat.st_ino;
        known.size = stat.st_size as u64;
        known.flags = flags(descriptor);
    }
}

fn flags(descriptor: usize) -> u32 {
    // SAFETY: the call takes numbers.
    unsafe { sys!(n::__NR_fcntl, descriptor, n::F_GETFL) as u32 }
}

fn fate(known: &Known, must_reopen: bool) -> Fate {
    match known {
        _ if known.offset == NOT_OPEN => Fate::NotOpen,
        _ if !known.readable() => Fate::LeftOutside,
        _ if known.writable() || must_reopen => Fate::OpenedAnew,
        _ => Fate::Stays,
    }
}

/// Opens the file of a descriptor anew, to be read. Its file system may take long for that.
fn open_anew(descriptor: usize) -> bool {
    let flags = n::O_RDONLY | n::O_NONBLOCK;
    put_anew(descriptor, flags | n::O_NOATIME) || put_anew(descriptor, flags)
}

/// Has a descriptor be another open file of what it is of. With `O_PATH` that is the file's name alone, of which its file system hears
/// nothing.
fn put_anew(descriptor: usize, flags: u32) -> bool {
    let mut path = PathBuffer::<32>::new();
    let _ = path.push(b"/proc/self/fd/") && path.push_number(descriptor as u64);
    // SAFETY: the calls take numbers and a terminated path.
    unsafe {
        let own = sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), flags | n::O_CLOEXEC);
        if own < 0 {
            return false;
        }
        let is_there = sys!(n::__NR_dup3, own, descriptor, n::O_CLOEXEC) >= 0;
        let _ = sys!(n::__NR_close, own);
        is_there
    }
}

/// Whether a descriptor is of the file that was looked at.
fn is_still(descriptor: usize, known: &Known, fate: Fate) -> bool {
    let is_as_open = fate == Fate::OpenedAnew || flags(descriptor) == known.flags;
    let is_same = |stat: n::stat| stat.st_dev == known.device && stat.st_ino == known.inode;
    is_as_open && attributes::of(descriptor as isize).is_some_and(is_same)
}
