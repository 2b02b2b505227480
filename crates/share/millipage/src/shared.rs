//! Typed access to shared memory.
//!
//! Other hosts, and other threads, write to this memory at any time. So there are no references to it but to atomics.
//! The compiler neither removes nor moves an access: accesses to one element are volatile, accesses to several are
//! assembly. An element of 1, 2, 4 or 8 bytes with its own alignment is never torn; among several elements, each may
//! be. So the compiler never turns a loop over elements into vector instructions. Programs that compute with many
//! elements copy a row to private memory ([`Row::read`]) and back ([`Row::write`]), or take a vector at a time
//! ([`Row::vectors`]).

use std::{
    arch::{asm, x86_64::__m128},
    marker::PhantomData,
    mem::{self, size_of_val},
    ops::Range,
    ptr,
};

use bytemuck::Pod;
use forebay_coherence::Access;
use forebay_vm::{
    PAGE_BYTES,
    layout::{Array, Place},
};

use crate::{atomics::Word, host::Shared};

/// Bytes that are loaded or stored at once.
const VECTOR_BYTES: usize = size_of::<__m128>();

/// Rows of elements: each a minipage of its own, or several together.
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
}

/// Part of a row, as vectors of `N` elements each.
#[derive(Clone, Copy)]
pub struct Vectors<T, const N: usize> {
    first: *mut T,
    count: usize,
}

/// One value in a minipage of its own.
#[derive(Clone, Copy)]
pub struct Value<T>(Row<T>);

// SAFETY: the addresses are valid on all threads for as long as the process lives, and each access is volatile or
// assembly, of plain data.
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
        self.at(self.array.place(index))
    }

    /// Some of them, one after the other: for loops over short rows, where to find each by itself would take as long as to
    /// compute with it.
    ///
    /// # Panics
    /// There are not so many.
    pub fn range(&self, rows: Range<usize>) -> impl Iterator<Item = Row<T>> + '_ {
        self.array.places(rows).map(|place| self.at(place))
    }

    fn at(&self, place: Place) -> Row<T> {
        let first = self.shared.memory().views().address(place.view, place.offset) as *mut T;
        Row::new(self.shared, first, self.columns)
    }
}

impl<T: Pod> Row<T> {
    pub(crate) const fn new(shared: &'static Shared, first: *mut T, columns: usize) -> Self {
        Self { shared, first, columns }
    }

    pub(crate) const fn shared(&self) -> &'static Shared {
        self.shared
    }

    /// Address of an element.
    pub(crate) fn address(&self, column: usize) -> usize {
        self.element(column) as usize
    }

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

    /// Copies elements from `column` on, as many as `values` holds.
    ///
    /// # Panics
    /// There are not so many.
    pub fn read(&self, column: usize, values: &mut [T]) {
        let first = self.elements(column, values.len());
        // SAFETY: the source is in the row, as in `get`; the destination is the caller's own, of as many bytes.
        unsafe { copy(first.cast(), values.as_mut_ptr().cast(), size_of_val(values)) }
    }

    /// Writes `values` from `column` on.
    ///
    /// # Panics
    /// There are not so many.
    pub fn write(&self, column: usize, values: &[T]) {
        let first = self.elements(column, values.len());
        // SAFETY: as in `read`, the other way round.
        unsafe { copy(values.as_ptr().cast(), first.cast(), size_of_val(values)) }
    }

    /// `count` vectors of `N` neighbouring elements, 16 bytes together, from `column` on: for loops that compute with
    /// vectors.
    ///
    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn vectors<const N: usize>(&self, column: usize, count: usize) -> Vectors<T, N> {
        const { assert!(N * size_of::<T>() == VECTOR_BYTES) };
        assert!(count <= self.columns / N, "outside the row");
        Vectors { first: self.elements(column, count * N), count }
    }

    /// Address of the first element: the same on all hosts if the memory is mapped at the same place. For system calls
    /// and other languages.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut T {
        self.first
    }

    /// Waits until this host may read the row, so that a system call can: if no other host writes to it meanwhile.
    pub fn touch(&self) {
        for byte in self.byte_of_each_page() {
            // SAFETY: as in `get`.
            unsafe { ptr::read_volatile(byte) };
        }
    }

    /// Waits until this host may write the row, so that a system call can: if no other host wants it meanwhile.
    pub fn touch_for_writing(&self) {
        for byte in self.byte_of_each_page() {
            // An atomic operation, so that nothing is lost that another thread of this host writes at the same time; and
            // not one of the language's, which may be left out as it changes nothing.
            // SAFETY: as in `get`.
            unsafe { asm!("lock or byte ptr [{}], 0", in(reg) byte, options(nostack)) };
        }
    }

    /// Asks for the row, to read it soon.
    pub fn prefetch(&self) {
        self.minipages().for_each(|minipage| self.shared.prefetch(minipage, Access::Read));
    }

    /// Asks for the row, to write to it soon.
    pub fn prefetch_for_writing(&self) {
        self.minipages().for_each(|minipage| self.shared.prefetch(minipage, Access::Write));
    }

    /// Sends the row to all hosts, which can read it then without waiting.
    pub fn push(&self) {
        self.minipages().for_each(|minipage| self.shared.push(minipage));
    }

    /// More than one only where those are pages. None where there is nothing to fetch.
    fn minipages(&self) -> impl Iterator<Item = u32> {
        let mut last = None;
        let bytes = (!self.shared.is_together()).then(|| self.byte_of_each_page());
        let minipages =
            bytes.into_iter().flatten().filter_map(|byte| self.shared.memory().minipage(byte as usize));
        minipages.filter(move |minipage| last.replace(*minipage) != Some(*minipage))
    }

    fn byte_of_each_page(&self) -> impl Iterator<Item = *mut u8> {
        let start = self.first as usize;
        let end = start + self.columns * size_of::<T>();
        let next = (start / PAGE_BYTES + 1) * PAGE_BYTES;
        let first = (start < end).then_some(start);
        first.into_iter().chain((next..end).step_by(PAGE_BYTES)).map(|address| address as *mut u8)
    }

    const fn elements(&self, column: usize, count: usize) -> *mut T {
        assert!(column <= self.columns && count <= self.columns - column, "outside the row");
        self.first.wrapping_add(column)
    }

    const fn element(&self, column: usize) -> *mut T {
        assert!(column < self.columns, "outside the row");
        self.first.wrapping_add(column)
    }
}

