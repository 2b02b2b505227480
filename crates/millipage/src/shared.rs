//! Typed access to shared memory. Nothing here is a reference: other hosts, and other threads, write there.

use std::{arch::asm, marker::PhantomData, ptr};

use bytemuck::Pod;
use forebay_coherence::Access;
use forebay_vm::layout::Array;

use crate::host::Shared;

/// Rows of elements, each a minipage.
pub struct Rows<T> {
    shared: &'static Shared,
    array: Array,
    columns: usize,
    elements: PhantomData<T>,
}

/// One row. To read or write in it may take a message or two, the first time and after another host has written there.
#[derive(Clone, Copy)]
pub struct Row<T> {
    shared: &'static Shared,
    first: *mut T,
    columns: usize,
    minipage: u32,
}

// SAFETY: the addresses are valid on all threads for as long as the process lives, and each access is volatile, of plain
// data.
unsafe impl<T: Pod + Send> Send for Row<T> {}
// SAFETY: as above.
unsafe impl<T: Pod + Send> Sync for Row<T> {}

impl<T: Pod> Rows<T> {
    pub(crate) const fn new(shared: &'static Shared, array: Array, columns: usize) -> Self {
        Self { shared, array, columns, elements: PhantomData }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.array.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.array.count == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn row(&self, index: usize) -> Row<T> {
        let place = self.array.place(index);
        let first = self.shared.views().address(place.view, place.offset) as *mut T;
        Row { shared: self.shared, first, columns: self.columns, minipage: self.array.first + index as u32 }
    }
}

impl<T: Pod> Row<T> {
    /// How many elements it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.columns
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.columns == 0
    }

    /// An element.
    ///
    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn get(&self, column: usize) -> T {
        // SAFETY: in the row, whose memory is mapped for as long as the process lives; any bytes are a value.
        unsafe { ptr::read_volatile(self.element(column)) }
    }

    /// Writes an element.
    ///
    /// # Panics
    /// There are not so many.
    pub fn set(&self, column: usize, value: T) {
        // SAFETY: as in `get`.
        unsafe { ptr::write_volatile(self.element(column), value) }
    }

    /// Address of the first element: the same on all hosts if the memory is mapped at the same place. For system calls
    /// and other languages.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut T {
        self.first
    }

    /// Waits until this host may read the row, so that a system call can: if no other host writes to it meanwhile.
    pub fn touch(&self) {
        if self.columns > 0 {
            let _ = self.get(0);
        }
    }

    /// Waits until this host may write the row, so that a system call can: if no other host wants it meanwhile.
    pub fn touch_for_writing(&self) {
        if self.columns > 0 {
            // An atomic operation, so that nothing is lost that another thread of this host writes at the same time; and
            // not one of the language's, which may be left out as it changes nothing.
            // SAFETY: as in `get`.
            unsafe { asm!("lock or byte ptr [{}], 0", in(reg) self.first, options(nostack)) };
        }
    }

    /// Asks for the row, to read it soon.
    pub fn prefetch(&self) {
        self.shared.prefetch(self.minipage, Access::Read);
    }

    /// Asks for the row, to write to it soon.
    pub fn prefetch_for_writing(&self) {
        self.shared.prefetch(self.minipage, Access::Write);
    }

    /// Sends the row to all hosts, which can read it then without waiting.
    pub fn push(&self) {
        self.shared.push(self.minipage);
    }

    const fn element(&self, column: usize) -> *mut T {
        assert!(column < self.columns, "outside the row");
        self.first.wrapping_add(column)
    }
}
