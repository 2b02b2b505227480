//! What makes stalls repeatable: a slow disk, slow swap, little memory, eviction from the page cache.
//!
//! - [`SlowDisk`] is a mounted file system, ext4 or another [`FileSystem`], whose every request takes a [`Profile`]'s latency; [`SlowSwap`] is swap
//!   that does; [`SlowDevice`] is the block device below either.
//! - [`MemoryLimit`] is a control group whose processes have less memory than the machine. All of these need root and
//!   leave nothing behind, however their owner ends.
//! - [`root::Root`] gives a program a folder for its root, such as one on a slow disk.
//! - [`cold::evict`] takes files out of the page cache without any privilege and says what stayed.
//!
//! A program that starts a rig calls [`cleanup::enter_if_asked`] first thing in `main`. Tests cannot; their crate
//! depends on this one with the feature `before-main` instead.
//!
//! Everything unsafe is in the private module `sys`.
#![deny(unsafe_code)]

pub mod cleanup;
pub mod cold;
mod error;
mod profile;
mod rig;
pub mod root;
mod sys;

pub use error::Error;
pub use profile::{Latency, Profile};
pub use rig::{FileSystem, MemoryLimit, Opens, SlowDevice, SlowDisk, SlowSwap, Stats};
