//! Memory without an address.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::str::FromStr;

use forebay_linux::kernel_text;
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, fstat, ftruncate, memfd_create, open};
use rustix::io::{Errno, retry_on_intr};

use crate::{Error, PAGE_BYTES};

/// Small enough to be reserved between two signals of a timer.
const RESERVED_AT_ONCE: usize = 4 << 20;

/// Bytes that the kernel could give to programs now, swap included (`/proc/meminfo`). An object of more would not be
/// refused: other processes would be killed for it.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    Some(free_memory_bytes()? + free_swap_bytes()?)
}

/// Of them, bytes of memory.
#[must_use]
pub fn free_memory_bytes() -> Option<u64> {
    meminfo("MemAvailable")
}

/// Bytes of swap that nothing is in.
#[must_use]
pub fn free_swap_bytes() -> Option<u64> {
    meminfo("SwapFree")
}

fn meminfo(name: &str) -> Option<u64> {
    kernel_text::bytes(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// A memory object. It is gone with its last descriptor and mapping.
#[derive(Debug)]
pub struct Object {
    memory: OwnedFd,
    bytes: usize,
}

impl Object {
    /// One of `bytes`, rounded up to whole pages, full of zeros. All of its pages exist.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let object = Self::sparse(bytes)?;
        object.reserve(0, object.bytes)?;
        Ok(object)
    }

    /// Lets whole pages exist from now on, so that memory runs out here and not at their first use.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn reserve(&self, offset: usize, bytes: usize) -> Result<(), Error> {
        let end = offset + bytes;
        for start in (offset..end).step_by(RESERVED_AT_ONCE) {
            let piece = RESERVED_AT_ONCE.min(end - start) as u64;
            // The kernel undoes a piece that a signal interrupts.
            retry_on_intr(|| fallocate(&self.memory, FallocateFlags::empty(), start as u64, piece))
                .map_err(|source| Error::Object { bytes, source: source.into() })?;
        }
        Ok(())
    }

    /// One of `bytes` whose pages exist from their first use on.
    ///
    /// # Errors
    /// The kernel has no such object.
    pub fn sparse(bytes: usize) -> Result<Self, Error> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let create = || {
            let memory = memfd_create("forebay", MemfdFlags::CLOEXEC)?;
            ftruncate(&memory, bytes as u64)?;
            Ok(memory)
        };
        let memory = create().map_err(|source: Errno| Error::Object { bytes, source: source.into() })?;
        Ok(Self { memory, bytes })
    }

    /// By what another process of this user opens it, while this process has it.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn name(&self) -> Result<ObjectName, Error> {
        let bytes = self.bytes;
        let file = DescriptorName::of(&self.memory);
        Ok(ObjectName { file: file.map_err(|source| Error::Object { bytes, source })?, bytes })
    }

    /// The object that another process has named.
    ///
    /// # Errors
    /// That process is gone, out of sight, or does not let this one.
    pub fn named(name: &ObjectName) -> Result<Self, Error> {
        let bytes = name.bytes;
        let find = || {
            let memory = name.file.open(OFlags::RDWR)?;
            if fstat(&memory)?.st_size as u64 == bytes as u64 { Ok(memory) } else { Err(Errno::NOENT.into()) }
        };
        let memory = find().map_err(|source: io::Error| Error::Object { bytes, source })?;
        Ok(Self { memory, bytes })
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Where a file is that has no path: a process that has it open, the descriptor there, and the file's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorName {
    process: u32,
    descriptor: i32,
    inode: u64,
}

impl DescriptorName {
    /// That of a descriptor of this process.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let file = file.as_fd();
        let inode = fstat(file)?.st_ino;
        Ok(Self { process: std::process::id(), descriptor: file.as_raw_fd(), inode })
    }

    /// Opens what has this name.
    ///
    /// # Errors
    /// That process is gone, out of sight, or does not let this one.
    pub fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let path = format!("/proc/{}/fd/{}", self.process, self.descriptor);
        let file = open(path, flags | OFlags::CLOEXEC, Mode::empty())?;
        // The number may be that of another process where another namespace gave it.
        if fstat(&file)?.st_ino == self.inode { Ok(file) } else { Err(Errno::NOENT.into()) }
    }
}

impl fmt::Display for DescriptorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.process, self.descriptor, self.inode)
    }
}

impl FromStr for DescriptorName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split(' ').collect();
        let [process, descriptor, inode] = words[..] else { return Err(()) };
        Ok(Self { process: number(process)?, descriptor: number(descriptor)?, inode: number(inode)? })
    }
}

/// Where an object is, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectName {
    file: DescriptorName,
    bytes: usize,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file, self.bytes)
    }
}

impl FromStr for ObjectName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (file, bytes) = text.rsplit_once(' ').ok_or(())?;
        Ok(Self { file: file.parse()?, bytes: number(bytes)? })
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, ()> {
    text.parse().map_err(|_| ())
}

impl AsFd for Object {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}
