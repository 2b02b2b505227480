//! cachestat(2), which rustix does not have.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const SYS_CACHESTAT: libc::c_long = 451;

/// What of a file is in the page cache, in pages (struct cachestat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CacheStat {
    /// In memory.
    pub cached: u64,
    /// Of those, not written back yet.
    pub dirty: u64,
    /// Of those, being written back.
    pub writeback: u64,
    /// That were in memory, and are not.
    pub evicted: u64,
    /// Of those, so lately that they would come back as refaults.
    pub recently_evicted: u64,
}

/// cachestat(2), of a whole file. Since Linux 6.5, on all architectures by the same number.
///
/// # Errors
/// `ENOSYS`: the kernel is older. `EPERM`: another user's file that may not be written. `EOPNOTSUPP`: a file of huge pages.
pub fn cachestat(file: impl AsFd) -> io::Result<CacheStat> {
    // struct cachestat_range { off, len }: no length means up to the end.
    let range = [0u64; 2];
    let mut counts = CacheStat::default();
    let no_flags: libc::c_uint = 0;
    // SAFETY: the kernel reads the two words of `range` and writes the five of `counts`, and keeps neither address.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            range.as_ptr(),
            std::ptr::from_mut(&mut counts),
            no_flags,
        )
    };
    if result == 0 { Ok(counts) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel has [`cachestat`] for this user's files.
#[must_use]
pub fn has_cachestat() -> bool {
    std::fs::File::open("/proc/self/exe").is_ok_and(|file| match cachestat(&file) {
        Ok(_) => true,
        // Somebody else's program: the call is there.
        Err(error) => error.raw_os_error() == Some(libc::EPERM),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_was_just_written_is_in_memory_and_dirty_until_it_is_synced() {
        if !has_cachestat() {
            return forebay_testkit::skip(
                "what_was_just_written_is_in_memory_and_dirty_until_it_is_synced",
                "the kernel has no cachestat",
            );
        }
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(cachestat(&file).unwrap(), CacheStat::default());
        file.write_all(&[1; 10 * 4096]).unwrap();
        assert_eq!(cachestat(&file).unwrap().cached, 10);
        file.sync_all().unwrap();
        let synced = cachestat(&file).unwrap();
        assert_eq!((synced.cached, synced.dirty), (10, 0));
    }
}
