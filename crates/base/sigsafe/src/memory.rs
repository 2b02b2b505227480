//! Raw memory: copies and fills that never call libc, and mappings.

use crate::general::{__NR_mmap, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use crate::sys;

/// Copies `count` bytes forward.
///
/// # Safety
/// Both ranges are valid for it and do not overlap.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller's; `rep movsb` touches just these ranges.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Sets `count` bytes.
///
/// # Safety
/// The range is valid for writes.
#[inline]
pub unsafe fn fill(to: *mut u8, byte: u8, count: usize) {
    // SAFETY: the caller's; `rep stosb` touches just this range.
    unsafe {
        core::arch::asm!(
            "rep stosb",
            inout("rcx") count => _, inout("rdi") to => _, in("al") byte,
            options(nostack, preserves_flags)
        );
    }
}

/// Maps fresh private memory; the address, or `-errno`.
#[must_use]
pub fn map_private(bytes: usize) -> isize {
    // SAFETY: a new anonymous mapping at an address of the kernel's choice affects no other memory.
    unsafe { sys!(__NR_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, usize::MAX, 0) }
}
