//! The calls that a speculator really makes. The jail lets through just these, and only from this library.

use core::mem::MaybeUninit;

use forebay_protocol::layout::{Device, file_system};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{call, errno, sys};

use crate::residency;

/// Ends the process.
pub fn exit() -> ! {
    loop {
        // SAFETY: no memory is involved.
        let _ = unsafe { sys!(n::__NR_exit_group, 0) };
    }
}

/// Reads what is resident at `offset` into `[buffer, buffer + count)`, starting the device on what is not.
///
/// # Safety
/// The buffer may be garbage: the kernel then says `EFAULT`. It must not be this library's own memory.
pub unsafe fn read_resident(file: isize, buffer: usize, count: usize, offset: u64) -> isize {
    let vector = n::iovec { iov_base: buffer as *mut _, iov_len: count as u64 };
    // SAFETY: the caller's.
    unsafe { sys!(n::__NR_preadv2, file, &raw const vector, 1, offset, 0, n::RWF_NOWAIT) }
}

/// Whether [`read_resident`] failed with `read` because the kernel, or the file's system, has no reads that do not wait.
/// Noted as missing, unless there is nothing to wait for.
pub fn has_no_such_read(file: isize, read: isize, device: Option<&Device>) -> bool {
    let refused = residency::is_refusal(read);
    if refused && !residency::has(device, file_system::REFUSES_NOWAIT) && !is_always_in_memory(file, device) {
        residency::note(device, file_system::REFUSES_NOWAIT);
        super::missing(super::lacking::RWF_NOWAIT);
    }
    refused
}

/// Reads, waiting for the device.
///
/// # Safety
/// As [`read_resident`].
pub unsafe fn read_waiting(file: isize, buffer: usize, count: usize, offset: u64) -> isize {
    // SAFETY: the caller's.
    unsafe { sys!(n::__NR_pread64, file, buffer, count, offset) }
}

/// Waits until the byte at `offset` is resident.
pub fn wait_for(file: isize, offset: u64) {
    let mut byte = 0u8;
    // SAFETY: one byte into a local.
    let _ = unsafe { read_waiting(file, &raw mut byte as usize, 1, offset) };
}

/// Whether the byte at `offset` is resident.
pub fn is_resident(file: isize, offset: u64) -> bool {
    let mut byte = 0u8;
    // SAFETY: one byte into a local.
    let read = unsafe { read_resident(file, &raw mut byte as usize, 1, offset) };
    if residency::is_refusal(read) {
        residency::of(file, offset, 1).unwrap_or(true)
    } else {
        read != call::EAGAIN
    }
}

/// Whether the file's system keeps nothing on a device, so that no read of it waits for one.
pub fn is_always_in_memory(file: isize, device: Option<&Device>) -> bool {
    // A remote one would be asked.
    if residency::has(device, file_system::REFUSES_NOWAIT | file_system::REMOTE) {
        return false;
    }
    const RAMFS_MAGIC: u32 = 0x8584_58f6;
    file_system_of(file).is_some_and(|magic| {
        matches!(
            magic,
            n::TMPFS_MAGIC
                | RAMFS_MAGIC
                | n::PROC_SUPER_MAGIC
                | n::SYSFS_MAGIC
                | n::CGROUP_SUPER_MAGIC
                | n::CGROUP2_SUPER_MAGIC
        )
    })
}

/// Whether a mapping of the file takes pages of the system's pool of huge ones.
pub fn is_of_huge_pages(file: isize, device: Option<&Device>) -> bool {
    // A remote one would be asked.
    !residency::has(device, file_system::REMOTE) && file_system_of(file) == Some(n::HUGETLBFS_MAGIC)
}

/// The number of the kind of file system that a file is on.
fn file_system_of(file: isize) -> Option<u32> {
    let mut system = MaybeUninit::<n::statfs>::zeroed();
    // SAFETY: the call fills a local, for which all zeros is valid.
    unsafe {
        (sys!(n::__NR_fstatfs, file, system.as_mut_ptr()) == 0).then(|| system.assume_init().f_type as u32)
    }
}

