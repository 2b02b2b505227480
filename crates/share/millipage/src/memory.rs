//! The shared memory as one host maps it: its views, which minipage is where in them, and what their pages allow.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use forebay_coherence::{Access, Minipage};
use forebay_vm::{
    Allowed, Mprotect, PAGE_BYTES, Protection, Views,
    fault::Signal,
    layout::{Array, Grain, Layout, Place, Vpages},
    protection,
};

use crate::{Error, arrays::Arrays, heap::Heap};

/// Views, and what is in them.
pub struct Memory {
    views: Views,
    protection: Box<dyn Protection>,
    layout: Mutex<Layout>,
    arrays: Arrays,
    vpages: Arc<Vpages>,
    heap: Heap,
}

impl Memory {
    /// That of a host on the only machine: what all hosts allocate may be used, and all that hosts may allocate alone. Everything
    /// else is forbidden.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of_one_machine(views: Views, heap: Heap) -> Result<Self, Error> {
        // A call for each allocation and view, which splits mappings between allocations at most.
        let protection = Box::new(Mprotect::new(&views)?);
        let memory = Self::new(views, protection, heap);
        let extent = memory.heap.extent();
        for view in (0..extent.views).filter(|_| extent.alone > 0) {
            let first = memory.views.address(view, extent.together_bytes());
            memory.allow(first..first + extent.alone * PAGE_BYTES, Access::None, Access::Write)?;
        }
        Ok(memory)
    }

    /// That of a host on one of several machines: nothing may be used at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of_one_of_several(views: Views, heap: Heap) -> Result<Self, Error> {
        let protection = protection(&views)?;
        Ok(Self::new(views, protection, heap))
    }

    fn new(views: Views, protection: Box<dyn Protection>, heap: Heap) -> Self {
        let layout = Layout::new(heap.extent().pages, views.count());
        let vpages = layout.vpages();
        Self { views, protection, layout: Mutex::new(layout), arrays: Arrays::new(), vpages, heap }
    }

    /// What hosts allocate alone.
    pub const fn heap(&self) -> &Heap {
        &self.heap
    }

    pub const fn views(&self) -> &Views {
        &self.views
    }

    /// The addresses where threads can fault.
    pub const fn area(&self) -> Range<usize> {
        self.views.base()..self.views.base() + self.views.count() * self.views.bytes()
    }

    /// The signal of such a fault.
    pub fn signal(&self) -> Signal {
        self.protection.signal()
    }

    /// # Errors
    /// There is no room.
    pub fn allocate(&self, count: usize, bytes: usize, grain: Grain) -> Result<Array, Error> {
        let mut layout = self.layout();
        let array = layout.allocate_array(count, bytes, grain)?;
        // While no other thread allocates.
        self.arrays.add(array);
        Ok(array)
    }

    /// Bytes in pages that no minipage uses.
    pub fn left(&self) -> usize {
        self.layout().left()
    }

    /// Where a minipage is. In a signal handler too.
    pub fn place(&self, minipage: u32) -> Option<Place> {
        self.heap.place(minipage).or_else(|| self.arrays.place(minipage))
    }

    /// The minipage that is used at an address. In a signal handler too.
    pub fn minipage(&self, address: usize) -> Option<u32> {
        let (view, offset) = self.views.locate(address)?;
        self.at(view, offset)
    }

    fn at(&self, view: usize, offset: usize) -> Option<u32> {
        if self.is_alone(offset) {
            self.heap.at(view, offset / PAGE_BYTES)
        } else {
            self.vpages.at(view, offset)
        }
    }

    /// Whether the place is one that hosts allocate alone.
    const fn is_alone(&self, offset: usize) -> bool {
        offset >= self.heap.extent().together_bytes()
    }

    /// The minipage that a host has allocated alone and that begins at an address.
    pub fn alone_at(&self, address: usize) -> Option<u32> {
        let (view, offset) = self.views.locate(address).filter(|(_, offset)| self.is_alone(*offset))?;
        self.heap
            .at(view, offset / PAGE_BYTES)
            .filter(|minipage| self.heap.place(*minipage).is_some_and(|place| place.offset == offset))
    }

    /// A machine has added minipages, and says this of them: their pages exist from then on.
    ///
    /// # Errors
    /// There is no memory.
    pub fn add_alone(&self, first: Minipage, what: u32) -> Result<(), Error> {
        let Some(bytes) = self.heap.learn(first, what) else { return Ok(()) };
        match self.views.populate(bytes.start, bytes.len()) {
            // Pages have to exist only where a newer kernel holds faults back.
            Err(forebay_vm::Error::Object { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
                Ok(())
            }
            populated => Ok(populated?),
        }
    }

    /// The pages of the minipage that is used at an address, as addresses. In a signal handler too.
    pub fn pages_around(&self, address: usize) -> Option<Range<usize>> {
        let (view, offset) = self.views.locate(address)?;
        let pages = if self.is_alone(offset) {
            self.heap.around(view, offset / PAGE_BYTES)?
        } else {
            self.vpages.around(view, offset)?
        };
        let first = self.views.address(view, pages.start * PAGE_BYTES);
        Some(first..first + pages.len() * PAGE_BYTES)
    }

    /// Whether all these bytes are in minipages that are used in the view that the address is in.
    pub fn is_allocated(&self, address: usize, bytes: usize) -> bool {
        let Some((view, mut offset)) = self.views.locate(address) else { return false };
        let Some(end) = offset.checked_add(bytes) else { return false };
        let place = |offset| self.place(self.at(view, offset)?);
        while offset < end {
            match place(offset).map(|place| place.offset..place.offset + place.bytes) {
                Some(range) if range.contains(&offset) => offset = range.end,
                _ => return false,
            }
        }
        bytes > 0
    }

    /// Lets this host's threads use all of an array.
    ///
    /// # Errors
    /// The kernel cannot split more mappings.
    pub fn open(&self, array: &Array) -> Result<(), Error> {
        for (view, pages) in array.areas() {
            let address = self.views.address(view, pages.start * PAGE_BYTES);
            self.allow(address..address + pages.len() * PAGE_BYTES, Access::None, Access::Write)?;
        }
        Ok(())
    }

    /// Lets this host's threads do so much with a minipage, and no more; they could do so much `before`.
    ///
    /// # Errors
    /// As for [`Memory::open`].
    pub fn allow_minipage(&self, minipage: u32, before: Access, access: Access) -> Result<(), Error> {
        let Some(place) = self.place(minipage) else { return Ok(()) };
        let pages = place.pages();
        let address = self.views.address(place.view, pages.start * PAGE_BYTES);
        self.allow(address..address + pages.len() * PAGE_BYTES, before, access)
    }

    /// The same with whole pages by their addresses. In a signal handler too.
    ///
    /// # Errors
    /// As for [`Memory::open`].
    pub fn allow(&self, pages: Range<usize>, before: Access, access: Access) -> Result<(), Error> {
        let said = self.protection.change(pages.start, pages.len(), allowed(before), allowed(access));
        said.map_err(|source| {
            let (count, bytes) = (self.views.count(), self.views.bytes());
            forebay_vm::Error::Views { views: count, bytes, at: Some(pages.start), source }.into()
        })
    }

    fn layout(&self) -> MutexGuard<'_, Layout> {
        self.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What access means to the kernel.
const fn allowed(access: Access) -> Allowed {
    match access {
        Access::None => Allowed::Nothing,
        Access::Read => Allowed::Reading,
        Access::Write => Allowed::Writing,
    }
}
