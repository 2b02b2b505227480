//! The state that this process was started in, which the programs that it starts inherit.
//!
//! Rust's runtime ignores SIGPIPE and fills closed standard descriptors before `main`. With the feature `before-main` both
//! are read before the runtime starts. Without it, programs inherit what the runtime made.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::mem;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

#[cfg(feature = "before-main")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(true);
static STANDARD_CLOSED: AtomicU8 = AtomicU8::new(0);

#[cfg(feature = "before-main")]
extern "C" fn before_main() {
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Relaxed);
    let mut closed = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD reads a flag of a descriptor and takes no pointer.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            closed |= 1 << fd;
        }
    }
    STANDARD_CLOSED.store(closed, Relaxed);
}

/// Whether programs shall ignore SIGPIPE.
pub(super) fn sigpipe_is_ignored() -> bool {
    SIGPIPE_IGNORED.load(Relaxed)
}

/// The standard descriptors that programs shall find closed, as bits.
pub(super) fn standard_closed() -> u8 {
    STANDARD_CLOSED.load(Relaxed)
}

/// Whether this process ignores `signal`.
pub(super) fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all zeros is a valid sigaction, and the call only fills it.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Numbers of descriptors that are asked for one by one, which is quicker than a listing.
const DESCRIPTORS_MAX: RawFd = 32;

/// Regular files, or what may be some, that are open here and in what this process executes. No server is asked. `None` where the kernel
/// does not count descriptors, as before Linux 6.2, or their numbers are high.
#[must_use]
pub fn inherited_files() -> Option<Vec<RawFd>> {
    inherited_files_below(DESCRIPTORS_MAX)
}

fn inherited_files_below(descriptors_max: RawFd) -> Option<Vec<RawFd>> {
    let open = std::fs::metadata("/proc/self/fd").ok()?.len();
    let mut left = usize::try_from(open).ok().filter(|open| *open > 0)?;
    let mut files = Vec::new();
    for fd in 0..descriptors_max {
        if left == 0 {
            break;
        }
        // SAFETY: F_GETFD reads a flag of a descriptor and takes no pointer.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        left -= usize::from(flags >= 0);
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 && may_be_file(fd) {
            files.push(fd);
        }
    }
    (left == 0).then_some(files)
}

fn may_be_file(fd: RawFd) -> bool {
    // SAFETY: all zeros is a valid structure, the path is terminated, and the call fills what it is given.
    unsafe {
        let mut found: libc::statx = mem::zeroed();
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
        libc::statx(fd, c"".as_ptr(), flags, libc::STATX_TYPE, &mut found) != 0
            || u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG
    }
}

/// The environment as the kernel passed it: order, duplicates and entries without `=` included.
#[must_use]
pub fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: `environ` is null or a null-terminated array of strings; nothing in this program changes it.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(CStr::from_ptr(*entry).to_owned());
            entry = entry.add(1);
        }
    }
    entries
}

/// The path that this program was started by, from the kernel's auxiliary vector. It needs no `/proc`.
#[must_use]
pub fn executed_as() -> Option<PathBuf> {
    // SAFETY: the kernel's string stays where it is, at the end of the stack.
    unsafe {
        let path = libc::getauxval(libc::AT_EXECFN) as *const c_char;
        (!path.is_null()).then(|| PathBuf::from(OsStr::from_bytes(CStr::from_ptr(path).to_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_file_is_inherited_unless_it_is_closed_on_exec() {
        let file = File::open("/proc/self/exe").unwrap();
        let number = file.as_raw_fd();
        let Some(before) = inherited_files_below(1 << 16) else {
            assert_eq!(std::fs::metadata("/proc/self/fd").unwrap().len(), 0, "descriptors are counted");
            return;
        };
        assert!(!before.contains(&number));
        // SAFETY: the calls take numbers.
        unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
        let after = inherited_files_below(1 << 16);
        // SAFETY: as above.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        assert!(after.is_some_and(|files| files.contains(&number)));
    }
}
