//! Compares a program under `forebay run` with the same program alone: same output, same exit status, same files.
//!
//! A [`Case`] runs a command twice, without and with `forebay run`, and compares everything that the command left behind.
//! Each run begins in a fresh scratch directory at the same path. Its files have been dropped from the page cache.
//!
//! | variable | meaning |
//! |---|---|
//! | `FOREBAY_COMPAT_PLAIN=1` | both sides run without `forebay run`: checks that the cases themselves are repeatable |
//! | `FOREBAY_COMPAT_DISK=ssd-1ms-q128` | scratch directories and swap lie on slow disks of that profile (root only) |
//! | `FOREBAY_COMPAT_LONG=1` | the exhaustive variants, see each test |
//! | `FOREBAY_COMPAT_DROP=1` | also drop every page and name cache of the machine before a run (root only) |
//! | `FOREBAY_COMPAT_FIGURES=FILE` | append each case's statistics to the file, one line a case |
//! | `FOREBAY_COMPAT_KEEP=1` | leave the scratch directories of failed cases |
//!
//! Both sides get `FOREBAY_STALL_US_MIN` of [`STALL_US_MIN`], so that speculation starts at the slightest stall.

#![forbid(unsafe_code)]

pub mod case;
pub mod fixtures;
mod lines;
pub mod memory;
pub mod mounted;
pub mod observe;
pub mod repeat;
pub mod run;
pub mod scratch;
pub mod tree;

pub use case::Case;
pub use forebay_testkit::{guests, long, skip, switch};
pub use repeat::{comes_to, in_some_run};
pub use run::Outcome;
pub use scratch::Scratch;

/// What both sides get as `FOREBAY_STALL_US_MIN`: a call that takes longer than this many microseconds is a stall.
pub const STALL_US_MIN: &str = "8";

/// Whether the tests run as root.
#[must_use]
pub fn root() -> bool {
    nix::unistd::geteuid().is_root()
}
