//! One memory object, mapped several times next to each other.

use std::{ffi::c_void, ops::Range, os::fd::AsFd, ptr};

use rustix::{
    io::retry_on_intr,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap},
};

use crate::{Error, Object};

/// `count` views of an object, and a privileged one behind them. They are unmapped when this is dropped.
#[derive(Debug)]
pub struct Views {
    base: usize,
    count: usize,
    /// Of each.
    bytes: usize,
}

impl Views {
    /// Maps `count` views of `object`, all of whose pages are readable and writable until a
    /// [`crate::Protection`] says otherwise; at `at`, or anywhere. A child that is forked does not have them.
    ///
    /// # Errors
    /// Something is there already, or nowhere is room.
    pub fn map(object: &Object, count: usize, at: Option<usize>) -> Result<Self, Error> {
        let views = Self::map_sparse(object, count, at)?;
        // Where the kernel cannot do that, each page is mapped when it is first used.
        let _ = views.populate(0, object.bytes());
        Ok(views)
    }

    /// The same, where pages of the object exist, and count as the process's own, from their use on.
    ///
    /// # Errors
    /// As for [`Views::map`].
    pub fn map_sparse(object: &Object, count: usize, at: Option<usize>) -> Result<Self, Error> {
        let bytes = object.bytes();
        let error =
            |source: rustix::io::Errno| Error::Views { views: count, bytes, at, source: source.into() };
        let total = bytes.checked_mul(count + 1).ok_or_else(|| error(rustix::io::Errno::NOMEM))?;
        let base = reserve(total, at).map_err(error)?;
        // Unmaps all of it where something below fails.
        let views = Self { base, count, bytes };
        for view in 0..=count {
            let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
            // SAFETY: what is mapped over is our own reservation.
            unsafe {
                let place = (base + view * bytes) as *mut c_void;
                let protection = ProtFlags::READ | ProtFlags::WRITE;
                mmap(place, bytes, protection, flags, object.as_fd(), 0).map_err(error)?;
            }
        }
        // The pages of a child that was forked would have no protection.
        // SAFETY: the area is ours.
        unsafe { madvise(base as *mut c_void, total, Advice::LinuxDontFork).map_err(error)? };
        Ok(views)
    }

