//! The memory shared with agents, mapped.
//!
//! # Safety
//! Each function here is safe to call: the descriptor is checked, and slots are within the mapping.
#![allow(unsafe_code, reason = "memory that other processes change is reached through a raw mapping")]

use std::{
    ffi::c_void,
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use forebay_protocol::access_log::AccessLog;
use forebay_protocol::layout::{CHANNEL_BYTES, HEADER_BYTES, Header, SLOTS, Slot, slot_offset};

/// The channel's memory object, mapped shared for the rest of the process's life.
#[derive(Clone, Copy)]
pub struct Mapping(*mut c_void);

// SAFETY: the mapping is never unmapped and all that is reached through it is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first [`CHANNEL_BYTES`] of `memory`, which must be a sealed memory object of that size.
    ///
    /// # Errors
    /// `memory` is smaller, can shrink, or cannot be mapped.
    pub fn new(memory: BorrowedFd<'_>) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(memory)?;
        let size = rustix::fs::fstat(memory)?.st_size;
        if !seals.contains(rustix::fs::SealFlags::SHRINK) || usize::try_from(size) != Ok(CHANNEL_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                CHANNEL_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                memory.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(address)) }
    }

    /// The header.
    pub fn header(self) -> &'static Header {
        // SAFETY: the mapping starts with room for a header, is page aligned, cannot shrink (sealed), is never
        // unmapped, and every field is an atomic for which any bytes are valid.
        unsafe { &*self.0.cast::<Header>() }
    }

    /// The access log.
    pub fn access_log(self) -> &'static AccessLog {
        // SAFETY: as for the header; the log lies behind it, a whole number of pages inside the mapping.
        unsafe { &*self.0.byte_add(HEADER_BYTES).cast::<AccessLog>() }
    }

    /// Slot `index`.
    ///
    /// # Panics
    /// `index` is not below [`SLOTS`].
    pub fn slot(self, index: usize) -> &'static Slot {
        assert!(index < SLOTS);
        // SAFETY: as for the header; the offset is a whole number of pages inside the mapping.
        unsafe { &*self.0.byte_add(slot_offset(index)).cast::<Slot>() }
    }
}
