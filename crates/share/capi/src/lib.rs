//! Shared memory for C: the functions of `include/forebay.h`, which documents each.
//!
//! Every pointer argument is checked before its use: pointers to shared memory are looked up, others compared with
//! null. A panic never leaves the library; it becomes an error.

mod atomics;
mod failure;
mod host;
mod memory;
mod pthread;
mod rows;
mod sync;
mod system_calls;
mod team;

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    sync::OnceLock,
};

use failure::{Failure, attempt, last_sentence};
use forebay_millipage::{Options, Row};
use host::{host, placement};

/// As the header says; `FOREBAY_READ` and `FOREBAY_WRITE`.
const READ: c_int = 0;
const WRITE: c_int = 1;

/// A figure, as the header has it.
#[repr(C)]
pub struct Stat {
    name: *const c_char,
    value: u64,
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_join(bytes: usize, views: c_uint) -> c_int {
    attempt(|| {
        let default = Options::default();
        let views = if views == 0 { default.views } else { views as usize };
        let options = Options { bytes, views, ..default };
        host::join(options).map(|()| 0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_leave() -> c_int {
    attempt(|| host::leave().map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_rank() -> c_int {
    attempt(|| Ok(host()?.rank().into()))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hosts() -> c_int {
    attempt(|| Ok(host()?.hosts().into()))
}

/// See the header.
///
/// # Safety
/// `first` and `end` are null, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_block(
    rank: c_int,
    count: usize,
    first: *mut usize,
    end: *mut usize,
) -> c_int {
    attempt(|| {
        let host = host()?;
        let block = host.block_of(host::rank(rank, host.hosts())?, count);
        if first.is_null() || end.is_null() {
            return Err(Failure::Null("first or end"));
        }
        // SAFETY: not null, so the caller's own, as the header wants it.
        unsafe {
            first.write(block.start);
            end.write(block.end);
        }
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_rows(rows: usize, bytes: usize, chunk: usize, placed: c_int) -> *mut c_void {
    attempt(|| {
        let host = host()?;
        let table = memory::Table::new(rows)?;
        let rows = host.rows_in_chunks::<u8>(rows, bytes, chunk, placement(placed, host.hosts())?)?;
        Ok(table.fill((0..rows.len()).map(|index| rows.row(index).as_ptr())))
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_alloc(bytes: usize, placed: c_int) -> *mut c_void {
    attempt(|| {
        let host = host()?;
        let rows = host.rows::<u8>(1, bytes, placement(placed, host.hosts())?)?;
        Ok(rows.row(0).as_ptr().cast())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_free_together(start: *mut c_void) -> c_int {
    attempt(|| Ok(host()?.free_together(start as usize).map(|()| 0)?))
}

/// See the header.
///
/// # Safety
/// `bytes` is null, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_left(bytes: *mut usize) -> c_int {
    attempt(|| {
        let left = host()?.left();
        if bytes.is_null() {
            return Err(Failure::Null("bytes"));
        }
        // SAFETY: not null, so the caller's own, as the header wants it.
        unsafe { bytes.write(left) };
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_malloc(bytes: usize) -> *mut c_void {
    attempt(|| Ok(host()?.malloc::<u8>(bytes)?.as_ptr().cast()))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_free(start: *mut c_void) -> c_int {
    attempt(|| {
        let host = host()?;
        if !start.is_null() {
            host.free(start as usize)?;
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `bytes` is null, or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_malloc_left(bytes: *mut usize) -> c_int {
    attempt(|| {
        let left = host()?.malloc_left();
        if bytes.is_null() {
            return Err(Failure::Null("bytes"));
        }
        // SAFETY: not null, so the caller's own, as the header wants it.
        unsafe { bytes.write(left) };
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_barrier() -> c_int {
    attempt(|| Ok(host()?.barrier().map(|()| 0)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_prefetch(start: *const c_void, bytes: usize, access: c_int) -> c_int {
    with_access(start, bytes, access, Row::prefetch, Row::prefetch_for_writing)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_push(start: *const c_void, bytes: usize) -> c_int {
    attempt(|| {
        host()?.bytes_at(start as usize, bytes)?.push();
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_touch(start: *const c_void, bytes: usize, access: c_int) -> c_int {
    with_access(start, bytes, access, Row::touch, Row::touch_for_writing)
}

fn with_access(
    start: *const c_void,
    bytes: usize,
    access: c_int,
    read: impl Fn(&Row<u8>),
    write: impl Fn(&Row<u8>),
) -> c_int {
    attempt(|| {
        let row = host()?.bytes_at(start as usize, bytes)?;
        match access {
            READ => read(&row),
            WRITE => write(&row),
            _ => return Err(Failure::Access(access)),
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `stats` is null, or has room for `room` figures.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_stats(stats: *mut Stat, room: c_int) -> c_int {
    /// The names as C wants them.
    static NAMES: OnceLock<Vec<std::ffi::CString>> = OnceLock::new();
    attempt(|| {
        let host = host()?;
        let room = usize::try_from(room).map_err(|_| Failure::Room(room))?;
        if room == 0 {
            return Ok(forebay_millipage::Counts::default().named().len() as c_int);
        }
        if stats.is_null() {
            return Err(Failure::Null("stats"));
        }
        let named = host.take_counts().named();
        let names = NAMES.get_or_init(|| named.iter().map(|(name, _)| failure::c_string(name)).collect());
        for (index, ((_, value), name)) in named.iter().zip(names).enumerate().take(room) {
            // SAFETY: not null, and below the room that the caller says there is.
            unsafe { stats.add(index).write(Stat { name: name.as_ptr(), value: *value }) };
        }
        Ok(named.len() as c_int)
    })
}

/// See the header: a name of version 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_count() -> c_int {
    forebay_hosts()
}

/// See the header: a name of version 0.1.
///
/// # Safety
/// `counts` is null, or has room for `room` figures.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_counts(counts: *mut Stat, room: c_int) -> c_int {
    // SAFETY: what the caller promises is what the other function wants; both structures of the header are a `Stat`.
    unsafe { forebay_stats(counts, room) }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_error() -> *const c_char {
    last_sentence()
}
