//! Control groups of both versions (cgroups(7)): where they lie, and what memory they leave to those that are in them.
#![forbid(unsafe_code)]

mod folders;
mod memory;
mod mounts;

pub use folders::Folders;
pub use memory::{LIMITS, free_bytes, limit_bytes, own, own_of};
