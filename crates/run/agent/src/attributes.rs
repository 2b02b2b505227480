//! Attributes of files, as the kernel has them or has told them: a remote file system is not asked.

use core::mem::MaybeUninit;

use forebay_sigsafe::general as n;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, errno, sys};

use crate::call::Call;
use crate::signatures;

/// What the kernel knows of the file of a descriptor.
#[inline(never)]
pub fn of(descriptor: isize) -> Option<n::stat> {
    // SAFETY: a terminated path.
    match unsafe { known(descriptor, c"".as_ptr().cast(), n::AT_EMPTY_PATH) } {
        Ok(stat) => Some(stat),
        Err(result) if call::is(result, errno::EBADF) => None,
        // A filter of the program's may not know the call.
        Err(_) => ask(descriptor),
    }
}

/// What the kernel knows of what is at a path.
pub fn at<const N: usize>(path: &PathBuffer<N>) -> Option<n::stat> {
    // SAFETY: a terminated path.
    unsafe { known(n::AT_FDCWD as isize, path.as_ptr(), n::AT_NO_AUTOMOUNT) }.ok()
}

/// What the kernel knows of the regular file that the path of a call names, which need not be readable memory.
///
/// # Safety
/// The program is making `call`, which takes a path.
pub unsafe fn named(call: &Call, nofollow: bool) -> Option<n::stat> {
    let (directory, path) = signatures::place_of_path(call);
    let flags = n::AT_NO_AUTOMOUNT | if nofollow { n::AT_SYMLINK_NOFOLLOW } else { 0 };
    // SAFETY: the kernel reads the path as it would for the call.
    let stat = unsafe { known(directory as isize, path, flags) }.ok()?;
    (stat.st_mode & n::S_IFMT == n::S_IFREG).then_some(stat)
}

/// # Safety
/// The path is terminated, or the program's.
unsafe fn known(descriptor: isize, path: *const u8, flags: u32) -> Result<n::stat, isize> {
    let mut known = MaybeUninit::<n::statx>::zeroed();
    // SAFETY: the caller's; the call fills a structure of integers, whose zeroes are valid.
    unsafe {
        let (flags, mask) = (flags | n::AT_STATX_DONT_SYNC, n::STATX_BASIC_STATS);
        let result = sys!(n::__NR_statx, descriptor, path, flags, mask, known.as_mut_ptr());
        if result == 0 { Ok(as_stat(&known.assume_init())) } else { Err(result) }
    }
}

/// What a call has told of a path. Of statx(2) that is only what it was asked for.
///
/// # Safety
/// The kernel has just made the call, with success.
pub unsafe fn told(call: &Call) -> Option<n::stat> {
    let [_, b, c, _, e, _] = call.arguments;
    let stat = match call.number as u32 {
        n::__NR_stat | n::__NR_lstat => b as *const n::stat,
        n::__NR_newfstatat => c as *const n::stat,
        // SAFETY: the kernel has just filled the structure.
        n::__NR_statx => return Some(as_stat(&unsafe { (e as *const n::statx).read_unaligned() })),
        _ => return None,
    };
    // SAFETY: as above.
    Some(unsafe { stat.read_unaligned() })
}

/// Asks the file system.
fn ask(descriptor: isize) -> Option<n::stat> {
    let mut stat = MaybeUninit::<n::stat>::zeroed();
    // SAFETY: the call fills the structure, whose zeroes are valid too.
    unsafe { (sys!(n::__NR_fstat, descriptor, stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) }
}

fn as_stat(known: &n::statx) -> n::stat {
    // SAFETY: a structure of integers, whose zeroes are valid.
    let mut stat = unsafe { MaybeUninit::<n::stat>::zeroed().assume_init() };
    stat.st_dev = device(known.stx_dev_major, known.stx_dev_minor);
    stat.st_rdev = device(known.stx_rdev_major, known.stx_rdev_minor);
    stat.st_ino = known.stx_ino;
    stat.st_nlink = known.stx_nlink.into();
    stat.st_mode = known.stx_mode.into();
    stat.st_uid = known.stx_uid;
    stat.st_gid = known.stx_gid;
    stat.st_size = known.stx_size as _;
    stat.st_blksize = known.stx_blksize.into();
    stat.st_blocks = known.stx_blocks as _;
    let times = [known.stx_atime, known.stx_mtime, known.stx_ctime];
    let [atime, mtime, ctime] = times.map(|time| (time.tv_sec as _, time.tv_nsec.into()));
    (stat.st_atime, stat.st_atime_nsec) = atime;
    (stat.st_mtime, stat.st_mtime_nsec) = mtime;
    (stat.st_ctime, stat.st_ctime_nsec) = ctime;
    stat
}

/// The parts of a device's number.
pub const fn major_and_minor(device: u64) -> (u32, u32) {
    ((device >> 8 & 0xfff) as u32, (device & 0xff | device >> 12 & 0xfff00) as u32)
}

/// The number of a device as `fstat` tells it.
pub const fn device(major: u32, minor: u32) -> u64 {
    (minor as u64 & 0xff) | (major as u64) << 8 | (minor as u64 & !0xff) << 12
}
