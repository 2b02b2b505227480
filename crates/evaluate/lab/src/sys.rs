//! Kernel calls that have no safe wrapper elsewhere, one function each. All of this crate's unsafe code is here.
//!
//! # Safety
//!
//! Every function is safe to call. Descriptors are borrowed for the length of the call. Memory handed to the kernel lives
//! on the stack of the function or in the slice given to it, and sizes are those of that memory.
#![allow(unsafe_code, reason = "system calls without a safe wrapper")]

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use rustix::thread::UnshareFlags;

// <linux/loop.h>
const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
// <linux/fs.h>
const BLKFLSBUF: libc::Ioctl = 0x1261;
// <linux/swap.h>
const SWAP_FLAG_PREFER: libc::c_int = 0x8000;
const SWAP_PRIORITY_MAX: u16 = 0x7fff;
// The same number on every architecture.

/// `struct loop_info64` of `<linux/loop.h>`.
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of `<linux/loop.h>`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// The number of a loop device that nobody uses at this moment (loop(4), `LOOP_CTL_GET_FREE`).
pub(crate) fn free_loop_device(control: &File) -> io::Result<u32> {
    // SAFETY: this request takes no argument and writes no memory.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Puts `image` under the loop device, with direct I/O, until the last user of the device is gone (loop(4),
/// `LOOP_CONFIGURE`). `name` is shown by losetup.
pub(crate) fn configure_loop_device(device: &File, image: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: all the fields are integers, for which zero is a value.
    let mut config: LoopConfig = unsafe { zeroed() };
    config.fd = image.as_raw_fd() as u32;
    config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    // The last byte stays zero.
    for (to, from) in config.info.file_name[..63].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: the kernel reads a `loop_config` from the address of one.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, ptr::from_ref(&config)) })
}

/// Takes the image from under the loop device: now, or when its last user is gone (loop(4), `LOOP_CLR_FD`).
pub(crate) fn clear_loop_device(device: &File) -> io::Result<()> {
    // SAFETY: this request takes no argument and writes no memory.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) })
}

/// Writes back and drops the buffers of a block device.
pub(crate) fn flush_block_buffers(device: &File) -> io::Result<()> {
    // SAFETY: this request takes no argument and writes no memory.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF) })
}

/// How many pages of a file of `size_bytes` are in the page cache, by mincore(2): for kernels without cachestat.
pub(crate) fn resident_pages(file: &File, size_bytes: u64) -> io::Result<u64> {
    let length = usize::try_from(size_bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    if length == 0 {
        return Ok(0);
    }
    let mut pages = vec![0u8; length.div_ceil(rustix::param::page_size())];
    // SAFETY: a new mapping at an address of the kernel's choice, which nothing reads or writes: mincore only looks at
    // the page tables and the page cache, so that the file may shrink meanwhile.
    let mapping = unsafe {
        libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if mapping == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `length` bytes long and `pages` has a byte for each of its pages.
    let looked = check(unsafe { libc::mincore(mapping, length, pages.as_mut_ptr()) });
    // SAFETY: this function made the mapping and nothing refers to it.
    unsafe { libc::munmap(mapping, length) };
    looked.map(|()| pages.iter().filter(|page| **page & 1 == 1).count() as u64)
}

/// Starts swapping to a device that mkswap has been at, before every device of a lower priority (swapon(2)).
pub(crate) fn swap_on(device: &Path, priority: u16) -> io::Result<()> {
    let path = std::ffi::CString::new(device.as_os_str().as_bytes())?;
    let flags = SWAP_FLAG_PREFER | libc::c_int::from(priority.min(SWAP_PRIORITY_MAX));
    // SAFETY: `path` is a string with a terminating zero that lives until the call returns.
    check(unsafe { libc::swapon(path.as_ptr(), flags) })
}

/// Stops swapping to a device.
pub(crate) fn swap_off(device: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(device.as_os_str().as_bytes())?;
    // SAFETY: `path` is a string with a terminating zero that lives until the call returns.
    check(unsafe { libc::swapoff(path.as_ptr()) })
}

/// Gives the calling thread, and those that it starts, a copy of the process's table of descriptors as its own.
pub(crate) fn unshare_descriptors() -> io::Result<()> {
    // SAFETY: from here on the thread's descriptors are its own. It was handed none by value, so it holds no `OwnedFd`
    // whose descriptor another thread could believe to be shared; the copies it got are closed when it ends.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }?)
}

/// Gives the process, which has one thread, a namespace of mounts of its own, with a copy of each mount.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: the call copies no table of descriptors, so that no owner of a descriptor is wrong about it.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?)
}

/// Closes every descriptor from `first` on: those that the process was started with by no wish of ours.
///
/// Only for a process that has opened nothing of its own yet.
pub(crate) fn close_inherited_from(first: RawFd) {
    // SAFETY: by the rule above nothing in this process owns any of them. Where the call is missing they stay open.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0 as libc::c_uint) };
}

/// Blocks the signals that a terminal, a shell or a broken pipe would end the process by. Threads inherit it.
pub(crate) fn block_terminal_signals() {
    // SAFETY: the set is initialised by sigemptyset before it is used, and no pointer outlives its call.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGTSTP,
            libc::SIGPIPE,
            libc::SIGUSR1,
            libc::SIGUSR2,
        ] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

/// Keeps the process in memory: what serves a block device must not wait for one. Without the right to it, nothing
/// changes.
pub(crate) fn stay_in_memory() {
    // SAFETY: locks pages, changes no contents.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
}

/// Lets the calling thread run as soon as it wakes, as a device would that needs no CPU: lowest real-time priority.
/// Without the right to it, timers at least are exact.
pub(crate) fn become_prompt() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: reads the parameter from the stack; zero is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority) };
    // SAFETY: takes a number of nanoseconds and no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

/// Runs before `main` in a test program, which has none of its own.
#[cfg(any(test, feature = "before-main"))]
mod before_main {
    // SAFETY: the C library calls each entry of this section once, on the only thread there is, after it has set itself
    // up. The function has the type it expects, uses what std offers before `main` (environment, files, threads), and
    // returns at once in every process but a cleanup process.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static ENTER_IF_ASKED: extern "C" fn() = enter_if_asked;

    extern "C" fn enter_if_asked() {
        crate::cleanup::enter_if_asked();
    }
}
