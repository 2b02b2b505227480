//! Where the image's bytes are: memory, so that the machine's own disk plays no part.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::Error;

/// A file in memory: sparse, and never swapped out, since the swap could be on this very device.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn new(size_bytes: u64) -> Result<Self, Error> {
        // Before Linux 6.4 tmpfs has no `noswap`.
        let memory = unswappable(size_bytes)
            .or_else(|_| rustix::fs::memfd_create("forebay-slow-disk", MemfdFlags::CLOEXEC))
            .map_err(|error| Error::io("get memory for the image", error))?;
        rustix::fs::ftruncate(&memory, size_bytes)
            .map_err(|error| Error::io(format!("make an image of {size_bytes} bytes"), error))?;
        Ok(Self(File::from(memory)))
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    pub(super) fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    /// Gives the memory back; it reads as zeros from now on.
    pub(super) fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.0, mode, offset, length)?)
    }
}

fn unswappable(size_bytes: u64) -> rustix::io::Result<OwnedFd> {
    let size = size_bytes.to_string();
    let tmpfs = detached_mount("tmpfs", &[("size", &size), ("noswap", "")])?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::openat(&tmpfs, ".", flags, Mode::RUSR | Mode::WUSR)
}

/// A new file system that no path leads to. An option without a value is a flag.
pub(super) fn detached_mount(kind: &str, options: &[(&str, &str)]) -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for &(key, value) in options {
        if value.is_empty() {
            rustix::mount::fsconfig_set_flag(&context, key)?;
        } else {
            rustix::mount::fsconfig_set_string(&context, key, value)?;
        }
    }
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}
