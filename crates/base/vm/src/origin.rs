//! Tells the process that made something from children that it forks, without a system call.

use std::{
    process, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use crate::{Error, PAGE_BYTES};

/// The process in which it was made.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Its id there, and 0 in a child.
    mark: &'static AtomicU32,
    process: u32,
}

impl Origin {
    /// This process.
    ///
    /// # Errors
    /// The kernel has no page that is empty in a child.
    pub fn here() -> Result<Self, Error> {
        static MARK: OnceLock<Result<&'static AtomicU32, i32>> = OnceLock::new();
        let error =
            |errno: i32| Error::Words { bytes: PAGE_BYTES, source: std::io::Error::from_raw_os_error(errno) };
        let mark = MARK.get_or_init(|| page().map_err(rustix::io::Errno::raw_os_error)).map_err(error)?;
        let process = process::id();
        mark.store(process, Relaxed);
        Ok(Self { mark, process })
    }

    /// Whether this is that process. In a signal handler too.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.mark.load(Relaxed) == self.process
    }
}

/// A word that is 0 in a child that is forked.
fn page() -> rustix::io::Result<&'static AtomicU32> {
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing, and stays for as long as the process lives.
    // Any bytes are an atomic word.
    unsafe {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        let page = mmap_anonymous(ptr::null_mut(), PAGE_BYTES, flags, MapFlags::PRIVATE)?;
        madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork)?;
        Ok(AtomicU32::from_ptr(page.cast()))
    }
}
