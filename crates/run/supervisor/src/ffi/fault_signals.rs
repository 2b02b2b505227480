//! Events of the kernel that send a process a signal at its own page faults (perf_event_open(2)).
//!
//! # Safety
//! Each function here is safe to call: it takes numbers and owned descriptors.
#![allow(unsafe_code, reason = "fcntl(2) and ioctl(2) with values of ours, and pages of our own")]

use std::{
    ffi::c_int,
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    time::{Duration, Instant},
};

use super::events::{CALLER, Counted, Event, Faults, bit};

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
    let event = open(Faults::Major, thread, period)?;
    let owner = Owner { kind: OWNER_THREAD, id: thread as c_int };
    // SAFETY: the call reads the structure.
    if unsafe { libc::fcntl(event.as_raw_fd(), F_SETOWN_EX, &raw const owner) } < 0 {
        return Err(io::Error::last_os_error());
    }
    begin(&event)?;
    Ok(event)
}

/// Opens an event of a thread's faults.
fn open(faults: Faults, thread: u32, period: u64) -> io::Result<OwnedFd> {
    let event = Event {
        faults,
        period,
        sample_type: 0,
        bits: bit::EXCLUDE_KERNEL | bit::EXCLUDE_HYPERVISOR | bit::REMOVE_ON_EXEC,
        wakeup_events: 1,
        clock: 0,
    };
    event.open(Counted::Thread(thread))
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
    let event = open(Faults::Minor, CALLER, 1)?;
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
