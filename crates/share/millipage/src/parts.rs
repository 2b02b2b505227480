//! Memory that the hosts of a machine share besides the shared memory itself, taken in parts.

use std::{mem::align_of, slice};

use forebay_vm::Mapping;

/// Atomic words, of which any bytes are values, and which have no padding that counts.
///
/// # Safety
/// Such is the type.
pub unsafe trait Words: Sync {}

/// What of a mapping is not taken yet. Hosts that take the same parts in the same order have the same words.
pub struct Parts {
    next: usize,
    end: usize,
}

impl Parts {
    /// All of a mapping, zeros at first. Each host calls this once for each mapping of its own.
    pub const fn of(memory: Mapping) -> Self {
        Self { next: memory.address(), end: memory.address() + memory.bytes() }
    }

    /// The next `count` values.
    ///
    /// # Panics
    /// There is no room.
    pub fn take<T: Words>(&mut self, count: usize) -> &'static [T] {
        let first = self.next.next_multiple_of(align_of::<T>());
        self.next = first + count * size_of::<T>();
        assert!(self.next <= self.end, "a board that is too small");
        // SAFETY: the mapping stays for as long as the process lives, and has room for the values, which are aligned and atomic
        // words as the trait says. No other part has these bytes, and other hosts use them as the same words.
        unsafe { slice::from_raw_parts(first as *const T, count) }
    }

    /// Bytes that so many values take behind others.
    pub const fn bytes<T: Words>(count: usize) -> usize {
        align_of::<T>() + count * size_of::<T>()
    }
}
