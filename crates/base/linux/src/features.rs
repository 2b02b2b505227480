//! Whether the kernel has, and allows, a feature.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Version of Landlock that the kernel offers; `None` where it is off (landlock(7)).
#[must_use]
pub fn landlock_version() -> Option<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: c_int = 1;
    // SAFETY: asked for the version, the call takes no attributes and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<c_void>(),
            0,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Whether this user may handle page faults of programs (userfaultfd(2), in user mode).
#[must_use]
pub fn has_userfaultfd() -> bool {
    const UFFD_USER_MODE_ONLY: c_int = 1;
    // SAFETY: the call takes no pointers; the descriptor is a new one, which nothing else owns.
    unsafe {
        let faults = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY);
        if faults >= 0 {
            drop(OwnedFd::from_raw_fd(faults as c_int));
        }
        faults >= 0
    }
}

/// Whether the kernel grants no more memory than there is (overcommit_memory of proc_sys_vm(5)): what a program may yet get is less by
/// all that its copies could write to.
#[must_use]
pub fn has_strict_memory() -> bool {
    std::fs::read("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.starts_with(b"2"))
}

/// Whether the kernel looks for pages of some kind in a page map (ioctl_pagemap_scan(2), Linux 6.7).
#[must_use]
pub fn has_pagemap_scan(pages: BorrowedFd<'_>) -> bool {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    const SWAPPED: u64 = 1 << 4;
    let mut found = [0u64; 3];
    // struct pm_scan_arg: size, flags, start, end, walk_end, vec, vec_len, max_pages, and four categories.
    let mut scan = [96, 0, 0, 4096, 0, found.as_mut_ptr() as u64, 1, 0, 0, SWAPPED, 0, SWAPPED];
    // SAFETY: the structure is as large as it says, and the array has room for the one region that it says.
    unsafe { libc::ioctl(pages.as_raw_fd(), PAGEMAP_SCAN, scan.as_mut_ptr()) >= 0 }
}
