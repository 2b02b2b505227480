//! What makes stalls repeatable and tests cold: a slow disk, slow swap, little memory, eviction from the page cache, guest programs.
//!
//! - [`SlowDisk`] is a mounted ext4 whose every request takes a [`Profile`]'s latency; [`SlowSwap`] is swap
//!   that does; [`SlowDevice`] is the block device below either.
//! - [`MemoryLimit`] is a control group whose processes have less memory than the machine. All of these need root and
//!   leave nothing behind, however their owner ends.
//! - [`cold::evict`] takes files out of the page cache without any privilege and says what stayed.
//! - [`guests::build`] compiles the programs in `guests/`; [`artifacts`] finds the agent and the `forebay` program.
//!
//! A program that starts a rig calls [`guardian::enter_if_asked`] first thing in `main`. Tests cannot; their crate
//! depends on this one with the feature `before-main` instead.
//!
//! Everything unsafe is in the private module `sys`.
#![deny(unsafe_code)]

pub mod artifacts;
pub mod cold;
mod error;
pub mod guardian;
pub mod guests;
mod profile;
mod rig;
mod sys;

pub use error::Error;
pub use profile::{Latency, Profile, UnknownProfile};
pub use rig::{MemoryLimit, SlowDevice, SlowDisk, SlowSwap, Stats};

/// Says on stderr, also where the test harness keeps what tests print to itself, that `test` did not run and why.
///
/// A test that needs what this host or user does not have calls this and returns.
pub fn skip(test: &str, why: &dyn std::fmt::Display) {
    use std::io::Write;
    // `eprintln!` is captured; a stderr that is closed cannot be told anything.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
