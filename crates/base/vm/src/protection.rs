//! The access that each vpage allows.

use std::{
    ffi::c_void,
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use forebay_sigsafe::{general as n, ioctl};
use rustix::mm::{Advice, MprotectFlags, UserfaultfdFlags, madvise, mprotect, userfaultfd};

use crate::{Error, PAGE_BYTES, Views, fault::Signal};

/// What may be done with a vpage. A thread that does more faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowed {
    /// Nothing.
    Nothing,
    /// Reading.
    Reading,
    /// Reading and writing.
    Writing,
}

/// A way to say what may be done with vpages.
pub trait Protection: Send + Sync {
    /// Says it of whole pages of a view from `address` on. May be said again, and in a signal handler.
    ///
    /// # Errors
    /// The kernel does not know the area, or cannot split more mappings.
    fn set(&self, address: usize, bytes: usize, allowed: Allowed) -> io::Result<()> {
        self.change(address, bytes, Allowed::Nothing, allowed)
    }

    /// The same, where it was probably `before` that was said of them last: the kernel is asked less often if so.
    ///
    /// # Errors
    /// As for [`Protection::set`].
    fn change(&self, address: usize, bytes: usize, before: Allowed, allowed: Allowed) -> io::Result<()>;

    /// The signal that a thread gets which does more.
    fn signal(&self) -> Signal;
}

/// The better way that the kernel lets us have for all of `views`. Nothing may be done with them at first.
///
/// # Errors
/// None works.
pub fn protection(views: &Views) -> Result<Box<dyn Protection>, Error> {
    match UserFaults::new(views) {
        Ok(faults) => Ok(Box::new(faults)),
        Err(_) => Ok(Box::new(Mprotect::new(views)?)),
    }
}

/// By `userfaultfd`: an empty page-table entry allows nothing, a write-protected one reading. A thread that does more
/// gets SIGBUS, and a system call EFAULT. To allow more, the pages have to exist.
#[derive(Debug)]
pub struct UserFaults(OwnedFd);

impl UserFaults {
    /// For all of `views`. Nothing may be done with them at first.
    ///
    /// # Errors
    /// The kernel is older than 6.4, or does not let this process.
    pub fn new(views: &Views) -> Result<Self, Error> {
        let error = |what| move |source| Error::UserFaults { what, source };
        let flags = UserfaultfdFlags::CLOEXEC
            | UserfaultfdFlags::NONBLOCK
            | UserfaultfdFlags::from_bits_retain(n::UFFD_USER_MODE_ONLY);
        // SAFETY: the descriptor does nothing before an area is registered.
        let faults = unsafe { userfaultfd(flags) }.map_err(|errno| error("to begin with")(errno.into()))?;
        let faults = Self(faults);
        let features =
            n::UFFD_FEATURE_SIGBUS | n::UFFD_FEATURE_MINOR_SHMEM | n::UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
        let mut api = n::uffdio_api { api: n::UFFD_API.into(), features: features.into(), ioctls: 0 };
        faults.ioctl(ioctl::UFFDIO_API, &mut api).map_err(error("its features"))?;
        let range =
            n::uffdio_range { start: views.base() as u64, len: (views.count() * views.bytes()) as u64 };
        // Nor where a page does not exist.
        let mode =
            n::UFFDIO_REGISTER_MODE_MISSING | n::UFFDIO_REGISTER_MODE_MINOR | n::UFFDIO_REGISTER_MODE_WP;
        let mode = u64::from(mode);
        let mut register = n::uffdio_register { range, mode, ioctls: 0 };
        faults.ioctl(ioctl::UFFDIO_REGISTER, &mut register).map_err(error("the views"))?;
        if register.ioctls >> n::_UFFDIO_CONTINUE & 1 == 0 {
            let source = io::Error::from(io::ErrorKind::Unsupported);
            return Err(Error::UserFaults { what: "to continue", source });
        }
        faults
            .set(views.base(), views.count() * views.bytes(), Allowed::Nothing)
            .map_err(error("to empty"))?;
        faults.try_out(views).map_err(error("reading alone"))?;
        Ok(faults)
    }

