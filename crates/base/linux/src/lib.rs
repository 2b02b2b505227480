//! Linux, as far as no library of the field covers it: control groups, text of the kernel, starting programs, single calls.
//!
//! - [`kernel_text`] reads what `/proc` and control groups contain. Functions of text, without input or output.
//! - [`groups`] finds control groups and reads their limits.
//! - [`process`] starts programs in the state that this process was started in, and passes signals on.
//! - [`cachestat()`] and [`features`] are kernel calls without a wrapper elsewhere.
#![deny(unsafe_op_in_unsafe_fn)]

mod cachestat;
pub mod features;
pub mod groups;
pub mod kernel_text;
pub mod process;
mod reason;

pub use cachestat::{CacheStat, cachestat, has_cachestat};
pub use reason::reason;
