//! The part of UCX's protocol layer (UCP) that Forebay uses, under its names in `<ucp/api/ucp.h>`, which documents
//! each.
//!
//! The library is loaded at run time ([`Ucp::load`]), so programs start where it is missing. UCX keeps its binary
//! interface within major version 1, and the bindings are those of 1.13.
#![deny(unsafe_op_in_unsafe_fn)]

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    unsafe_op_in_unsafe_fn,
    reason = "bindgen made this file"
)]
#[rustfmt::skip]
mod bindings;

use std::ffi::CStr;

pub use bindings::*;
pub use libloading::Error as LoadError;

/// The file that is loaded.
pub const LIBRARY: &str = "libucp.so.0";

impl Ucp {
    /// Loads UCX.
    ///
    /// # Errors
    /// It is not installed, or too old.
    pub fn load() -> Result<Self, LoadError> {
        // SAFETY: what UCX does when it is loaded, and the types of its functions, are its public interface.
        unsafe { Self::new(LIBRARY) }
    }

    /// What a status means, in UCX's words.
    #[must_use]
    pub fn describe(&self, status: ucs_status_t) -> &'static str {
        // SAFETY: the call returns a constant string for any number.
        unsafe { CStr::from_ptr(self.ucs_status_string(status)) }.to_str().unwrap_or("an unknown error")
    }
}

/// What a call that may go on afterwards returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is done already; the callback is not called.
    Done,
    /// It goes on; the callback will be called.
    Request(ucs_status_ptr_t),
    /// It failed; the callback is not called.
    Failed(ucs_status_t),
}

impl Begun {
    /// Takes what the call returned: null, an address, or a status (`UCS_PTR_STATUS` of `<ucs/type/status.h>`).
    #[must_use]
    pub fn from(returned: ucs_status_ptr_t) -> Self {
        match returned as isize {
            0 => Self::Done,
            status if status < 0 && status >= isize::from(UCS_ERR_LAST) => {
                Self::Failed(status as ucs_status_t)
            }
            _ => Self::Request(returned),
        }
    }
}
