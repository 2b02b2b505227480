//! Which parts of a file are in memory, where a file system refuses reads that do not wait.
//!
//! A mapping tells it: its residency is that of the pages it would show, also where a file system passes mappings on
//! to another one. The mapping is of the caller's own, and gone when the question is answered.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::price::ADVICE_WAITS_AMONG;
use forebay_protocol::layout::{Device, file_system};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{call, errno, sys, ticks};

use crate::attributes;

const PAGE: u64 = 4096;
/// Pages that are asked about together.
const PAGES: usize = 64;

/// Whether a read that must not wait was refused: the kernel, or the file's system, has none.
pub const fn is_refusal(read: isize) -> bool {
    matches!(read, call::EINVAL | call::ENOSYS) || call::is(read, errno::EOPNOTSUPP)
}

/// Whether a range of a file is in memory; `None` where the kernel does not tell.
#[inline(never)]
pub fn of(file: isize, offset: u64, length: u64) -> Option<bool> {
    if !is_told(file) {
        return None;
    }
    let start = offset & !(PAGE - 1);
    let end = offset.checked_add(length)?.checked_next_multiple_of(PAGE)?;
    let mut at = start;
    while at < end {
        let part = (end - at).min(PAGES as u64 * PAGE);
        if !is_whole(file, at, part)? {
            return Some(false);
        }
        at += part;
    }
    Some(true)
}

fn is_whole(file: isize, offset: u64, length: u64) -> Option<bool> {
    let mut pages = [0u8; PAGES];
    // SAFETY: the mapping is new, nothing touches it, and it is gone again at the end. One byte for each of its pages goes
    // into a local.
    let result = unsafe {
        let address = sys!(n::__NR_mmap, 0, length, n::PROT_READ, n::MAP_PRIVATE, file, offset);
        if address <= 0 {
            return None;
        }
        let result = sys!(n::__NR_mincore, address, length, pages.as_mut_ptr());
        let _ = sys!(n::__NR_munmap, address, length);
        result
    };
    let pages = pages.get(..(length / PAGE) as usize)?;
    (result == 0).then(|| pages.iter().all(|page| page & 1 != 0))
}

/// Whether the kernel tells this process which pages of the file are in memory: of others' files it says that all are.
pub fn is_told(file: isize) -> bool {
    // SAFETY: takes nothing.
    let user = unsafe { sys!(n::__NR_geteuid) };
    user == 0 || attributes::of(file).is_some_and(|stat| stat.st_uid as isize == user)
}

/// Whether something is known of the file system on a device.
pub fn has(device: Option<&Device>, bit: u32) -> bool {
    device.is_some_and(|device| device.file_system.load(Relaxed) & bit != 0)
}

/// Whether a local device is to be left to the kernel's own readahead, in mapped files, too.
pub fn reads_in_its_stride(device: Option<&Device>) -> bool {
    has(device, file_system::CLOSED) && !has(device, file_system::REMOTE)
}

/// Notes something of the file system on a device.
pub fn note(device: Option<&Device>, bit: u32) {
    if let Some(device) = device
        && device.file_system.load(Relaxed) & bit == 0
    {
        device.file_system.fetch_or(bit, Relaxed);
    }
}

fn forget(device: Option<&Device>, bit: u32) {
    if has(device, bit)
        && let Some(device) = device
    {
        device.file_system.fetch_and(!bit, Relaxed);
    }
}

/// Starts the device on a range of a file, and notes whether the file system waits for it then.
#[inline(never)]
pub fn request(file: isize, offset: u64, length: u64, device: Option<&Device>) {
    let waits = || crate::usage::of(n::RUSAGE_THREAD as i32).ru_nvcsw;
    let before = waits();
    // SAFETY: no memory is involved.
    let _ = unsafe { sys!(n::__NR_fadvise64, file, offset, length, n::POSIX_FADV_WILLNEED) };
    // A wait may be one for where the data are. Two among few requests are those for the data.
    if waits() == before {
        if ticks().is_multiple_of(ADVICE_WAITS_AMONG) {
            forget(device, file_system::ADVICE_WAITED);
        }
    } else if has(device, file_system::ADVICE_WAITED) {
        note(device, file_system::ADVICE_WAITS);
    } else {
        note(device, file_system::ADVICE_WAITED);
    }
}
