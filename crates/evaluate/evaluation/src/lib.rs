#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
pub mod experiments;
mod harness;
pub mod machine;
pub mod model;
pub mod projection;
pub mod run;
pub mod servers;
pub mod share;

use std::env::temp_dir;

use tempfile::TempDir;

pub use error::Error;
pub use forebay_lab::{FileSystem, Profile};
pub use harness::progress::Progress;
pub use harness::statistics;
pub use run::comparison::{Accounts, Measured, Side};
pub use run::counters::Counters;
pub use run::programs::{Program, Published, Scale};
pub use run::swapping::{Size as SwappingSize, SwappingProgram};

/// A folder for what programs write and say; it goes when the value is dropped.
fn scratch_folder() -> Result<TempDir, Error> {
    tempfile::Builder::new()
        .prefix("forebay-")
        .tempdir()
        .map_err(Error::file("create a folder in", &temp_dir()))
}
