//! Many rows at once.

use std::{
    ffi::{c_int, c_void},
    slice,
};

use crate::{
    failure::{Failure, attempt},
    host::host,
};

/// See the header.
///
/// # Safety
/// There are so many pointers, and `to` has room for as many times so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_gather(
    rows: *const *const c_void,
    count: usize,
    bytes: usize,
    to: *mut c_void,
) -> c_int {
    attempt(|| {
        let host = host()?;
        // SAFETY: as the caller says.
        let starts = unsafe { starts(rows, count)? };
        if to.is_null() {
            return Err(Failure::Null("to"));
        }
        // SAFETY: not null, and as large as the caller says.
        let to = unsafe { slice::from_raw_parts_mut(to.cast(), all(count, bytes)?) };
        host.gather(&starts, to)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// As for [`forebay_gather`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_scatter(
    rows: *const *mut c_void,
    count: usize,
    bytes: usize,
    from: *const c_void,
) -> c_int {
    attempt(|| {
        let host = host()?;
        // SAFETY: as the caller says.
        let starts = unsafe { starts(rows.cast(), count)? };
        if from.is_null() {
            return Err(Failure::Null("from"));
        }
        // SAFETY: not null, and as large as the caller says.
        let from = unsafe { slice::from_raw_parts(from.cast(), all(count, bytes)?) };
        host.scatter(&starts, from)?;
        Ok(0)
    })
}

/// # Safety
/// There are so many pointers.
unsafe fn starts(rows: *const *const c_void, count: usize) -> Result<Vec<usize>, Failure> {
    if rows.is_null() {
        return Err(Failure::Null("rows"));
    }
    // SAFETY: not null, and as many as the caller says.
    let rows = unsafe { slice::from_raw_parts(rows, count) };
    Ok(rows.iter().map(|row| *row as usize).collect())
}

/// Bytes of so many rows, as many as there can be.
fn all(count: usize, bytes: usize) -> Result<usize, Failure> {
    let all = count.checked_mul(bytes).filter(|all| isize::try_from(*all).is_ok());
    all.ok_or(Failure::Table(count))
}