    /// Older kernels cannot allow reading alone, and only say so when asked to.
    fn try_out(&self, views: &Views) -> io::Result<()> {
        views.populate(0, PAGE_BYTES).map_err(io::Error::other)?;
        self.set(views.base(), PAGE_BYTES, Allowed::Reading)?;
        self.set(views.base(), PAGE_BYTES, Allowed::Nothing)
    }

    fn ioctl<T>(&self, request: u32, argument: &mut T) -> io::Result<()> {
        // SAFETY: each request is given the structure that it is for.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request.into(), std::ptr::from_mut(argument)) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Fills entries up to the first that is not empty. How many bytes those are of.
    fn fill(&self, address: usize, bytes: usize, allowed: Allowed) -> io::Result<usize> {
        let mode = if allowed == Allowed::Reading { CONTINUE_WRITE_PROTECTED } else { 0 };
        let range = n::uffdio_range { start: address as u64, len: bytes as u64 };
        let mut fill = n::uffdio_continue { range, mode, mapped: 0 };
        match self.ioctl(ioctl::UFFDIO_CONTINUE, &mut fill) {
            Ok(()) => Ok(bytes),
            Err(error) => match error.raw_os_error() {
                Some(libc::EEXIST) => Ok(0),
                Some(libc::EAGAIN) if fill.mapped > 0 => Ok(fill.mapped as usize),
                _ => Err(error),
            },
        }
    }

    fn write_protect(&self, address: usize, bytes: usize, allowed: Allowed) -> io::Result<()> {
        let mode = if allowed == Allowed::Reading { WRITE_PROTECT } else { 0 };
        let range = n::uffdio_range { start: address as u64, len: bytes as u64 };
        self.ioctl(ioctl::UFFDIO_WRITEPROTECT, &mut n::uffdio_writeprotect { range, mode })
    }
}

/// `UFFDIO_CONTINUE_MODE_WP`.
const CONTINUE_WRITE_PROTECTED: u64 = 1 << 1;
/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const WRITE_PROTECT: u64 = 1 << 0;

impl Protection for UserFaults {
    fn change(&self, address: usize, bytes: usize, before: Allowed, allowed: Allowed) -> io::Result<()> {
        match (before, allowed) {
            (_, Allowed::Nothing) => {
                // SAFETY: the views are of a memory object, whose contents stay. The program may have locked them (mlockall(2)).
                unsafe { madvise(address as *mut c_void, bytes, Advice::LinuxDontneedLocked)? };
                Ok(())
            }
            // An entry that is empty all the same stays empty: a thread faults there, and it is said again.
            (Allowed::Reading | Allowed::Writing, _) => self.write_protect(address, bytes, allowed),
            (Allowed::Nothing, _) => {
                let (mut next, end) = (address, address + bytes);
                while next < end {
                    let filled = self.fill(next, end - next, allowed)?;
                    next += filled;
                    if filled == 0 {
                        self.write_protect(next, PAGE_BYTES, allowed)?;
                        next += PAGE_BYTES;
                    }
                }
                Ok(())
            }
        }
    }

    fn signal(&self) -> Signal {
        Signal::Bus
    }
}

/// By `mprotect`. A thread that does more gets SIGSEGV, and a system call EFAULT.
#[derive(Debug)]
pub struct Mprotect(());

impl Mprotect {
    /// For all of `views`. Nothing may be done with them at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(views: &Views) -> Result<Self, Error> {
        let bytes = views.count() * views.bytes();
        Self(()).set(views.base(), bytes, Allowed::Nothing).map_err(|source| Error::Views {
            views: views.count(),
            bytes: views.bytes(),
            at: Some(views.base()),
            source,
        })?;
        Ok(Self(()))
    }
}

impl Protection for Mprotect {
    fn change(&self, address: usize, bytes: usize, _: Allowed, allowed: Allowed) -> io::Result<()> {
        let flags = match allowed {
            Allowed::Nothing => MprotectFlags::empty(),
            Allowed::Reading => MprotectFlags::READ,
            Allowed::Writing => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        // SAFETY: the caller's own area, as it says.
        unsafe { mprotect(address as *mut c_void, bytes, flags)? };
        Ok(())
    }

    fn signal(&self) -> Signal {
        Signal::Segv
    }
}