    /// A child that is forked has the views too, with the protection that they have then: for views whose protection stays.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn keep_in_children(&self) -> Result<(), Error> {
        let (count, bytes, at) = (self.count, self.bytes, Some(self.base));
        // SAFETY: the area is ours.
        let kept = unsafe { madvise(self.base as *mut c_void, bytes * count, Advice::LinuxDoFork) };
        kept.map_err(|source| Error::Views { views: count, bytes, at, source: source.into() })
    }

    /// Leaves the views out of core files, but for what is [shown](Self::show_in_dumps): the kernel would give memory to each page.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn keep_out_of_dumps(&self) -> Result<(), Error> {
        let (count, bytes, at) = (self.count, self.bytes, Some(self.base));
        // SAFETY: the area is ours.
        let kept = unsafe { madvise(self.base as *mut c_void, bytes * (count + 1), Advice::LinuxDontDump) };
        kept.map_err(|source| Error::Views { views: count, bytes, at, source: source.into() })
    }

    /// Whether core files have these pages of a view, by their addresses.
    pub fn show_in_dumps(&self, pages: Range<usize>, are_shown: bool) {
        assert!(
            self.base <= pages.start && pages.end <= self.base + self.count * self.bytes,
            "outside the views"
        );
        let advice = if are_shown { Advice::LinuxDoDump } else { Advice::LinuxDontDump };
        // A process without room for another mapping has a core file that is smaller or larger.
        // SAFETY: the area is ours.
        let _ = unsafe { madvise(pages.start as *mut c_void, pages.len(), advice) };
    }

    /// Gives whole pages of the object back to the kernel: they are full of zeros from then on, and exist from their next use on.
    ///
    /// # Errors
    /// The kernel refuses, since the program has locked its memory.
    pub fn give_back(&self, offset: usize, bytes: usize) -> Result<(), Error> {
        let at = self.privileged(offset);
        assert!(bytes <= self.bytes - offset, "outside the object");
        // SAFETY: the area is ours, and no reference to it exists.
        let done = unsafe { madvise(at as *mut c_void, bytes, Advice::LinuxRemove) };
        done.map_err(|source| Error::Object { bytes, source: source.into() })
    }

    /// Maps pages of the privileged view, which exist from then on: `bytes` from an offset in the object on.
    ///
    /// # Errors
    /// There is no memory, or the kernel is older than 5.14.
    pub fn populate(&self, offset: usize, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let at = self.privileged(offset);
        // SAFETY: the area is ours.
        let populate = || unsafe { madvise(at as *mut c_void, bytes, Advice::LinuxPopulateWrite) };
        retry_on_intr(populate).map_err(|source| Error::Object { bytes, source: source.into() })
    }

    /// An address at which there is room now for `count` views of `bytes` each and the privileged one.
    ///
    /// # Errors
    /// There is none.
    pub fn probe(bytes: usize, count: usize) -> Result<usize, Error> {
        let error =
            |source: rustix::io::Errno| Error::Views { views: count, bytes, at: None, source: source.into() };
        let total = bytes.checked_mul(count + 1).ok_or_else(|| error(rustix::io::Errno::NOMEM))?;
        let base = reserve(total, None).map_err(error)?;
        drop(Self { base, count, bytes });
        Ok(base)
    }

    /// How many there are, without the privileged one.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Size of each.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the first one begins. The others follow.
    #[must_use]
    pub const fn base(&self) -> usize {
        self.base
    }

    /// Address of a byte of the object in a view.
    #[must_use]
    pub const fn address(&self, view: usize, offset: usize) -> usize {
        assert!(view < self.count && offset < self.bytes, "outside the views");
        self.base + view * self.bytes + offset
    }

    /// Address of a byte of the object in the privileged view.
    #[must_use]
    pub const fn privileged(&self, offset: usize) -> usize {
        assert!(offset < self.bytes, "outside the object");
        self.base + self.count * self.bytes + offset
    }

    /// View and offset of an address in one of the views, but for the privileged one.
    #[must_use]
    pub const fn locate(&self, address: usize) -> Option<(usize, usize)> {
        if address < self.base || address >= self.base + self.count * self.bytes {
            return None;
        }
        let inside = address - self.base;
        Some((inside / self.bytes, inside % self.bytes))
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        // SAFETY: the area is ours; the holder of addresses in it ensures that none is used now.
        let unmapped = unsafe { munmap(self.base as *mut c_void, self.bytes * (self.count + 1)) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// All of an object at one address, readable and writable, for as long as the process lives. A child that is forked does not
/// have it.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    address: usize,
    bytes: usize,
}

impl Mapping {
    /// Maps `object` anywhere.
    ///
    /// # Errors
    /// Nowhere is room.
    pub fn new(object: &Object) -> Result<Self, Error> {
        let bytes = object.bytes();
        let error =
            |source: rustix::io::Errno| Error::Views { views: 0, bytes, at: None, source: source.into() };
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing; the advice is about that mapping.
        let address = unsafe {
            let address =
                mmap(ptr::null_mut(), bytes, protection, flags, object.as_fd(), 0).map_err(error)?;
            madvise(address, bytes, Advice::LinuxDontFork).map_err(error)?;
            address as usize
        };
        Ok(Self { address, bytes })
    }

    /// Its first byte.
    #[must_use]
    pub const fn address(&self) -> usize {
        self.address
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Takes an area of the address space.
fn reserve(bytes: usize, at: Option<usize>) -> rustix::io::Result<usize> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let (place, flags) = match at {
        // An older kernel takes the flag for a hint: the address shows.
        Some(at) => (at as *mut c_void, flags | MapFlags::FIXED_NOREPLACE),
        None => (ptr::null_mut(), flags),
    };
    // SAFETY: nothing that is mapped is replaced.
    let base = unsafe { mmap_anonymous(place, bytes, ProtFlags::empty(), flags)? } as usize;
    if at.is_some_and(|at| at != base) {
        // SAFETY: no other code has the address yet.
        unsafe { munmap(base as *mut c_void, bytes)? };
        return Err(rustix::io::Errno::EXIST);
    }
    Ok(base)
}
