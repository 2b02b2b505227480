//! Atomic operations, and waiting for words.

use std::{
    ffi::{c_int, c_void},
    ptr::copy_nonoverlapping,
};

use forebay_millipage::{Comparison, Operation};

use crate::{
    failure::{Failure, attempt},
    host::host,
};

/// Bytes of the largest word.
const BYTES_MAX: usize = size_of::<u128>();

/// See the header.
///
/// # Safety
/// `value` and `before` are null, or have so many bytes, of which those of `before` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_atomic(
    word: *mut c_void,
    bytes: usize,
    operation: c_int,
    value: *const c_void,
    before: *mut c_void,
) -> c_int {
    attempt(|| {
        let host = host()?;
        if value.is_null() && operation != 0 {
            return Err(Failure::Null("value"));
        }
        if before.is_null() && matches!(operation, 0 | 2) {
            return Err(Failure::Null("before"));
        }
        // SAFETY: as the caller says.
        let number = |from: *const c_void| unsafe { number(from, bytes) };
        let operation = match operation {
            0 => Operation::Load,
            1 => Operation::Store,
            2 => Operation::CompareExchange { expected: number(before) },
            3 => Operation::Add,
            4 => Operation::And,
            5 => Operation::Or,
            6 => Operation::Xor,
            _ => return Err(Failure::Operation(operation)),
        };
        let was = host.operate(word as usize, bytes, operation, number(value))?;
        if !before.is_null() {
            // SAFETY: as the caller says; there is a word, so there are not more bytes than in the number.
            unsafe { copy_nonoverlapping(was.to_le_bytes().as_ptr(), before.cast(), bytes) };
        }
        Ok(matches!(operation, Operation::CompareExchange { expected } if expected == was).into())
    })
}

/// A number of so many bytes; 0 for null, or where there are more.
///
/// # Safety
/// It is null, or has so many bytes.
unsafe fn number(from: *const c_void, bytes: usize) -> u128 {
    let mut number = [0; BYTES_MAX];
    if !from.is_null() && bytes <= BYTES_MAX {
        // SAFETY: as the caller says.
        unsafe { copy_nonoverlapping(from.cast(), number.as_mut_ptr(), bytes) };
    }
    u128::from_le_bytes(number)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_wait_until(
    word: *const c_void,
    bytes: usize,
    comparison: c_int,
    number: i64,
) -> c_int {
    attempt(|| {
        let comparison = match comparison {
            0 => Comparison::Equal,
            1 => Comparison::NotEqual,
            2 => Comparison::Less,
            3 => Comparison::LessOrEqual,
            4 => Comparison::Greater,
            5 => Comparison::GreaterOrEqual,
            _ => return Err(Failure::Comparison(comparison)),
        };
        host()?.wait_until(word as usize, bytes, true, comparison, number.into())?;
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_ring(word: *const c_void) -> c_int {
    attempt(|| Ok(host()?.ring(word as usize).map(|()| 0)?))
}
