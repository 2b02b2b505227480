//! Failures as C sees them: a return value, and a sentence that the thread can ask for.

use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// As for everybody who shares.
    #[error(transparent)]
    Sharing(#[from] forebay_millipage::Error),
    /// A pointer to nothing.
    #[error("{0} is NULL; pass the address of what is to be filled in")]
    Null(&'static str),
    /// Neither reading nor writing.
    #[error("access is {0}; pass FOREBAY_READ or FOREBAY_WRITE")]
    Access(c_int),
    /// No operation on a word.
    #[error("operation is {0}; pass FOREBAY_LOAD or another one of forebay.h")]
    Operation(c_int),
    /// No comparison of a word.
    #[error("comparison is {0}; pass FOREBAY_EQUAL or another one of forebay.h")]
    Comparison(c_int),
    /// No type of number.
    #[error("type is {0}; pass FOREBAY_INT8 or another one of forebay.h")]
    Number(c_int),
    /// Nothing to do with numbers.
    #[error("reduction is {0}; pass FOREBAY_SUM or another one of forebay.h")]
    Reduction(c_int),
    /// No rank, nor another placement.
    #[error("there is no host {rank}: ranks are from 0 to {}", .hosts - 1)]
    Rank {
        /// That was given.
        rank: c_int,
        /// How many there are.
        hosts: u16,
    },
    /// Less than nothing.
    #[error("there cannot be room for {0} figures; pass 0 or more")]
    Room(c_int),
    /// The process has no memory left.
    #[error("there is no memory for pointers to {0} rows; allocate fewer")]
    Table(usize),
}

/// What a function returns that failed.
pub trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl<T> Failed for *mut T {
    const FAILED: Self = ptr::null_mut();
}

thread_local! {
    static SENTENCE: RefCell<CString> = RefCell::default();
}

/// Does what a function is for. A failure, or a panic, leaves a sentence behind.
pub fn attempt<T: Failed>(act: impl FnOnce() -> Result<T, Failure>) -> T {
    // What a panic may leave half done is of this host alone, and every lock of ours can do with that.
    let sentence = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => "forebay failed in a way that it should not; standard error says more".into(),
    };
    // A thread that is ending has no place for it any more.
    let _ = SENTENCE.try_with(|place| place.replace(c_string(&sentence)));
    T::FAILED
}

/// The last failure's sentence, until the next one.
pub fn last_sentence() -> *const c_char {
    SENTENCE.try_with(|place| place.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A text that ends where it contains a zero.
pub fn c_string(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}
