//! Events of the kernel that tell which pages a program and its children waited for, from its first instruction on
//! (perf_event_open(2)).
//!
//! # Safety
//! Each function here is safe to call: it takes owned descriptors, and a ring is read within its mapping.
#![allow(unsafe_code, reason = "a mapping that the kernel writes to, and sysconf(3)")]

use std::{
    ffi::{c_int, c_void},
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release},
};

use super::events::{CALLER, Counted, Event, Faults, bit};

const SAMPLE_TID_TIME_ADDRESS: u64 = 1 << 1 | 1 << 2 | 1 << 3;

/// Each process has an event for each processor, which a fork copies and a switch looks at: beyond so many, forks would take
/// too long.
const PROCESSORS_MAX: i64 = 64;

/// Opens events of the faults of a process with one thread, or of this one, and of its children's: one for each processor. They
/// begin with the next program that the process or such a child executes.
///
/// # Errors
/// The kernel has no such events or forbids them, or there are too many processors.
pub fn open_fault_samples(process: Option<u32>) -> io::Result<Vec<OwnedFd>> {
    // SAFETY: the call takes a number.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    if processors > PROCESSORS_MAX {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let open_all = |without| -> io::Result<Vec<OwnedFd>> {
        let events = (0..processors as c_int).filter_map(|processor| {
            match open(process.unwrap_or(CALLER), processor, without) {
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => None,
                opened => Some(opened),
            }
        });
        events.collect()
    };
    // Those in the kernel, as it copies to a mapped file, take a right.
    open_all(bit::EXCLUDE_HYPERVISOR).or_else(|_| open_all(bit::EXCLUDE_HYPERVISOR | bit::EXCLUDE_KERNEL))
}

fn open(process: u32, processor: c_int, without: u64) -> io::Result<OwnedFd> {
    let event = Event {
        faults: Faults::Major,
        period: 1,
        sample_type: SAMPLE_TID_TIME_ADDRESS,
        bits: bit::DISABLED
            | bit::INHERIT
            | without
            | bit::MMAP
            | bit::COMM
            | bit::ENABLE_ON_EXEC
            | bit::TASK
            | bit::MMAP_DATA
            | bit::SAMPLE_ID_ALL
            | bit::MMAP2
            | bit::COMM_EXEC
            | bit::USE_CLOCK,
        wakeup_events: 0,
        clock: libc::CLOCK_MONOTONIC_RAW,
    };
    event.open(Counted::OnProcessor(process, processor))
}

/// Where the kernel puts the records of an event. The event lives as long as this, whether its descriptor is closed or not.
pub struct Ring {
    start: *mut c_void,
    data_bytes: usize,
}

const PAGE: usize = 4096;
/// Room for records, in pages: as much as the kernel lets this user have, of these.
const DATA_PAGES: [usize; 4] = [64, 32, 16, 8];
/// Of `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

impl Ring {
    /// Maps the ring of an event.
    ///
    /// # Errors
    /// The kernel refuses the memory.
    pub fn new(event: &OwnedFd) -> io::Result<Self> {
        let mut refused = io::Error::from(io::ErrorKind::OutOfMemory);
        for pages in DATA_PAGES {
            let bytes = (1 + pages) * PAGE;
            // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
            let start = unsafe {
                let protection = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, event.as_raw_fd(), 0)
            };
            if start != libc::MAP_FAILED {
                return Ok(Self { start, data_bytes: pages * PAGE });
            }
            refused = io::Error::last_os_error();
        }
        Err(refused)
    }

    /// Appends to `bytes` what the kernel has written since the last time.
    pub fn take(&self, bytes: &mut Vec<u8>) {
        let (head, tail) = (self.position(HEAD).load(Acquire), self.position(TAIL).load(Relaxed));
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        let from = tail as usize % self.data_bytes;
        let first = length.min(self.data_bytes - from);
        bytes.reserve(length);
        for (from, length) in [(from, first), (0, length - first)] {
            // SAFETY: the range is within the data, which begins behind the first page; the kernel writes only behind `head`.
            let part = unsafe {
                std::slice::from_raw_parts(self.start.cast::<u8>().add(PAGE + from).cast_const(), length)
            };
            bytes.extend_from_slice(part);
        }
        self.position(TAIL).store(head, Release);
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: an aligned word of the first page, which kernel and reader change by atomic stores.
        unsafe { &*self.start.byte_add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's, and no reference into it is left.
        unsafe { libc::munmap(self.start, PAGE + self.data_bytes) };
    }
}
