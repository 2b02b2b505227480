//! The shared memory as one host maps it: its views, which minipage is where in them, and what their pages allow.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use forebay_coherence::{Access, Minipage};
use forebay_vm::{
    Allowed, Mprotect, Object, PAGE_BYTES, Protection, Views,
    fault::Signal,
    layout::{Array, Grain, Layout, Place, Places, Vpages},
    protection,
};

use crate::{Error, heap::Heap, join::free_bytes};

/// An array of so many bytes is allocated without a look at how much memory is free, which takes longer than the rest.
const UNSEEN_BYTES: usize = 1 << 20;

/// Views, and what is in them.
pub struct Memory {
    views: Views,
    protection: Box<dyn Protection>,
    tables: Mutex<Tables>,
    /// Handlers find minipages without a lock.
    places: Arc<Places>,
    vpages: Arc<Vpages>,
    heap: Heap,
    existence: Existence,
}

/// How pages come to exist that all hosts allocate.
enum Existence {
    /// By their use.
    Used,
    /// By their allocation, in an object that other processes may map too.
    Reserved(Object),
    /// By their allocation, and the privileged view has them from then on. So have others of so many memories on this machine.
    Populated { memories: usize },
}

/// What all hosts have allocated, alike on all of them.
struct Tables {
    layout: Layout,
    /// By the distance of the first byte from the first one of all.
    allocated: BTreeMap<usize, Array>,
}

impl Memory {
    /// That of a host on the only machine: what all hosts allocate may be used, and all that hosts may allocate alone. Everything
    /// else is forbidden. Without the `object`, which the views show, pages exist from their use on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of_one_machine(views: Views, heap: Heap, object: Option<Object>) -> Result<Self, Error> {
        views.keep_out_of_dumps()?;
        // A call for each allocation and view, which splits mappings between allocations at most.
        let protection = Box::new(Mprotect::new(&views)?);
        let existence = object.map_or(Existence::Used, Existence::Reserved);
        let memory = Self::new(views, protection, heap, existence);
        let extent = memory.heap.extent();
        for view in (0..extent.few).filter(|_| extent.alone > 0) {
            let first = memory.views.address(view, extent.together_bytes());
            memory.allow(first..first + extent.alone * PAGE_BYTES, Access::None, Access::Write)?;
        }
        Ok(memory)
    }

    /// That of a host on one of several machines, where so many memories are on this one: nothing may be used at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of_one_of_several(views: Views, heap: Heap, memories: usize) -> Result<Self, Error> {
        views.keep_out_of_dumps()?;
        let protection = protection(&views)?;
        Ok(Self::new(views, protection, heap, Existence::Populated { memories }))
    }

    fn new(views: Views, protection: Box<dyn Protection>, heap: Heap, existence: Existence) -> Self {
        let extent = heap.extent();
        let layout = Layout::sparing(extent.pages, extent.views, extent.few);
        let (places, vpages) = (layout.places(), layout.vpages());
        let tables = Mutex::new(Tables { layout, allocated: BTreeMap::new() });
        Self { views, protection, tables, places, vpages, heap, existence }
    }

    /// What the views show, where other processes may map it too.
    pub const fn object(&self) -> Option<&Object> {
        match &self.existence {
            Existence::Reserved(object) => Some(object),
            _ => None,
        }
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

    /// An array, which all hosts allocate alike.
    ///
    /// # Errors
    /// There is no room.
    pub fn allocate(&self, count: usize, bytes: usize, grain: Grain) -> Result<Array, Error> {
        let mut tables = self.tables();
        let array = tables.layout.allocate_array(count, bytes, grain)?;
        tables.allocated.insert(self.distance(&array), array);
        Ok(array)
    }

    /// The array that begins at an address.
    pub fn allocated_at(&self, address: usize) -> Option<Array> {
        let distance = address.checked_sub(self.views.base())?;
        self.tables().allocated.get(&distance).copied()
    }

    /// Frees an array, which all hosts do alike. This host's threads cannot use it from then on.
    pub fn free(&self, array: &Array) {
        let mut tables = self.tables();
        if tables.allocated.remove(&self.distance(array)).is_none() {
            return;
        }
        for pages in self.areas(array) {
            // Where the kernel cannot split more mappings the program is not stopped from a mistake.
            let _ = self.allow(pages.clone(), Access::Write, Access::None);
            self.views.show_in_dumps(pages, false);
        }
        let freed = tables.layout.free_array(array);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    fn distance(&self, array: &Array) -> usize {
        let place = array.minipage(0);
        place.view * self.views.bytes() + place.offset
    }

    /// Bytes in pages that no minipage uses.
    pub fn left(&self) -> usize {
        self.tables().layout.left()
    }

    /// Where a minipage is. In a signal handler too.
    pub fn place(&self, minipage: u32) -> Option<Place> {
        self.heap.place(minipage).or_else(|| self.places.get(minipage))
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
        self.heap.learn(first, what).map_or(Ok(()), |bytes| self.populate(bytes))
    }

    /// Lets pages exist: these bytes of the object.
    fn populate(&self, bytes: Range<usize>) -> Result<(), Error> {
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

    /// Lets the pages of an array exist: by one host of each machine.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn reserve(&self, array: &Array) -> Result<(), Error> {
        let own = array.own_pages();
        let pages = if own.is_empty() { array.minipage(0).pages() } else { own };
        let (offset, bytes) = (pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES);
        let memories = if let Existence::Populated { memories } = self.existence { memories } else { 1 };
        let free = free_bytes_for(bytes);
        if free.is_some_and(|free| (bytes * memories) as u64 > free) {
            return Err(Error::Full { memories, bytes, free: free.unwrap_or(0) });
        }
        let reserved = match &self.existence {
            Existence::Used => Ok(()),
            Existence::Reserved(object) => object.reserve(offset, bytes).map_err(Error::from),
            Existence::Populated { .. } => self.populate(offset..offset + bytes),
        };
        if reserved.is_err() {
            // What the kernel has given before it had no more.
            let _ = self.give_back(array);
        }
        reserved
    }

    /// Gives the pages that an array has for itself back to the kernel: by one host of each machine. They are zeros then. Whether it
    /// has any, and the kernel takes them.
    pub fn give_back(&self, array: &Array) -> bool {
        let pages = array.own_pages();
        let (offset, bytes) = (pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES);
        !pages.is_empty() && self.views.give_back(offset, bytes).is_ok()
    }

    /// Lets this host's threads use all of an array.
    ///
    /// # Errors
    /// The kernel cannot split more mappings.
    pub fn open(&self, array: &Array) -> Result<(), Error> {
        for pages in self.areas(array) {
            self.allow(pages.clone(), Access::None, Access::Write)?;
            self.views.show_in_dumps(pages, true);
        }
        Ok(())
    }

    /// The pages of an array in each view, as addresses.
    fn areas(&self, array: &Array) -> impl Iterator<Item = Range<usize>> {
        array.areas().map(move |(view, pages)| {
            let address = self.views.address(view, pages.start * PAGE_BYTES);
            address..address + pages.len() * PAGE_BYTES
        })
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

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that the kernel could give, where so many are wanted that it matters.
fn free_bytes_for(bytes: usize) -> Option<u64> {
    (bytes > UNSEEN_BYTES).then(free_bytes).flatten()
}

/// What access means to the kernel.
const fn allowed(access: Access) -> Allowed {
    match access {
        Access::None => Allowed::Nothing,
        Access::Read => Allowed::Reading,
        Access::Write => Allowed::Writing,
    }
}
