//! What Linux says of itself in files and calls that no library of the field reads: control groups, cachestat(2).
#![deny(unsafe_op_in_unsafe_fn)]

mod cachestat;
pub mod groups;
pub mod kernel_text;

pub use cachestat::{CacheStat, cachestat, has_cachestat};
