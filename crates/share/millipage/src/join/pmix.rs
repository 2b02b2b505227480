//! The rendezvous of hosts that mpirun, prterun or srun starts: PMIx, the interface of such launchers
//! (<https://pmix.github.io>). It uses version 2 of the library's binary interface, which PMIx 3 and later have. The
//! library is loaded at run time.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    mem,
    os::raw::c_uint,
    ptr, slice,
};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::Error;

const LIBRARY: &str = "libpmix.so.2";
/// Set by the launcher.
pub const VARIABLE: &str = "PMIX_RANK";
/// Seconds that a host waits for the others.
const PATIENCE: c_int = 120;

// <pmix_common.h>
const SUCCESS: c_int = 0;
const RANK_WILDCARD: u32 = u32::MAX - 1;
const SCOPE_GLOBAL: u8 = 3;
const TYPE_BOOL: u16 = 1;
const TYPE_INT: u16 = 6;
const TYPE_UINT32: u16 = 14;
const TYPE_BYTE_OBJECT: u16 = 27;
const KEY_BYTES: usize = 512;

/// `pmix_proc_t`: a process, by its job and rank.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    job: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`: a type, and a union whose longest member has three words.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    words: [usize; 3],
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: Value,
}

type Init = unsafe extern "C" fn(*mut Proc, *const Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *const Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// One host's place in a job of PMIx. It is left when this is dropped.
pub struct Pmix {
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error_string: ErrorString,
    me: Proc,
    rounds: c_uint,
}

impl Pmix {
    /// Joins the job that this process was started for.
    ///
    /// # Errors
    /// The library is missing, or the launcher does not answer.
    pub fn new() -> Result<Self, Error> {
        let missing = |error: libloading::Error| Error::NoPmix { file: LIBRARY, reason: error.to_string() };
        // SAFETY: the names and types of the functions are the library's public interface. What it loads itself looks for
        // its symbols among the global ones. It is never unloaded: it has threads.
        let (init, mut pmix) = unsafe {
            let library = Library::open(Some(LIBRARY), RTLD_NOW | RTLD_GLOBAL).map_err(missing)?;
            let library: &'static Library = Box::leak(Box::new(library));
            let init = *library.get::<Init>(b"PMIx_Init\0").map_err(missing)?;
            let pmix = Self {
                finalize: *library.get(b"PMIx_Finalize\0").map_err(missing)?,
                put: *library.get(b"PMIx_Put\0").map_err(missing)?,
                commit: *library.get(b"PMIx_Commit\0").map_err(missing)?,
                fence: *library.get(b"PMIx_Fence\0").map_err(missing)?,
                get: *library.get(b"PMIx_Get\0").map_err(missing)?,
                error_string: *library.get(b"PMIx_Error_string\0").map_err(missing)?,
                me: mem::zeroed(),
                rounds: 0,
            };
            (init, pmix)
        };
        // SAFETY: the call fills the process.
        let status = unsafe { init(&raw mut pmix.me, ptr::null(), 0) };
        if status == SUCCESS {
            return Ok(pmix);
        }
        let error = pmix.check("join", status).err();
        // There is nothing to leave.
        mem::forget(pmix);
        Err(error.unwrap_or(Error::Garbled))
    }

    /// This host's number.
    pub const fn rank(&self) -> u32 {
        self.me.rank
    }

    /// How many hosts there are.
    ///
    /// # Errors
    /// The launcher does not say.
    pub fn hosts(&self) -> Result<u32, Error> {
        self.get(RANK_WILDCARD, c"pmix.job.size", |value| {
            (value.kind == TYPE_UINT32).then_some(value.words[0] as u32)
        })
    }

    /// Says something, and waits for what all say, in the order of their ranks.
    ///
    /// # Errors
    /// Another host does not come.
    pub fn exchange(&mut self, said: &[u8], hosts: u16) -> Result<Vec<Vec<u8>>, Error> {
        // A value without bytes would be none.
        let said = [&[0], said].concat();
        let key = CString::new(format!("forebay.{}", self.rounds)).unwrap_or_default();
        self.rounds += 1;
        let value = Value { kind: TYPE_BYTE_OBJECT, words: [said.as_ptr() as usize, said.len(), 0] };
        let infos = [info(c"pmix.collect", TYPE_BOOL, 1), info(c"pmix.timeout", TYPE_INT, PATIENCE as usize)];
        // SAFETY: what the calls are given lives until they return; they copy it. No process means all of the job.
        unsafe {
            self.check("say something", (self.put)(SCOPE_GLOBAL, key.as_ptr(), &raw const value))?;
            self.check("say something", (self.commit)())?;
            self.check("wait for the others", (self.fence)(ptr::null(), 0, infos.as_ptr(), infos.len()))?;
        }
        (0..u32::from(hosts)).map(|rank| self.get(rank, &key, bytes)).collect()
    }

    fn get<T>(&self, rank: u32, key: &CStr, read: impl FnOnce(&Value) -> Option<T>) -> Result<T, Error> {
        let proc = Proc { rank, ..self.me };
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: the call fills the address with that of a value that the caller has to free, and what it refers to; both
        // are from malloc(3).
        unsafe {
            let status = (self.get)(&raw const proc, key.as_ptr(), ptr::null(), 0, &raw mut value);
            self.check("hear the others", status)?;
            let read = value.as_ref().and_then(read);
            if !value.is_null() {
                if (*value).kind == TYPE_BYTE_OBJECT {
                    libc::free((*value).words[0] as *mut c_void);
                }
                libc::free(value.cast());
            }
            read.ok_or(Error::Garbled)
        }
    }

    fn check(&self, what: &str, status: c_int) -> Result<(), Error> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: the call returns a constant string for any number.
        let reason = unsafe { CStr::from_ptr((self.error_string)(status)) }.to_string_lossy();
        Err(Error::Meeting(format!("PMIx cannot {what} ({reason})")))
    }
}

impl Drop for Pmix {
    fn drop(&mut self) {
        // SAFETY: it was initialised, once. A launcher that is gone is no concern of ours.
        unsafe { (self.finalize)(ptr::null(), 0) };
    }
}

fn info(name: &CStr, kind: u16, word: usize) -> Info {
    let mut key = [0; KEY_BYTES];
    for (to, from) in key.iter_mut().zip(name.to_bytes()) {
        *to = *from as c_char;
    }
    Info { key, flags: 0, value: Value { kind, words: [word, 0, 0] } }
}

/// A copy of a value's bytes behind the first.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    let [address, length, _] = value.words;
    if value.kind != TYPE_BYTE_OBJECT || address == 0 {
        return None;
    }
    // SAFETY: a byte object is an address and a length, and belongs to the caller.
    Some(unsafe { slice::from_raw_parts(address as *const u8, length) }.get(1..)?.to_vec())
}

const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);
