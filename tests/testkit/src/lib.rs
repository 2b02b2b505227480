//! What the tests of all crates share.
//!
//! - [`guests::build`] compiles the programs in `tests/guests`.
//! - [`artifacts`] finds the agent, the `forebay` program and what else cargo builds.
//! - [`elf`] moves the program headers of executables.
//! - [`films`] makes media files with ffmpeg.
//! - [`copy_program`] copies a program that is started at once, and [`script`] writes one.
//! - [`skip`] reports a test that could not run on this machine.
//! - [`with_default_signals`] starts a program in which no signal is ignored.
//! - [`long`] says whether the exhaustive variants are wanted.
//!
//! Crates name this one in `[dev-dependencies]` only.
#![forbid(unsafe_code)]

pub mod artifacts;
pub mod elf;
mod error;
pub mod films;
pub mod guests;
pub mod klv;
mod programs;
mod signals;
mod skipped;
mod switches;
pub mod transport;

pub use error::Error;
pub use programs::{copy_program, script};
pub use signals::with_default_signals;
pub use skipped::skip;
pub use switches::{long, switch};
