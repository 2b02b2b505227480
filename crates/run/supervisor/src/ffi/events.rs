//! Events of the kernel that count page faults (perf_event_open(2)).
//!
//! # Safety
//! The function here is safe to call: it takes numbers, and returns an owned descriptor.
#![allow(unsafe_code, reason = "perf_event_open(2) with a structure of ours")]

use std::{
    ffi::c_int,
    io,
    os::fd::{FromRawFd, OwnedFd},
};

/// `struct perf_event_attr` (perf_event_open(2)), up to what PERF_ATTR_SIZE_VER5 has.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    event: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    bits: u64,
    wakeup_events: u32,
    breakpoint: u32,
    more: [u64; 4],
    stack: u32,
    clock: i32,
    rest: [u64; 2],
}

const KIND_SOFTWARE: u32 = 1;
const CLOEXEC: u64 = 1 << 3;

/// Page faults that are counted.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(super) enum Faults {
    /// Those that wait for no device.
    Minor = 5,
    /// Those that wait for a device.
    Major = 6,
}

/// Threads and processors whose faults are counted.
#[derive(Clone, Copy)]
pub(super) enum Counted {
    /// Those of this thread, wherever it runs.
    Thread(u32),
    /// Those of this thread on this processor.
    OnProcessor(u32, c_int),
}

/// The calling thread, to the kernel.
pub(super) const CALLER: u32 = 0;

/// Bits of [`Event::bits`].
pub(super) mod bit {
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const TASK: u64 = 1 << 13;
    pub const MMAP_DATA: u64 = 1 << 17;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCK: u64 = 1 << 25;
    pub const REMOVE_ON_EXEC: u64 = 1 << 36;
}

/// An event that is to be opened.
pub(super) struct Event {
    pub(super) faults: Faults,
    /// One fault in so many is told.
    pub(super) period: u64,
    /// Fields of a record; 0 without records.
    pub(super) sample_type: u64,
    /// Of [`bit`].
    pub(super) bits: u64,
    /// Records after which a reader is woken; 0 without a reader.
    pub(super) wakeup_events: u32,
    /// The clock of records, with [`bit::USE_CLOCK`].
    pub(super) clock: c_int,
}

impl Event {
    /// Opens it. The descriptor closes when this process executes another program.
    pub(super) fn open(&self, counted: Counted) -> io::Result<OwnedFd> {
        let attributes = Attributes {
            kind: KIND_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            event: self.faults as u64,
            sample_period: self.period,
            sample_type: self.sample_type,
            bits: self.bits,
            wakeup_events: self.wakeup_events,
            clock: self.clock,
            ..Attributes::default()
        };
        let (thread, processor) = match counted {
            Counted::Thread(thread) => (thread, -1),
            Counted::OnProcessor(thread, processor) => (thread, processor),
        };
        // SAFETY: the call reads the structure, whose size it is told; the descriptor is a new one.
        unsafe {
            let event = libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread,
                processor,
                -1,
                CLOEXEC,
            );
            if event < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(event as c_int)) }
        }
    }
}