/// Starts the device on a range.
pub fn will_need(file: isize, offset: u64, length: u64) {
    // SAFETY: no memory is involved.
    let _ = unsafe { sys!(n::__NR_fadvise64, file, offset, length, n::POSIX_FADV_WILLNEED) };
}

/// Looks a path up as far as that needs no device: a descriptor that only names the file, or `-errno` (`-EAGAIN`
/// where the look-up is cold). Where the kernel cannot do that, the look-up may wait.
///
/// # Safety
/// `path` is garbage or terminated.
pub unsafe fn find(directory: isize, path: usize, flags: u32) -> isize {
    // SAFETY: the caller's.
    unsafe {
        let result = find_with(directory, path, flags, n::RESOLVE_CACHED);
        if result == call::EINVAL || result == call::ENOSYS {
            super::missing(super::lacking::RESOLVE_CACHED);
            return find_waiting(directory, path, flags);
        }
        result
    }
}

/// Looks a path up, waiting for the device.
///
/// # Safety
/// As [`find`].
pub unsafe fn find_waiting(directory: isize, path: usize, flags: u32) -> isize {
    let flags = flags | n::O_CLOEXEC | n::O_PATH;
    // SAFETY: the caller's.
    unsafe { sys!(n::__NR_openat, directory, path, flags, 0) }
}

/// # Safety
/// As [`find`].
unsafe fn find_with(directory: isize, path: usize, flags: u32, resolve: u32) -> isize {
    let how = n::open_how {
        flags: u64::from(flags | n::O_CLOEXEC | n::O_PATH),
        mode: 0,
        resolve: u64::from(resolve),
    };
    // SAFETY: the caller's; the structure is a local.
    unsafe { sys!(n::__NR_openat2, directory, path, &raw const how, size_of::<n::open_how>()) }
}

/// Opens the regular file or directory that `found` names, for reading, without a trace.
pub fn open_found(proc_descriptors: isize, found: isize) -> isize {
    let flags = n::O_RDONLY | n::O_NONBLOCK | n::O_CLOEXEC;
    let fd = open_again(proc_descriptors, found, flags | n::O_NOATIME);
    if call::is(fd, errno::EPERM) && !keeps_every_access(found) {
        return open_again(proc_descriptors, found, flags);
    }
    fd
}

/// Whether each read of a file changes its access time, so that one of a speculator's would show.
fn keeps_every_access(found: isize) -> bool {
    const RARE: i64 = (n::MS_NOATIME | n::MS_RDONLY) as i64 | ST_RELATIME;
    /// Of `statfs(2)`; the kernel's headers leave it out.
    const ST_RELATIME: i64 = 0x1000;
    let mut system = MaybeUninit::<n::statfs>::zeroed();
    // SAFETY: the call fills a local, for which all zeros is valid.
    let flags = unsafe {
        (sys!(n::__NR_fstatfs, found, system.as_mut_ptr()) == 0).then(|| system.assume_init().f_flags)
    };
    flags.is_some_and(|flags| flags & RARE == 0)
}

/// A descriptor that only names what `found` leads to.
pub fn name_found(proc_descriptors: isize, found: isize) -> isize {
    open_again(proc_descriptors, found, n::O_PATH | n::O_CLOEXEC)
}

fn open_again(proc_descriptors: isize, found: isize, flags: u32) -> isize {
    let mut digits = [0u8; 20];
    let mut name = [0u8; 24];
    for (to, from) in name.iter_mut().zip(forebay_sigsafe::text::decimal(found as u64, &mut digits)) {
        *to = *from;
    }
    // SAFETY: the name is terminated.
    unsafe { sys!(n::__NR_openat, proc_descriptors, name.as_ptr(), flags, 0) }
}

/// Closes.
pub fn close(file: isize) {
    // SAFETY: the descriptor is this process's own.
    let _ = unsafe { sys!(n::__NR_close, file) };
}

/// Sleeps.
pub fn pause(microseconds: i64) {
    let pause = n::__kernel_timespec { tv_sec: 0, tv_nsec: microseconds * 1000 };
    // SAFETY: the call reads a local.
    let _ = unsafe { sys!(n::__NR_nanosleep, &raw const pause, 0) };
}
