//! Memory without an address.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_linux::kernel_text;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};

use crate::{Error, PAGE_BYTES};

/// Bytes that the kernel could give to programs now, swap included (`/proc/meminfo`). An object of more would not be
/// refused: other processes would be killed for it.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    Some(meminfo("MemAvailable")? + free_swap_bytes()?)
}

/// Bytes of swap that nothing is in.
#[must_use]
pub fn free_swap_bytes() -> Option<u64> {
    meminfo("SwapFree")
}

fn meminfo(name: &str) -> Option<u64> {
    kernel_text::bytes(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// A memory object, all of whose pages exist. It is gone with its last descriptor and mapping.
#[derive(Debug)]
pub struct Object {
    memory: OwnedFd,
    bytes: usize,
}

impl Object {
    /// One of `bytes`, rounded up to whole pages, full of zeros.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let allocate = || {
            let memory = memfd_create("forebay", MemfdFlags::CLOEXEC)?;
            ftruncate(&memory, bytes as u64)?;
            // A fault on a page that exists is a minor one, which can be held back; and memory runs out here, not later.
            fallocate(&memory, FallocateFlags::empty(), 0, bytes as u64)?;
            Ok(memory)
        };
        let memory =
            allocate().map_err(|source: rustix::io::Errno| Error::Object { bytes, source: source.into() })?;
        Ok(Self { memory, bytes })
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl AsFd for Object {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}
