//! Control groups of both versions (cgroups(7)): their folders, their limits, and the memory that is left in them.

mod folders;
mod memory;
mod mounts;
pub mod processes;
pub mod quota;
mod statistics;

pub use folders::Folders;
pub use memory::{
    LIMITS, free_bytes, has_account, is_full, kills, left_bytes, left_of_bytes, limit_bytes, membership,
    missed_pages, of_member, own, own_of, waits_when_full,
};
pub use statistics::{Transfers, recursive};
