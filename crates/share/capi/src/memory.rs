//! Memory that the caller receives, and returns with free(3).

use std::{ffi::c_void, ptr::NonNull};

use crate::failure::Failure;

/// A table of pointers that is not filled in yet.
pub struct Table {
    first: NonNull<*mut u8>,
    rows: usize,
}

impl Table {
    pub fn new(rows: usize) -> Result<Self, Failure> {
        // SAFETY: it multiplies with care; what comes of no rows is not used.
        let memory = unsafe { libc::calloc(rows.max(1), size_of::<*mut u8>()) };
        let first = NonNull::new(memory.cast()).ok_or(Failure::Table(rows))?;
        Ok(Self { first, rows })
    }

    /// The table with as many of these as it has room for, which is the caller's now.
    pub fn fill(self, pointers: impl Iterator<Item = *mut u8>) -> *mut c_void {
        for (row, pointer) in pointers.take(self.rows).enumerate() {
            // SAFETY: below the number of rows, for which there is memory.
            unsafe { self.first.add(row).write(pointer) };
        }
        let first = self.first.as_ptr().cast();
        std::mem::forget(self);
        first
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: calloc(3) made it, and no other thread has it.
        unsafe { libc::free(self.first.as_ptr().cast()) }
    }
}
