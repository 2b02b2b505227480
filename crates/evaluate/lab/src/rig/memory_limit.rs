//! Less memory than the machine has.

use std::fs;
use std::path::{Path, PathBuf};

use super::memory_group;
use crate::cleanup::{CleanupProcess, Layer};
use crate::{Error, Profile};

/// A control group whose processes have only so much memory together, and swap without a limit, for as long as this
/// lives.
///
/// What they read into the page cache counts as well. The group goes with its owner however that ends; processes that
/// are still in it then leave it.
#[derive(Debug)]
pub struct MemoryLimit {
    bytes: u64,
    cleanup: CleanupProcess,
}

impl MemoryLimit {
    /// Makes an empty group.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] without root or a memory controller.
    pub fn start(bytes: u64) -> Result<Self, Error> {
        let parent = memory_group::parent()?;
        let cleanup = CleanupProcess::start(Layer::MemoryGroup, Profile::Local, bytes, &parent)?;
        Ok(Self { bytes, cleanup })
    }

    /// Whether this process can have such groups.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] says what is missing.
    pub fn supported() -> Result<(), Error> {
        memory_group::parent().map(drop)
    }

    /// Changes the limit. Where there is less than the processes use, the kernel takes the rest from them.
    ///
    /// # Errors
    ///
    /// When the kernel cannot take so much, as without swap (version 1), or when the group is gone.
    pub fn set(&self, bytes: u64) -> Result<(), Error> {
        memory_group::set_limit(self.folder(), bytes)
    }

    /// The memory that the processes had at first.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The group's folder.
    pub fn folder(&self) -> &Path {
        self.cleanup.mount_point()
    }

    /// The file through which processes join: a process that writes `0` to it joins, and with it its later children.
    pub fn processes_file(&self) -> PathBuf {
        self.folder().join(memory_group::PROCESSES)
    }

    /// Lets a process join. What it has in memory already stays with the group that it leaves.
    ///
    /// # Errors
    ///
    /// When there is no such process.
    pub fn add(&self, process: u32) -> Result<(), Error> {
        let file = self.processes_file();
        fs::write(&file, process.to_string()).map_err(|error| Error::at("write to", &file, error))
    }

    /// The processes that are in the group.
    ///
    /// # Errors
    ///
    /// When the group is gone.
    pub fn processes(&self) -> Result<Vec<u32>, Error> {
        let file = self.processes_file();
        let text = fs::read_to_string(&file).map_err(|error| Error::at("read", &file, error))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The most that the group has used, or where the kernel does not tell that, what it uses.
    #[must_use]
    pub fn used_at_most(&self) -> Option<u64> {
        memory_group::used_at_most(self.folder())
    }

    /// How many of its processes the kernel has killed because the memory, and all swap, did not suffice.
    ///
    /// # Errors
    ///
    /// When the group is gone.
    pub fn kills(&self) -> Result<u64, Error> {
        memory_group::kills(self.folder())
    }

    /// The process that removes the group when its owner is gone.
    pub fn cleanup_pid(&self) -> u32 {
        self.cleanup.pid()
    }
}