impl<T: Pod, const N: usize> Vectors<T, N> {
    /// One of them.
    ///
    /// # Panics
    /// There are not so many.
    #[must_use]
    #[inline]
    pub fn load(&self, index: usize) -> [T; N] {
        let first = self.vector(index);
        let vector: __m128;
        // SAFETY: in the row, as in `Row::get`; the vector has as many bytes as the elements, of which any are a value.
        unsafe {
            asm!("movups {}, [{}]", out(xmm_reg) vector, in(reg) first, options(nostack, preserves_flags, readonly));
            mem::transmute_copy(&vector)
        }
    }

    /// Writes one of them.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    pub fn store(&self, index: usize, values: [T; N]) {
        let first = self.vector(index);
        // SAFETY: as in `load`, the other way round.
        unsafe {
            let vector: __m128 = mem::transmute_copy(&values);
            asm!("movups [{}], {}", in(reg) first, in(xmm_reg) vector, options(nostack, preserves_flags));
        }
    }

    /// The check is one that the compiler leaves out where the loop is over as many vectors as were asked for.
    const fn vector(&self, index: usize) -> *mut T {
        assert!(index < self.count, "outside the part of the row");
        self.first.wrapping_add(index * N)
    }
}

impl<T: Word> Row<T> {
    /// An element, for operations that none of another thread comes in between of, on this host or another.
    ///
    /// # Panics
    /// There are not so many, or this processor has no such operations.
    #[must_use]
    pub fn atomic(&self, column: usize) -> &'static T::Atomic {
        // SAFETY: in the row, whose memory is mapped for as long as the process lives. Rows begin at multiples of 16 bytes, or
        // behind other ones of elements of the same size.
        unsafe { T::atomic(self.element(column)) }
    }
}

impl<T: Pod> Value<T> {
    pub(crate) const fn new(row: Row<T>) -> Self {
        Self(row)
    }

    /// What it is now.
    #[must_use]
    pub fn get(&self) -> T {
        self.0.get(0)
    }

    /// Changes it.
    pub fn set(&self, value: T) {
        self.0.set(0, value);
    }

    /// As a row of one element, which can be prefetched, pushed and touched.
    #[must_use]
    pub const fn row(&self) -> Row<T> {
        self.0
    }
}

/// Copies bytes by an instruction that can fault anywhere and be tried again, and of which the compiler knows nothing but
/// that it reads and writes memory: others may write at the same time.
///
/// # Safety
/// Both places have as many bytes, and are mapped.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller says; the direction flag is clear wherever Rust code runs.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// In pieces, so that no private memory of that size is needed.
pub fn fill_with_zeros(row: Row<u8>) {
    const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
    for first in (0..row.len()).step_by(PAGE_BYTES) {
        row.write(first, &ZEROS[..PAGE_BYTES.min(row.len() - first)]);
    }
}
