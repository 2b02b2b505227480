//! Events of the kernel that send a process a signal at its own page faults (perf_event_open(2)).
//!
//! # Safety
//! Each function here is safe to call: it takes numbers and owned descriptors.
#![allow(unsafe_code, reason = "perf_event_open(2) and fcntl(2) with structures of ours")]

use std::{
    ffi::c_int,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
    time::{Duration, Instant},
};

/// The parts of `struct perf_event_attr` in use (perf_event_open(2)).
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    event: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    bits: u64,
    wakeup_events: u32,
    rest: [u32; 15],
}

const EVENT_SOFTWARE: u32 = 1;
const EVENT_PAGE_FAULTS_MINOR: u64 = 5;
const EVENT_PAGE_FAULTS_MAJOR: u64 = 6;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const REMOVE_ON_EXEC: u64 = 1 << 36;
const EVENT_CLOEXEC: u64 = 1 << 3;
const EVENT_PERIOD: libc::Ioctl = 0x4008_2404;

/// Whom a descriptor's signals go to (fcntl(2)).
#[repr(C)]
struct Owner {
    kind: c_int,
    id: c_int,
}

const OWNER_THREAD: c_int = 0;
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;

/// Has the kernel send a thread SIGURG after one in `period` of its page faults in user mode that waited for a device, until the
/// descriptor is closed or the process executes another program.
///
/// # Errors
/// The kernel has no such events, or forbids them.
pub fn open_fault_signals(thread: u32, period: u64) -> io::Result<OwnedFd> {
    let event = open(EVENT_PAGE_FAULTS_MAJOR, thread, period)?;
    let owner = Owner { kind: OWNER_THREAD, id: thread as c_int };
    // SAFETY: the call reads the structure.
    if unsafe { libc::fcntl(event.as_raw_fd(), F_SETOWN_EX, &raw const owner) } < 0 {
        return Err(io::Error::last_os_error());
    }
    begin(&event)?;
    Ok(event)
}

/// Opens an event of a thread's faults.
fn open(kind: u64, thread: u32, period: u64) -> io::Result<OwnedFd> {
    let attributes = EventAttributes {
        kind: EVENT_SOFTWARE,
        size: size_of::<EventAttributes>() as u32,
        event: kind,
        sample_period: period,
        bits: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | REMOVE_ON_EXEC,
        wakeup_events: 1,
        ..EventAttributes::default()
    };
    // SAFETY: the call reads the structure, whose size it is told; the descriptor is a new one.
    unsafe {
        let event =
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, -1, -1, EVENT_CLOEXEC);
        if event < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(event as c_int)) }
    }
}

/// Has the event cause signals, if it has an owner.
fn begin(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: the calls take numbers.
    unsafe {
        if libc::fcntl(event.as_raw_fd(), F_SETSIG, libc::SIGURG) < 0
            || libc::fcntl(event.as_raw_fd(), libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) < 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Faults that are timed with an event and without.
const TIMED: usize = 32;
const PAGE: usize = 4096;

/// How much longer a page fault of this thread takes where it causes a signal: of an event without an owner, so none comes.
///
/// # Errors
/// The kernel has no such events, or forbids them, or gives no memory.
pub fn fault_signal_time() -> io::Result<Duration> {
    let without = fault_time()?;
    let event = open(EVENT_PAGE_FAULTS_MINOR, 0, 1)?;
    begin(&event)?;
    Ok(fault_time()?.saturating_sub(without))
}

/// What the first touch of a page takes: the median of some.
fn fault_time() -> io::Result<Duration> {
    let bytes = TIMED * PAGE;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let mut times = [Duration::ZERO; TIMED];
    // SAFETY: a new mapping overlaps nothing of ours, and the pages that are written to are its own.
    unsafe {
        let pages = libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0);
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::madvise(pages, bytes, libc::MADV_NOHUGEPAGE);
        for (index, time) in times.iter_mut().enumerate() {
            let begun = Instant::now();
            pages.cast::<u8>().add(index * PAGE).write_volatile(1);
            *time = begun.elapsed();
        }
        libc::munmap(pages, bytes);
    }
    times.sort_unstable();
    Ok(times[TIMED / 2])
}

/// Has an event of [`open_fault_signals`] cause a signal after one fault in `period` from now on.
pub fn signal_one_in(event: &OwnedFd, period: u64) {
    // SAFETY: the request reads the number.
    unsafe { libc::ioctl(event.as_raw_fd(), EVENT_PERIOD, &raw const period) };
}

/// Whether the kernel counts page faults of this user's processes and tells of each.
#[must_use]
pub fn has_fault_signals() -> bool {
    open_fault_signals(std::process::id(), 1).is_ok()
}
