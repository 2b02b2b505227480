#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod command;
mod comparison;
mod dataset;
pub mod demo;
mod error;
mod guests;
mod interrupt;
pub mod overhead;
mod programs;
mod progress;
mod random;
pub mod speculation;
pub mod statistics;
mod table;

use std::env::temp_dir;

use tempfile::TempDir;

pub use comparison::{Measured, Side};
pub use error::Error;
pub use forebay_testkit::Profile;
pub use programs::{Program, Published, Scale, UnknownProgram};
pub use progress::Progress;

/// A folder for what programs write and say; it goes when the value is dropped.
fn scratch_folder() -> Result<TempDir, Error> {
    tempfile::Builder::new()
        .prefix("forebay-")
        .tempdir()
        .map_err(Error::file("create a folder in", &temp_dir()))
}
