//! What tests of the whole need: the built programs, the guest programs, and a word about tests that did not run.
//!
//! - [`guests::build`] compiles the programs in `tests/guests`.
//! - [`artifacts`] finds the agent, the `forebay` program and what else cargo builds.
//! - [`skip`] reports a test that could not run on this machine.
//!
//! Crates name this one in `[dev-dependencies]` only.
#![forbid(unsafe_code)]

pub mod artifacts;
mod error;
pub mod guests;

pub use error::Error;

/// Says on stderr, also where the test harness keeps what tests print to itself, that `test` did not run and why.
///
/// A test that needs what this host or user does not have calls this and returns.
pub fn skip(test: &str, why: &dyn std::fmt::Display) {
    use std::io::Write;
    // `eprintln!` is captured; a stderr that is closed cannot be told anything.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
